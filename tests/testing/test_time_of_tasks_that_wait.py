"""Found by reading: the time of a task is over while it waits for its next attempt, after a crash."""

from __future__ import annotations

import pytest

from onceflow import RetryPolicy, TaskFailed, task
from onceflow.errors import TaskTimedOut
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import overdue


@task(total_timeout=10, retry=RetryPolicy(3, delay=300, jitter=0))
def flaky() -> str:
    raise ConnectionError


def test_the_time_of_a_task_that_waits_for_its_next_attempt_is_over_in_time() -> None:
    def scenario(engine: MemoryEngine) -> None:
        began = engine.clock.now
        with pytest.raises(TaskFailed) as caught:
            engine.run(flaky.bind())
        assert isinstance(caught.value.__cause__, TaskTimedOut)
        assert engine.clock.now - began == pytest.approx(10, abs=1)

    crash_everywhere(scenario)


def test_the_time_of_a_block_is_over_in_time_while_a_task_waits_for_its_next_attempt() -> None:
    def scenario(engine: MemoryEngine) -> None:
        began = engine.clock.now
        assert engine.run(overdue.trying.bind()) == "too late"
        assert engine.clock.now - began == pytest.approx(10, abs=1)

    crash_everywhere(scenario)


def test_the_time_of_a_block_is_over_in_time_while_a_task_waits_in_a_queue() -> None:
    def scenario(engine: MemoryEngine) -> None:
        told: list[float] = []
        engine.queue("overdue", concurrency=1)
        engine.delay(overdue.occupy, 1000)
        engine.replace(overdue.tell_time, lambda: told.append(engine.clock.now))
        began = engine.clock.now
        assert engine.run(overdue.queueing.bind()) == "too late"
        assert told[0] - began == pytest.approx(11, abs=1)

    crash_everywhere(scenario)
