"""What measurements show: the attempts of a run, the tasks of earlier runs, and how long a run will go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from onceflow.core.run import attempt_name
from onceflow.driver.measurements import Measurement, Outcome
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.statuses import ENDED
from onceflow.planning import estimates, history, tasks
from onceflow.planning.estimates import Estimate, Step
from onceflow.planning.history import Reader
from onceflow.planning.tasks import TaskStatistics
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place


class AttemptInfo(msgspec.Struct, frozen=True):
    """What was measured of an attempt that came to its end."""

    id: str
    """Of the task, in its graph."""
    task: str
    attempt: str
    """As `epoch.number`."""
    outcome: Outcome
    undo: bool
    """Whether it took the task back."""
    started: float | None
    """Seconds since 1970; None if unknown, because its worker died or it was stopped."""
    seconds: float | None
    worker: int | None
    """A process id."""
    bytes: int
    """Of its output."""


class Past:
    """`now` is the engine's clock, `workers` how many it has (None: one per core)."""

    def __init__(self, home: Place, workers: int | None, now: Callable[[], float]) -> None:
        self._home = home
        self._workers = workers or len(os.sched_getaffinity(0))
        self._now = now
        self._reader = Reader(home.journal)

    def attempts(self, run: str) -> list[AttemptInfo]:
        return [_info(one) for one in history.attempts(self._home.journal, run)]

    def tasks(self, workflow: str | None) -> list[TaskStatistics]:
        return tasks.statistics(self._reader.read(workflow, sorted(ENDED)))

    def estimate(self, row: RunRow, infos: Sequence[TaskInfo]) -> Estimate | None:
        """For a run in progress, from the current states of its tasks."""
        now = self._now()
        present = history.summary(history.attempts(self._home.journal, row.id))
        known = self._reader.read(row.workflow).before(present)
        steps = [_step(info, now) for info in infos if info.state != "done"]
        return estimates.estimate(steps, known, self._workers, elapsed=now - row.created, tasks=len(infos))


def _info(one: Measurement) -> AttemptInfo:
    known = one.started > 0
    return AttemptInfo(
        id=one.node,
        task=one.task,
        attempt=attempt_name(one.attempt),
        outcome=one.outcome,
        undo=one.undo,
        started=one.started if known else None,
        seconds=one.seconds if known else None,
        worker=one.worker or None,
        bytes=one.bytes,
    )


def _step(info: TaskInfo, now: float) -> Step:
    if info.state != "running":
        return Step(info.id, info.task, info.waits_for)
    elapsed = 0.0 if info.started is None else max(0.0, now - info.started)
    return Step(info.id, info.task, info.waits_for, elapsed, (info.progress and info.progress.share) or 0.0)
