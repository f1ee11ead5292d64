"""What holds for everything that a fiber awaits in a block: handlers and deadlines."""

from __future__ import annotations

import time

import pytest

from onceflow import TaskFailed
from onceflow.errors import NotInFiber
from onceflow.fibers import on
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import common
from tests.fibers.common import world
from tests.fibers.test_segments import ends


def test_handlers_of_a_block_decide_about_what_is_awaited_in_it() -> None:
    engine = MemoryEngine()
    assert engine.run(common.caring.bind()) == ["retried", "nothing", "nothing"]
    world.assert_holds("retried", "ignored", "child")
    engine.assert_ran(common.unsteady, times=5)


def test_a_fiber_ends_where_a_block_breaks() -> None:
    assert MemoryEngine().run(common.breaking.bind()) is None


def test_a_block_that_terminates_ends_the_run_whatever_is_caught() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(common.terminating.bind())
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize("how", ["sleep", "event"])
def test_what_takes_longer_than_its_block_is_ended_once(how: str) -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    assert engine.run(common.hurried.bind(how)) == "too late"
    assert engine.clock.now - began == pytest.approx(30)
    world.assert_holds("cleaned up")


def test_a_deadline_holds_whatever_crashes_when() -> None:
    crash_everywhere(ends(lambda: common.hurried.bind("sleep"), "too late", "cleaned up"))
    crash_everywhere(ends(lambda: common.hurried.bind("quick"), "in time"))


def test_fibers_that_are_called_in_a_block_have_its_deadline_and_clean_up_as_well() -> None:
    engine = MemoryEngine()
    assert engine.run(common.hurried.bind("fiber")) == "too late"
    world.assert_holds("napped 8", "cleaned up")
    world.clear()
    assert engine.run(common.hurried.bind("gather")) == "too late"
    world.assert_holds("napped 1", "napped 7", "cleaned up")


def test_a_task_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    assert engine.run(common.hurried.bind("task")) == "too late"
    world.assert_holds("cleaned up")


def test_blocks_are_for_fibers() -> None:
    with pytest.raises(NotInFiber, match="with retry"), on(KeyError).retry(1):
        pass


@pytest.mark.parametrize("how", ["workflow", "loop", "task", "caught"])
def test_a_graph_that_takes_too_long_is_stopped(how: str) -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    assert engine.run(common.impatient.bind(how)) == "too late"
    world.assert_holds("after 5", "too late")
    assert engine.clock.now - began == 10


@pytest.mark.parametrize("how", ["workflow", "task"])
def test_a_graph_is_stopped_whatever_crashes_when(how: str) -> None:
    crash_everywhere(ends(lambda: common.impatient.bind(how), "too late", "after 5", "too late"))


def test_a_graph_that_is_in_time_is_not_stopped() -> None:
    assert MemoryEngine().run(common.impatient.bind("in time")) == "in time"
    world.assert_holds("after 5", "after 4")


def test_what_runs_in_a_graph_that_is_stopped_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    began = engine.clock.now
    assert engine.run(common.impatient.bind("running")) == "too late"
    assert engine.clock.now - began == 10


def test_fibers_in_a_graph_that_is_stopped_clean_up() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    assert engine.run(common.impatient.bind("fibers")) == "too late"
    assert engine.clock.now - began == 12
    world.assert_holds("tidied up", "too late")


def test_fibers_in_a_graph_that_is_stopped_have_half_a_minute() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    assert engine.run(common.impatient.bind("stubborn")) == "too late"
    assert engine.clock.now - began == 40
    world.assert_holds("too late")


def test_a_transaction_that_is_stopped_is_taken_back() -> None:
    assert MemoryEngine().run(common.impatient.bind("transaction")) == "too late"
    world.assert_holds("too late")


def test_the_time_of_a_task_does_not_begin_anew_after_a_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        began = engine.clock.now
        assert engine.run(common.impatient.bind("retried")) == "too late"
        assert engine.clock.now - began <= 12

    crash_everywhere(scenario)
