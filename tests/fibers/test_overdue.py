"""Found by reading: deadlines of what fibers call and await."""

from __future__ import annotations

import pytest

from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import overdue
from tests.fibers.common import world
from tests.fibers.test_segments import ends


def test_a_called_fiber_is_told_of_every_deadline_around_it() -> None:
    def scenario(engine: MemoryEngine) -> None:
        began = engine.clock.now
        assert engine.run(overdue.nested.bind()) == "too late"
        assert engine.clock.now - began == pytest.approx(100)

    crash_everywhere(scenario)


def test_what_cleans_up_after_its_time_may_await_graphs_with_fibers() -> None:
    engine = MemoryEngine()
    assert engine.run(overdue.hurrying.bind()) == "too late"
    world.assert_holds("tidied 1", "tidied 2")


def test_so_it_may_whatever_crashes_when() -> None:
    crash_everywhere(ends(overdue.hurrying.bind, "too late", "tidied 1", "tidied 2"))
