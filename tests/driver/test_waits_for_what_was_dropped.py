"""Delays of tasks that are dropped in the very step in which their run is loaded."""

from __future__ import annotations

from typing import Any

from onceflow import RetryPolicy, task
from onceflow.testing import MemoryEngine


@task(can_rollback=True, checkpoint=False)
def draw() -> int:
    return 1


@task(can_rollback=True)
def returns_graph(drawn: int) -> Any:
    return raises_once.bind(drawn)


@task(can_rollback=True, retry=RetryPolicy(1, delay=60))
def raises_once(drawn: int) -> int:
    return drawn


@task(can_rollback=True)
def slow(drawn: int) -> int:
    return drawn


@task(can_rollback=True)
def add(one: int, other: int) -> int:
    return one + other


def test_a_delay_in_a_graph_that_a_crash_has_dropped_is_over() -> None:
    """AssertionError: `draw` runs again for `slow`, and takes with it what was returned."""
    engine = MemoryEngine()
    engine.fail(raises_once, ValueError("no"), times=1)
    engine.delay(slow, 100)
    drawn = draw.bind()
    engine.run_async(add.bind(returns_graph.bind(drawn), slow.bind(drawn)), name="r")
    engine.clock.advance(1)
    engine.crash()
    assert engine.resume("r") == 2
