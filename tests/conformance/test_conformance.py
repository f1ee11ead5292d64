"""What must be the same wherever tasks run and wherever runs are written down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, for_each, ref
from onceflow.errors import SharedActor, TaskTimedOut
from tests.conformance import program
from tests.conformance.program import LARGE
from tests.helpers.doors import Door
from tests.helpers.processes import is_running
from tests.helpers.traces import traces
from tests.helpers.waiting import until

CLIENT = "ONCEFLOW_TEST_RAY_CLIENT"
"""Set to the address of a cluster's server for clients, if the same is to be tried through that. It takes a process of
its own, because each has one connection to Ray (`tests.backends.ray.test_client`)."""

PLACES = ["client-sqlite"] if CLIENT in os.environ else ["local-sqlite", "local-postgres", "ray-postgres"]
"""Backend and journal. Ray with a file as its journal is also tried with several nodes (`tests.backends.ray`)."""


@pytest.fixture(scope="module", params=PLACES)
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    backend, journal = request.param.split("-")
    found: dict[str, object] = {"home": tmp_path_factory.mktemp("conformance") / "home", "workers": 2}
    if backend != "local":
        found["backend"] = os.environ.get(CLIENT) or request.getfixturevalue("ray_cluster")
        found["lease"] = 5
    if journal == "postgres":
        found["journal"] = request.getfixturevalue("postgres_server").create_database()
    return found


@pytest.fixture(scope="module")
def engine(settings: dict[str, object]) -> Iterator[Engine]:
    made = Engine(**settings)  # type: ignore[arg-type]
    yield made
    made.close()


def test_a_graph_gives_its_result(engine: Engine) -> None:
    assert engine.run(program.add.bind(program.add.bind(1, 2), program.add.bind(3, 4))) == 10


def test_large_values_go_from_task_to_task_and_to_whoever_asks(engine: Engine) -> None:
    values = [program.blank.bind(LARGE), program.blank.bind(LARGE + 1)]
    assert engine.run(program.count.bind(*values, bytes(LARGE))) == 3 * LARGE + 1
    assert len(engine.run(program.blank.bind(LARGE))) == LARGE


def test_an_effect_has_one_key_though_its_worker_dies(engine: Engine, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    assert engine.run(program.charge.bind("ann", str(ledger), str(tmp_path / "trap"))) == "ann"
    assert len(traces(ledger)) == 2
    assert len(set(traces(ledger))) == 1


def test_a_failure_takes_back_what_was_done(engine: Engine, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    with pytest.raises(TaskFailed, match="no money"):
        engine.run(program.refuse.bind(program.book.bind("Rome", ledger)), on_failure="undo")
    assert traces(ledger) == ["booked Rome", "cancelled Rome"]


def test_an_output_that_is_lost_with_its_maker_is_made_again(engine: Engine, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    drawn = program.draw.bind(str(ledger))
    assert engine.run(program.read_after_death.bind(drawn, str(tmp_path / "trap"))) == LARGE
    assert set(traces(ledger)) == {"drawn"}


def test_refs_are_passed_on_without_being_loaded(engine: Engine) -> None:
    assert engine.run(program.first_bytes.bind(program.turn.bind(program.pages.bind(3)))) == [2, 1, 0]
    assert engine.run(program.size_of.bind(ref(program.blank.bind(LARGE)))) == LARGE


def test_refs_of_a_result_can_be_read_later(engine: Engine) -> None:
    book = engine.run(program.turn.bind(program.pages.bind(2)))
    assert [page.get()[:1] for page in book] == [b"\1", b"\0"]


def test_an_actor_is_passed_on_and_shared(engine: Engine) -> None:
    till = program.pay.bind(program.open_till.bind(100), 5)
    assert engine.run(program.count_two.bind(program.look_into.bind(till), program.look_into.bind(till))) == 210


def test_who_shares_an_actor_may_only_look(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(program.pay_secretly.bind(program.open_till.bind(100), 5))
    assert isinstance(caught.value.__cause__, SharedActor)


def test_what_an_actor_prints_is_in_the_log_of_the_task_that_called_it(engine: Engine) -> None:
    handle = engine.run_async(program.announce.bind(program.appoint.bind(), "peace"))
    handle.result()
    said = until(lambda: found if len(found := list(engine.logs(handle.id))) == 3 else None)
    assert {line.task for line in said} == {"announce"}
    assert {line.text for line in said} == {"hear: peace", "echo: peace", "told: peace"}


def test_an_actor_that_dies_is_restored_as_it_was_saved(engine: Engine, tmp_path: Path) -> None:
    till = program.pay.bind(program.open_till.bind(100), 5)
    assert engine.run(program.look_after_robbery.bind(till, str(tmp_path / "trap"))) == 105


def test_an_actor_that_was_not_saved_is_made_again(engine: Engine, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    till = program.open_till_unsaved.bind(100, ledger)
    assert engine.run(program.look_after_robbery.bind(till, str(tmp_path / "trap"))) == 100
    assert traces(ledger) == ["opened", "opened"]


def test_a_loop_gathers_what_its_items_gave(engine: Engine) -> None:
    assert engine.run(for_each(program.square, range(300))) == [x * x for x in range(300)]


def test_a_graph_that_a_task_returns_runs_in_its_place(engine: Engine) -> None:
    assert engine.run(program.expand.bind(4)) == 10


def test_a_fiber_goes_on_where_it_was_though_a_worker_dies(engine: Engine, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    assert engine.run(program.shop.bind([1, 2, 3], ledger, str(tmp_path / "trap"))) == 6
    charged = [line.split()[0] for line in traces(ledger)]
    assert (len(charged), len(set(charged))) == (4, 3)


def test_updates_of_variables_count_once_though_workers_die(engine: Engine, tmp_path: Path) -> None:
    earned = [program.earn.bind(cents, str(tmp_path / f"trap{cents // 5}")) for cents in range(10)]
    assert engine.run(program.sum_up.bind(*earned)) == 45


def test_cancelling_stops_a_task_and_what_it_started(engine: Engine, door: Door, tmp_path: Path) -> None:
    file = tmp_path / "child"
    handle = engine.run_async(program.sleep_with_child.bind(door.path, str(file)))
    process = door.wait()
    door.open()
    assert engine.cancel(handle.id) == "cancelled"
    assert not any(is_running(pid) for pid in (process, int(file.read_text())))


def test_a_task_that_takes_too_long_is_stopped(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(program.too_long.bind())
    assert isinstance(caught.value.__cause__, TaskTimedOut)


def test_a_task_knows_who_it_is_and_tells_how_it_gets_on(engine: Engine) -> None:
    handle = engine.run_async(program.tell.bind("good morning"))
    task, key = handle.result()
    assert (task, key.startswith(handle.id)) == ("tell", True)
    lines = [line.text for line in engine.logs(handle.id)]
    assert "good morning" in lines
    assert "said good morning" in lines
    assert engine.list_tasks(handle.id)[0].metadata == {"line": "good morning"}


def test_tasks_may_be_async_share_a_process_or_ask_for_more(engine: Engine) -> None:
    nodes = [program.wait_a_little.bind(1), program.in_a_thread.bind(2), program.with_two_cpus.bind(3)]
    assert engine.run_many(nodes) == [1, 2, 3]


def test_another_engine_goes_on_from_what_is_saved(settings: dict[str, object], door: Door, tmp_path: Path) -> None:
    """Given a run with an effect that is saved, when its engine is closed, then the next one does the rest."""
    ledger = str(tmp_path / "ledger")
    Path(tmp_path / "trap").touch()
    charged = program.charge.bind("ann", ledger, str(tmp_path / "trap"))
    with Engine(**settings) as first:  # type: ignore[arg-type]
        handle = first.run_async(program.pair.bind(charged, program.wait_at.bind(door.path, 1)))
        door.wait()
        until(lambda: traces(ledger))
        first.close()
    door.open(2)
    with Engine(**settings) as second:  # type: ignore[arg-type]
        assert second.resume(handle.id) == ("ann", 1)
    assert len(set(traces(ledger))) == 1
