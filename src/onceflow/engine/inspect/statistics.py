"""Statistics of an engine since it was opened, by part, and durations of tasks in earlier runs."""

from __future__ import annotations

import msgspec

from onceflow.backends.local.reports import Statistics as PoolStatistics
from onceflow.engine.runtime.counts import AttemptCounts
from onceflow.engine.runtime.object_budget import ObjectStatistics
from onceflow.planning.tasks import TaskStatistics
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.journal import Statistics as JournalStatistics


class RunCounts(msgspec.Struct, frozen=True):
    active: int
    """That are driven here now."""
    ended: dict[str, int]
    """Status with which they left this engine (`interrupted`: without an end) → how many."""
    delegated: int = 0
    """How often a worker went on with one by itself that had been woken."""


class Statistics(msgspec.Struct, frozen=True):
    """A look at an engine. What is counted is counted since it was opened, in this process."""

    runs: RunCounts
    attempts: AttemptCounts
    commands: int
    """That other engines left for runs of this one, and that were carried out."""
    journal: JournalStatistics
    blobs: BlobStatistics | None
    """None if values are kept in memory."""
    objects: ObjectStatistics | None
    """Large values while they wait to be read; None before the first worker was needed."""
    pool: PoolStatistics | None
    """None before the first worker was needed."""
    tasks: list[TaskStatistics]
    """From the measurements of the last runs that ended, on any engine. Those that took most time first."""
