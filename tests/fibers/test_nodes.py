"""Fibers among other things: in graphs and loops, with refs and variables, and with what cannot be saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow import Engine, RunCancelled, TaskFailed, for_each
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import common
from tests.fibers.common import world
from tests.fibers.test_segments import ends
from tests.helpers.waiting import LONG, until


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("fibers") / "home", workers=2) as made:
        yield made


def test_a_fiber_is_a_node_like_any_other() -> None:
    numbers = for_each(common.doubling, [1, 2, 3])
    node = common.total.bind(numbers, common.doubling.bind(common.doubling.bind(5)))
    effects = [f"number {number}" for number in (1, 2, 3, 5, 10)]
    crash_everywhere(ends(lambda: node, 32, *effects))


def test_its_errors_can_be_caught_as_values() -> None:
    assert MemoryEngine().run(common.told.bind(common.worker.options(catch=True).bind("bad", 200))) == (None, 9)


def test_refs_stay_refs_in_a_continuation(engine: Engine) -> None:
    for one in (MemoryEngine(), engine):
        found, ref = one.run(common.referring.bind([10, 300_000]))
        assert (found, len(ref.get())) == ([10, 300_000], 10)


def test_refs_are_there_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        assert engine.run(common.referring.bind([10, 20]))[0] == [10, 20]
        world.assert_holds("made")

    crash_everywhere(scenario)


def test_what_cannot_be_saved_is_told_at_the_await(engine: Engine) -> None:
    assert engine.run(common.holding_a_lock.bind()) == "4: True"


def test_a_call_is_awaited_once() -> None:
    assert "was awaited before" in MemoryEngine().run(common.twice.bind())


def test_a_fiber_sees_what_its_tasks_have_written() -> None:
    crash_everywhere(ends(lambda: common.counting.bind([1, 2, 3]), [1, 3, 6]))


def test_what_a_real_engine_does_is_the_same(engine: Engine) -> None:
    assert engine.run(common.mixed.bind([1, 2])) == [[2, 4], ["one", "two"], 26, ["three", 16]]
    assert engine.run(common.together.bind(["a", "bb"])) == [("a", "bb", 8), (14, 20)]
    assert engine.run(common.paying.bind("gold")) == "unpaid"
    assert engine.run(common.nested_forks.bind(3)) == 8
    assert engine.run(common.caring.bind()) == ["retried", "nothing", "nothing"]


def test_a_fiber_that_awaits_a_pure_task_gets_the_value_of_its_graph(engine: Engine) -> None:
    for one in (MemoryEngine(), engine):
        assert one.run(common.unfolding.bind(3)) == ["12", "12"]


def test_a_parked_fiber_cleans_up_when_its_run_is_cancelled(engine: Engine) -> None:
    handle = engine.run_async(common.tidying.bind(), name="tidying")
    until(lambda: engine.status("tidying") == "waiting")
    assert engine.cancel("tidying") == "cancelled"
    with pytest.raises(RunCancelled):
        handle.result(timeout=LONG)
    assert engine.get_output("tidying", "tidying~2/enter") == "tidied"


def test_a_fiber_that_raises_goes_on_from_there_when_it_is_resumed(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed):
        engine.run(common.unlucky.bind(str(tmp_path / "luck")), name="unlucky")
    (tmp_path / "luck").touch()
    assert engine.resume("unlucky") == "lucky"
    world.assert_holds("tried")
