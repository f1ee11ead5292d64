"""Running a run again from a task on, as a new run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, Ref, TaskFailed, Variable, put, task, workflow
from onceflow.errors import InvalidOption, NameTaken, NoSuchTask
from onceflow.handlers import handler, ignore
from tests.helpers.traces import note, traces


@task
def begin(file: str, number: int) -> int:
    note(file, f"begin {number}")
    return number


@task
def other(file: str, number: int) -> bytes:
    note(file, f"other {number}")
    return bytes(100_000 * number)


@task.pure
def between(file: str, number: int) -> int:
    note(file, "between")
    return number


@task
def join(file: str, number: int, data: bytes) -> int:
    note(file, f"join {number} {len(data)}")
    return number + len(data)


@task
def end(file: str, number: int) -> int:
    note(file, "end")
    return number


@workflow
def flow(file: str, left: int, right: int) -> int:
    return end.bind(file, join.bind(file, between.bind(file, begin.bind(file, left)), other.bind(file, right)))


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "trace")


def since(file: str) -> list[str]:
    """What was noted since somebody asked last."""
    found = traces(file)
    Path(file).unlink(missing_ok=True)
    return found


def test_what_the_task_leads_to_is_done_again(engine: Engine, file: str) -> None:
    first = engine.run_async(flow.bind(file, 1, 2), metadata={"team": "sales"})
    assert first.result() == 200_001
    since(file)

    again = engine.rerun_async(first.id, from_task="join")

    assert again.result() == 200_001
    assert since(file) == ["between", "join 1 200000", "end"]  # what was not saved, too
    assert again.id != first.id
    assert engine.info(again.id).metadata == {"team": "sales"}
    assert engine.rerun(first.id, from_task=["end"]) == 200_001
    assert since(file) == ["end"]

    engine.delete(first.id)
    assert engine.get_output(again.id, "other") == bytes(200_000)


def test_a_run_may_be_run_again_and_again(engine: Engine, file: str) -> None:
    first = engine.run_async(flow.bind(file, 1, 2))
    first.result()
    second = engine.rerun_async(first.id, from_task="end")
    second.result()
    since(file)
    assert engine.rerun(second.id, from_task="end") == 200_001
    assert since(file) == ["end"]


def test_with_other_arguments_what_is_the_same_is_reused(engine: Engine, file: str) -> None:
    first = engine.run_async(flow.bind(file, 1, 2))
    first.result()
    since(file)
    assert engine.rerun(first.id, node=flow.bind(file, 1, 3)) == 300_001
    assert sorted(since(file)) == ["between", "end", "join 1 300000", "other 3"]
    assert engine.rerun(first.id, node=flow.bind(file, 1, 2), from_task="end") == 200_001
    assert since(file) == ["end"]


def test_a_name_is_one_piece_of_work(engine: Engine, file: str) -> None:
    first = engine.run_async(flow.bind(file, 1, 2))
    first.result()
    since(file)
    assert engine.rerun(first.id, from_task="end", name="again") == 200_001
    assert engine.rerun(first.id, from_task="end", name="again") == 200_001
    assert since(file) == ["end"]
    with pytest.raises(NameTaken):
        engine.rerun(first.id, node=flow.bind(file, 7, 2), name="again")


def test_what_there_is_not_is_refused(engine: Engine, file: str) -> None:
    first = engine.run_async(flow.bind(file, 1, 2))
    first.result()
    count = len(engine.list_runs(limit=None))
    with pytest.raises(NoSuchTask, match="there is no task 'nothing' in run"):
        engine.rerun(first.id, from_task="nothing")
    with pytest.raises(InvalidOption, match="say from which task on, or give a graph to run instead"):
        engine.rerun(first.id)
    assert len(engine.list_runs(limit=None)) == count


@task
def fail(file: str, number: int) -> int:
    note(file, "fail")
    if not Path(file + ".mended").exists():
        raise ValueError("no")
    return number


def test_a_failed_run_may_be_run_again(engine: Engine, file: str) -> None:
    with pytest.raises(TaskFailed):
        engine.run(fail.bind(file, begin.bind(file, 1)), name="failed")
    Path(file + ".mended").touch()
    since(file)
    assert engine.rerun("failed", from_task="fail") == 1
    assert since(file) == ["fail"]
    assert engine.status("failed") == "failed"


@task
def expand(file: str, number: int) -> Any:
    note(file, "expand")
    return end.bind(file, begin.bind(file, number))


def test_returned_graphs_are_reused_as_far_as_they_are_done(engine: Engine, file: str) -> None:
    first = engine.run_async(fail.bind(file, expand.bind(file, 3)))
    Path(file + ".mended").touch()
    assert first.result() == 3
    since(file)
    assert engine.rerun(first.id, from_task="fail") == 3
    assert since(file) == ["fail"]
    assert engine.rerun(first.id, from_task="expand/end") == 3
    assert since(file) == ["end", "fail"]
    assert engine.rerun(first.id, from_task="expand") == 3
    assert since(file) == ["expand", "begin 3", "end", "fail"]


@task
def give(file: str) -> dict[str, Ref[bytes]]:
    note(file, "give")
    return {"large": put(b"x" * 100_000), "small": put(b"y")}


@task
def measure(file: str, refs: dict[str, Ref[bytes]]) -> int:
    note(file, "measure")
    return sum([len(ref.get()) for ref in refs.values()])


def test_refs_are_reused(engine: Engine, file: str) -> None:
    first = engine.run_async(measure.bind(file, give.bind(file)))
    assert first.result() == 100_001
    since(file)
    assert engine.rerun(first.id, from_task="measure") == 100_001
    assert since(file) == ["measure"]


def undo(file: str) -> None:
    note(file, "undone")


@task(rollback=undo)
def book(file: str) -> int:
    note(file, "booked")
    return 1


def test_effects_of_the_first_run_stay_its_own(engine: Engine, file: str) -> None:
    Path(file + ".mended").touch()
    first = engine.run_async(fail.bind(file, book.bind(file)), on_failure="undo")
    first.result()
    Path(file + ".mended").unlink()
    since(file)
    with pytest.raises(TaskFailed):
        engine.rerun(first.id, from_task="fail")
    assert since(file) == ["fail"]


@task.pure
def refuse(file: str) -> int:
    note(file, "refuse")
    raise ValueError("no")


def test_what_a_handler_gave_is_reused(engine: Engine, file: str) -> None:
    answered = refuse.options(handlers=[handler(ValueError, ignore(7))])
    first = engine.run_async(end.bind(file, answered.bind(file)))
    assert first.result() == 7
    since(file)
    assert engine.rerun(first.id, from_task="end") == 7
    assert since(file) == ["end"]


COUNT = Variable("count", 0)


@task(writes=[COUNT])
def count(file: str) -> int:
    note(file, "count")
    COUNT.update(lambda before: before + 1)
    return 1


@task
def tell(file: str, *counted: int) -> int:
    note(file, "tell")
    return COUNT.get()


def test_what_was_written_to_variables_is_reused(engine: Engine, file: str) -> None:
    first = engine.run_async(tell.bind(file, count.bind(file), count.bind(file)))
    assert first.result() == 2
    since(file)
    assert engine.rerun(first.id, from_task="tell") == 2
    assert since(file) == ["tell"]
    assert engine.rerun(first.id, from_task="count_1") == 2  # both write again: their sum cannot be taken apart
    assert since(file) == ["count", "count", "tell"]
