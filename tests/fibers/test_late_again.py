"""Graphs whose time is over, in transactions that are tried again."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import late


def test_the_time_of_a_graph_that_starts_afresh_with_its_transaction_is_still_over() -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.delay(late.look, 1000)
        began = engine.clock.now
        with pytest.raises(TaskFailed, match="Late"):
            engine.run(late.trip.options(handlers=[handler(late.Late, retry(1, delay=5))]).bind())
        assert engine.clock.now - began < 60

    crash_everywhere(scenario)
