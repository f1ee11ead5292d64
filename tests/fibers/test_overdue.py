"""Found by reading: deadlines of what fibers call and await."""

from __future__ import annotations

import pytest

from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import overdue


def test_a_called_fiber_is_told_of_every_deadline_around_it() -> None:
    def scenario(engine: MemoryEngine) -> None:
        began = engine.clock.now
        assert engine.run(overdue.nested.bind()) == "too late"
        assert engine.clock.now - began == pytest.approx(100)

    crash_everywhere(scenario)
