"""Looking at runs: `get_output`, `status`, `list_runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import onceflow
from onceflow import Engine, TaskFailed, task, transaction, workflow
from onceflow.errors import AmbiguousRun, NoOutput, NoSuchRun
from tests.engine.common import add, double, fail_while, keep, pass_door
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script
from tests.helpers.waiting import until


@task(can_rollback=True, num_returns=2)
def pair() -> tuple[int, bytes]:
    return 1, b"x" * 100_000


@task
def nest(number: int) -> int:
    return add.bind(keep.bind(number), 1)


@workflow
def looked_at(number: int) -> int:
    return add.bind(double.bind(keep.bind(number)), 1)


@workflow
def other_workflow() -> int:
    return keep.bind(1)


def failed_run(engine: Engine, node: Any) -> str:
    with pytest.raises(TaskFailed) as caught:
        engine.run(node)
    return caught.value.run


@task
def fail(*_: Any) -> None:
    raise ValueError("failed")


def test_the_output_of_a_run_is_its_result(engine: Engine) -> None:
    engine.run(looked_at.bind(2), name="result")
    assert engine.get_output("result") == 5
    assert engine.get_output(engine.list_runs(name="result")[0].id) == 5


def test_the_output_of_a_saved_task(engine: Engine) -> None:
    engine.run(looked_at.bind(2), name="saved task")
    assert engine.get_output("saved task", task="keep") == 2
    assert engine.get_output("saved task", task="add") == 5


def test_the_output_of_a_task_that_is_not_saved_is_not_there(engine: Engine) -> None:
    engine.run(looked_at.bind(2), name="unsaved task")
    with pytest.raises(NoOutput, match="checkpoint=False") as caught:
        engine.get_output("unsaved task", task="double")
    assert caught.value.task == "double"


def test_the_output_of_a_task_that_does_not_exist(engine: Engine) -> None:
    engine.run(looked_at.bind(2), name="no such task")
    with pytest.raises(NoOutput, match="no such task"):
        engine.get_output("no such task", task="nobody")


def test_the_output_of_a_run_that_does_not_exist(engine: Engine) -> None:
    with pytest.raises(NoSuchRun):
        engine.get_output("nobody")


def test_the_output_of_several_parts_is_a_tuple(engine: Engine) -> None:
    engine.run(keep.bind(pair.bind()[0]), name="pair")
    assert engine.get_output("pair", task="pair") == (1, b"x" * 100_000)


def test_the_output_of_a_task_that_returned_a_graph_is_the_graphs(engine: Engine) -> None:
    engine.run(keep.bind(nest.bind(3)), name="nested output")
    assert engine.get_output("nested output", task="nest") == 4
    assert engine.get_output("nested output") == 4


def test_tasks_of_a_returned_graph_have_outputs_too(engine: Engine) -> None:
    engine.run(nest.bind(3), name="nested task")
    assert engine.get_output("nested task", task="nest/keep") == 3


def test_what_is_saved_of_a_failed_run_can_be_had(engine: Engine) -> None:
    run = failed_run(engine, fail.bind(keep.bind(7)))
    assert engine.get_output(run, task="keep") == 7


def test_a_failed_run_has_no_output(engine: Engine) -> None:
    run = failed_run(engine, fail.bind(keep.bind(7)))
    with pytest.raises(NoOutput, match="failed"):
        engine.get_output(run)


def test_what_is_saved_of_a_run_that_goes_on_can_be_had(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(add.bind(pass_door.options(after=[keep.bind(7)]).bind(door.path, 1), 1))
    door.wait()
    # then
    assert engine.get_output(handle.id, task="keep") == 7
    with pytest.raises(NoOutput, match="not been done yet"):
        engine.get_output(handle.id, task="pass_door")
    with pytest.raises(NoOutput):
        engine.get_output(handle.id)
    # when
    door.open()
    handle.result(60)
    # then
    assert engine.get_output(handle.id, task="pass_door") == 1


def test_what_may_still_change_is_not_handed_out(engine: Engine, door: Door) -> None:
    # given a saved task below one that is neither deterministic nor saved, which somebody else still reads
    drawn = task(checkpoint=False, can_rollback=True, name="drawn")(lambda: 3).bind()
    shown = task(can_rollback=True, name="shown")(lambda number: number).bind(drawn)
    path = door.path

    def late(number: int, other: int) -> int:
        pass_door(path)
        return number

    handle = engine.run_async(task(can_rollback=True)(late).bind(drawn, shown))
    door.wait()

    def reason() -> str:
        with pytest.raises(NoOutput) as caught:
            engine.get_output(handle.id, task="shown")
        return str(caught.value)

    # then it is saved soon, but not handed out
    until(lambda: "not been done yet" not in reason())
    assert "may have to run again" in reason()
    # when
    door.open()
    handle.result(60)
    # then
    assert engine.get_output(handle.id, task="shown") == 3


def test_what_a_transaction_may_take_back_is_not_handed_out(engine: Engine, door: Door) -> None:
    # given a transaction that is not over
    path = door.path
    booked = task(rollback=lambda: None, name="booked")(lambda: "room")

    def late(room: str) -> str:
        pass_door(path)
        return room

    waiting = task(can_rollback=True, name="waiting")(late)
    handle = engine.run_async(transaction(name="trip")(lambda: waiting.bind(booked.bind())).bind())
    door.wait()

    def reason() -> str:
        with pytest.raises(NoOutput) as caught:
            engine.get_output(handle.id, task="trip/booked")
        return str(caught.value)

    # then it is saved soon, but not handed out
    until(lambda: "not been done yet" not in reason())
    assert "may have to run again" in reason()
    # when
    door.open()
    handle.result(60)
    # then
    assert engine.get_output(handle.id, task="trip/booked") == "room"


def test_another_engine_sees_outputs_too(engine: Engine, home: Path) -> None:
    engine.run(keep.bind(b"x" * 100_000), name="seen by others")
    with Engine(home, workers=1) as other:
        assert other.get_output("seen by others") == b"x" * 100_000


def test_the_status_of_a_run_that_does_not_exist(engine: Engine) -> None:
    with pytest.raises(NoSuchRun):
        engine.status("nobody")


def test_runs_are_listed_newest_first(engine: Engine) -> None:
    for number in range(3):
        engine.run(keep.bind(number), name=f"listed {number}")
    assert [info.name for info in engine.list_runs(name="listed")] == ["listed 2", "listed 1", "listed 0"]


def test_a_listed_run_tells_what_it_is(engine: Engine) -> None:
    engine.run(looked_at.bind(1), name="told")
    info = engine.list_runs(name="told")[0]
    assert (info.name, info.workflow, info.status) == ("told", "looked_at", "succeeded")
    assert info.created <= info.updated


def test_a_run_of_a_task_is_listed_under_its_name(engine: Engine) -> None:
    engine.run(keep.bind(1), name="task listed")
    assert engine.list_runs(name="task listed")[0].workflow == "keep"


def test_runs_are_listed_by_workflow(engine: Engine) -> None:
    engine.run(other_workflow.bind())
    engine.run(keep.bind(1))
    assert [info.workflow for info in engine.list_runs(workflow="other_workflow")] == ["other_workflow"]


def test_runs_are_listed_by_status(engine: Engine, tmp_path: Path) -> None:
    # given
    (tmp_path / "fault").touch()
    failed = failed_run(engine, fail_while.bind(str(tmp_path / "fault")))
    # then
    assert failed in [info.id for info in engine.list_runs(status="failed")]
    assert failed not in [info.id for info in engine.list_runs(status="succeeded")]
    assert failed in [info.id for info in engine.list_runs(status=["failed", "succeeded"])]
    assert {info.status for info in engine.list_runs(status=["failed", "succeeded"])} == {"failed", "succeeded"}


def test_running_runs_are_listed(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    assert [info.id for info in engine.list_runs(status="running")] == [handle.id]
    assert engine.list_runs(status="interrupted") == []
    door.open()
    handle.result(60)
    assert engine.list_runs(status="running") == []


def test_the_list_is_limited(engine: Engine) -> None:
    for _ in range(3):
        engine.run(keep.bind(1))
    assert len(engine.list_runs(limit=2)) == 2
    assert len(engine.list_runs(status="succeeded", limit=2)) == 2
    assert len(engine.list_runs(status=["succeeded", "running"], limit=2)) == 2


def test_a_name_is_found_by_its_beginning_literally(engine: Engine) -> None:
    engine.run(keep.bind(1), name="per%cent_x")
    engine.run(keep.bind(1), name="perXcentYx")
    assert [info.name for info in engine.list_runs(name="per%cent_")] == ["per%cent_x"]


def test_filters_apply_together(engine: Engine) -> None:
    engine.run(looked_at.bind(1), name="together a")
    engine.run(keep.bind(1), name="together b")
    found = engine.list_runs(name="together", workflow="looked_at", status="succeeded")
    assert [info.name for info in found] == ["together a"]


def test_a_status_that_does_not_exist_is_refused(engine: Engine) -> None:
    with pytest.raises((TypeError, ValueError)):
        engine.list_runs(status="sleeping")  # type: ignore[arg-type]


def test_runs_are_listed_page_by_page(engine: Engine) -> None:
    made = [engine.run_async(keep.bind(number), name=f"page-{number}") for number in range(5)]
    for handle in made:
        handle.result()
    pages = []
    before = None
    while page := engine.list_runs(name="page-", limit=2, before=before):
        pages.append([info.name for info in page])
        before = page[-1].id
    assert pages == [["page-4", "page-3"], ["page-2", "page-1"], ["page-0"]]
    assert len(engine.list_runs(name="page-", limit=None)) == 5


def test_a_run_is_found_by_what_somebody_types(engine: Engine) -> None:
    handle = engine.run_async(keep.bind(1), name="typed-in-full")
    handle.result()
    info = engine.info("typed-in-full")
    assert info == engine.info(handle.id) == engine.find("typed-in") == engine.find(handle.id[:-1])
    assert (info.id, info.name, info.status) == (handle.id, "typed-in-full", "succeeded")


def test_a_beginning_that_could_mean_several_runs_is_ambiguous(engine: Engine) -> None:
    engine.run_many([keep.bind(number) for number in range(7)], names=[f"twin-{number}" for number in range(7)])
    with pytest.raises(AmbiguousRun, match=r"'twin-' could be twin-6, twin-5, .*, …: give more") as caught:
        engine.find("twin-")
    assert caught.value.candidates == ("twin-6", "twin-5", "twin-4", "twin-3", "twin-2")
    assert engine.find("twin-1").name == "twin-1"


@pytest.mark.parametrize("text", ["", "nobody is called so"])
def test_what_is_the_beginning_of_no_run_is_not_found(engine: Engine, text: str) -> None:
    with pytest.raises(NoSuchRun):
        engine.find(text)
    with pytest.raises(NoSuchRun):
        engine.info(text)


def test_the_size_of_a_run_grows_with_what_it_saves(engine: Engine) -> None:
    sizes = []
    for size in (10, 10_000, 1_000_000):
        handle = engine.run_async(keep.bind(bytes(size)))
        handle.result()
        sizes.append(engine.size(handle.id))
    assert 10 < sizes[0] < 10_000 < sizes[1] < 1_000_000 < sizes[2]
    with pytest.raises(NoSuchRun):
        engine.size("nobody")


def test_what_is_saved_can_be_read_long_after_its_code_is_gone(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from onceflow import task\n\n@task\ndef sell(what):\n    return what + ' sold'\n"
    )
    run_script(tmp_path, "from shop import sell; from onceflow import run; run(sell.bind('tea'), name='sale')")
    (tmp_path / "shop.py").unlink()
    with Engine(tmp_path / "home") as engine:
        assert engine.get_output("sale") == "tea sold"
        assert engine.resume("sale") == "tea sold"
        assert [(info.id, info.state) for info in engine.list_tasks("sale")] == [("sell", "done")]


@task
def look_from_inside(run: str) -> str:
    return onceflow.status(run)


def test_a_task_that_looks_at_runs_finds_those_of_its_engine(engine: Engine) -> None:
    engine.run(add.bind(1, 2), name="seen from inside")
    assert engine.run(look_from_inside.bind("seen from inside")) == "succeeded"
