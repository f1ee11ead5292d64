"""Durations of the tasks of earlier runs, for users."""

from __future__ import annotations

import msgspec

from onceflow.planning.history import History


class TaskStatistics(msgspec.Struct, frozen=True):
    """A task in earlier runs. Recent runs count more for the durations."""

    task: str
    runs: int
    """In which it was measured."""
    finished: int
    """Attempts that returned."""
    failed: int
    """Attempts that raised, or took too long."""
    lost: int
    """Attempts whose worker died."""
    seconds: float
    """Of all that returned together."""
    p50: float | None
    """Seconds that half of them did not exceed; None if none returned."""
    p90: float | None
    bytes: float
    """Of an output, on average."""


def statistics(history: History) -> list[TaskStatistics]:
    """Those that took most time first."""
    names = {name for run in history.runs for name in run.tasks}
    return sorted([_of_task(name, history) for name in names], key=lambda found: (-found.seconds, found.task))


def _of_task(name: str, history: History) -> TaskStatistics:
    past = [run.tasks[name] for run in history.runs if name in run.tasks]
    finished = sum([task.finished for task in past])
    samples = history.of_task(name)
    return TaskStatistics(
        task=name,
        runs=len(past),
        finished=finished,
        failed=sum([task.raised for task in past]),
        lost=sum([task.lost for task in past]),
        seconds=sum([task.mean * task.finished for task in past]),
        p50=None if samples is None else samples.quantile(0.5),
        p90=None if samples is None else samples.quantile(0.9),
        bytes=sum([task.bytes for task in past]) / finished if finished else 0.0,
    )
