"""Fibers of runs that are cancelled."""

from __future__ import annotations

import time

import pytest

from onceflow import RunCancelled
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import common
from tests.fibers.common import world

CLEANED = ("room", "cleaning up", "cleaned up")


def cancelled(engine: MemoryEngine, how: str) -> None:
    handle = engine.run_async(common.cleaning.bind(how), name="trip")
    engine.clock.advance(1)
    assert engine.cancel("trip") == "cancelled"
    with pytest.raises(RunCancelled):
        handle.result()


def test_a_fiber_cleans_up_where_it_waits() -> None:
    cancelled(MemoryEngine(), "event")
    world.assert_holds(*CLEANED)


def test_a_task_without_effect_is_stopped_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    engine.cancel_at(common.dawdle)
    with pytest.raises(RunCancelled):
        engine.run(common.cleaning.bind("task"))
    world.assert_holds(*CLEANED)


def test_what_has_begun_comes_to_its_end_and_the_fiber_is_told_at_its_next_await() -> None:
    engine = MemoryEngine()
    engine.cancel_at(common.reserve)
    with pytest.raises(RunCancelled):
        engine.run(common.cleaning.bind("event"))
    world.assert_holds(*CLEANED)


def test_fibers_that_it_has_called_or_forked_clean_up_as_well() -> None:
    cancelled(MemoryEngine(), "child")
    world.assert_holds(*CLEANED, "child was here")
    world.clear()
    cancelled(MemoryEngine(), "fork")
    world.assert_holds(*CLEANED, "forked was here", "joined was here")


def test_a_fiber_that_catches_it_for_good_goes_on() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(common.cleaning.bind("swallow"), name="trip")
    engine.clock.advance(1)
    assert engine.cancel("trip") == "succeeded"
    assert handle.result() == "went on"
    world.assert_holds(*CLEANED, "helper was here")


def test_a_fiber_is_told_once_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.run_async(common.cleaning.bind("event"), name="trip")
        engine.clock.advance(1)
        try:
            engine.cancel("trip")
        except AssertionError:  # it waits for ever: the crash came before anybody knew what was asked
            engine.cancel("trip")
        assert engine.status("trip") == "cancelled"
        world.assert_holds(*CLEANED)

    crash_everywhere(scenario)
