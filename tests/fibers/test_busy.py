"""Fibers of runs that are cancelled while they compute: they are told at their next await."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import RunCancelled
from onceflow.testing import Crashed, MemoryEngine, crash_everywhere
from tests.fibers import busy
from tests.fibers.common import world

LOCKED = "computing/segment"
"""What runs while something is locked."""


def test_a_fiber_that_computes_is_told_at_its_next_await() -> None:
    engine = MemoryEngine()
    engine.delay(LOCKED, 8)
    engine.run_async(busy.computing.bind(), name="job")
    engine.clock.advance(5)
    assert engine.cancel("job") == "cancelled"
    world.assert_holds("locked", "unlocked")


def test_one_that_computes_for_ever_is_stopped_when_the_time_to_clean_up_is_over() -> None:
    engine = MemoryEngine()
    engine.delay(LOCKED, 1_000_000)
    engine.run_async(busy.computing.bind(), name="job")
    engine.clock.advance(5)
    began = engine.clock.now
    assert engine.cancel("job") == "cancelled"
    assert 30 <= engine.clock.now - began < 40
    world.assert_holds("locked")


@pytest.mark.parametrize("when", ["before", "after effect"])
def test_one_that_is_about_to_compute_or_has_just_computed_is_told_as_well(when: Any) -> None:
    engine = MemoryEngine()
    engine.cancel_at(LOCKED, when=when)
    with pytest.raises(RunCancelled):
        engine.run(busy.computing.bind())
    world.assert_holds("locked", "unlocked")


def test_so_is_one_in_its_first_segment() -> None:
    engine = MemoryEngine()
    engine.delay("pondering", 8)
    engine.run_async(busy.pondering.bind(), name="job")
    engine.clock.advance(5)
    assert engine.cancel("job") == "cancelled"
    world.assert_holds("forgotten")


@pytest.mark.parametrize(("how", "first"), [("call", "asking/pondering"), ("fork", "asking/fiber")])
def test_so_are_those_that_it_has_called_or_forked(how: str, first: str) -> None:
    engine = MemoryEngine()
    engine.delay(first, 8)
    engine.run_async(busy.asking.bind(how), name="job")
    engine.clock.advance(5)
    assert engine.cancel("job") == "cancelled"
    world.assert_holds("forgotten", "asked")


def test_it_is_told_once_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.delay(LOCKED, 8)
        engine.run_async(busy.computing.bind(), name="job")
        engine.clock.advance(5)
        if engine.cancel("job") == "cancelled":
            world.assert_holds("locked", "unlocked")
        else:  # the crash came before anybody knew what was asked
            world.assert_holds("locked", "changed")

    crash_everywhere(scenario)


def test_a_run_whose_fibers_have_ended_is_cancelled_at_once_after_a_crash() -> None:
    engine = MemoryEngine(on_crash="raise")
    engine.crash_at("enter", when="before", nth=2)
    with pytest.raises(Crashed):
        engine.run(busy.afterwards.bind(), name="job")
    world.assert_holds("in the fiber")
    assert engine.cancel("job") == "cancelled"
    world.assert_holds("in the fiber")
