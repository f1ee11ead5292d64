"""Pasts that never were, for the tests of planning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onceflow.driver.measurements import Measurement, Outcome
from onceflow.planning.history import History, PastRun, summary


def measured(
    node: str,
    seconds: float,
    task: str | None = None,
    *,
    started: float = 1000.0,
    worker: int = 1,
    outcome: Outcome = "finished",
    undo: bool = False,
) -> Measurement:
    return Measurement(node, task or node.split("_")[0], 1 << 32, started, seconds, worker, 10, outcome, undo)


def past(tasks: Mapping[str, Iterable[float]], seconds: float | None = None) -> PastRun:
    """A run in which these tasks took so long."""
    found = [
        measured(f"{task}_{number}", one, task, started=1000.0 * number)
        for task, durations in tasks.items()
        for number, one in enumerate(durations, 1)
    ]
    return summary(found, seconds)


def constant(**tasks: float) -> History:
    """Five runs in which nothing ever changed."""
    return History([past({task: [seconds] for task, seconds in tasks.items()}) for _ in range(5)])
