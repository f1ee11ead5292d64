"""Results that somebody gave, of which a crash leaves a part."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed, task
from onceflow.testing import MemoryEngine, crash_everywhere

LARGE = "large" * 100_000


@task(num_returns=2)
def charge() -> tuple[str, str]:
    raise ConnectionError("nobody knows")


@task(can_rollback=True)
def sizes(first: str, second: str) -> tuple[int, int]:
    return len(first), len(second)


def resume(engine: MemoryEngine) -> object:
    """The run failed before it was resumed, and does so again if the engine dies before that is durable."""
    try:
        return engine.resume("order")
    except TaskFailed:
        return engine.resume("order")


@pytest.mark.parametrize("given", [("small", LARGE), (LARGE, "small"), (LARGE, LARGE)])
def test_a_task_with_a_given_result_does_not_run_though_only_a_part_of_that_is_saved(given: tuple[str, str]) -> None:
    def scenario(engine: MemoryEngine) -> None:
        with pytest.raises(TaskFailed):
            engine.run(sizes.bind(*charge.bind()), name="order")
        before = len(engine.ran)
        engine.set_result("order", "charge", given)
        assert resume(engine) == tuple(map(len, given))
        assert {attempt.task for attempt in engine.ran[before:]} == {"sizes"}

    crash_everywhere(scenario)
