"""Runs with fibers that were cancelled, and that somebody resumes."""

from __future__ import annotations

import pytest

from onceflow import RunCancelled
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import busy, common
from tests.fibers.common import world

ENDED = ("room", "cleaning up", "cleaned up")


def cancelled(engine: MemoryEngine) -> None:
    engine.run_async(common.cleaning.bind("event"), name="trip")
    engine.clock.advance(1)
    assert engine.cancel("trip") == "cancelled"


def test_whoever_asks_is_told_that_a_fiber_has_ended() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(common.cleaning.bind("event"), name="trip")
    engine.clock.advance(1)
    engine.cancel("trip")
    with pytest.raises(RunCancelled, match="cannot go on, because its fiber cleaning was told") as told:
        handle.result()
    assert told.value.fibers == ("cleaning",)
    assert "resume" not in str(told.value)


def test_a_run_whose_fiber_has_ended_is_cancelled_again_when_it_is_resumed() -> None:
    engine = MemoryEngine()
    cancelled(engine)
    for _ in range(2):
        with pytest.raises(RunCancelled, match=r"rerun\('run-1', from_task='cleaning'\)") as told:
            engine.resume("trip")
        assert told.value.fibers == ("cleaning",)
    assert engine.status("trip") == "cancelled"
    world.assert_holds(*ENDED)


def test_its_fiber_can_be_started_again_in_a_new_run() -> None:
    engine = MemoryEngine()
    cancelled(engine)
    world.clear()
    engine.rerun_async("trip", from_task="cleaning", name="another trip")
    engine.send_event("another trip", "never")
    engine.clock.advance(1)
    assert engine.get_output("another trip") == "went on"
    world.assert_holds("room")


def test_a_fiber_that_is_taken_back_behind_what_it_was_told_goes_on() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(busy.expecting.bind(), name="trip")
    engine.clock.advance(1)
    assert engine.cancel("trip", undo=True) == "cancelled"
    world.assert_holds()
    with pytest.raises(RunCancelled, match=r"resume\('run-1'\) would go on with it") as told:
        handle.result()
    assert told.value.fibers == ()
    resumed = engine.resume_async("trip")
    engine.send_event("trip", "word", "go")
    assert resumed.result() == "go"
    world.assert_holds("room")


def test_what_ended_it_is_known_after_a_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.run_async(common.cleaning.bind("event"), name="trip")
        engine.clock.advance(1)
        try:
            engine.cancel("trip")
        except AssertionError:  # it waits for ever: the crash came before anybody knew what was asked
            engine.cancel("trip")
        with pytest.raises(RunCancelled) as told:
            engine.resume("trip")
        assert told.value.fibers == ("cleaning",)
        world.assert_holds(*ENDED)

    crash_everywhere(scenario)
