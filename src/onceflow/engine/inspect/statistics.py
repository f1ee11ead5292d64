"""What an engine has done since it was opened, by each of its parts, and what tasks took in earlier runs."""

from __future__ import annotations

from collections import Counter

import msgspec

from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report
from onceflow.backends.local.reports import Statistics as PoolStatistics
from onceflow.driver.work import Work
from onceflow.planning.tasks import TaskStatistics
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.journal import Statistics as JournalStatistics


class ObjectStatistics(msgspec.Struct, frozen=True):
    """Large values that an engine knows. In bytes."""

    memory: int
    """Of those that are in memory now."""
    moved: int
    """Of those that were moved to disk because memory was wanted."""
    saving: int
    """Of those that are being saved, or wait for it."""


class RunCounts(msgspec.Struct, frozen=True):
    active: int
    """That are driven here now."""
    ended: dict[str, int]
    """Status with which they left this engine (`interrupted`: without an end) → how many."""
    delegated: int = 0
    """How often a worker went on with one by itself that had been woken."""


class AttemptCounts(msgspec.Struct, frozen=True):
    started: int
    finished: int
    failed: int
    """That raised, or took too long."""
    lost: int
    """Whose worker died."""
    stopped: int
    undos: int
    """Undos that were started."""
    undone: int
    """Undos that succeeded."""


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
    """From the measurements of the last runs that ended, whoever drove them. Those that took most time first."""


class Counts:
    """Kept by a hub, in its loop's thread."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        """Status with which runs left this engine → how many."""
        self.commands = 0
        self.delegated = 0
        self._started = [0, 0]
        """Attempts, undos."""
        self._answered: Counter[tuple[type[Report], bool]] = Counter()

    def delegate(self, attempts: int) -> None:
        """A worker has gone on with a run, and finished so many attempts."""
        self.delegated += 1
        self._started[False] += attempts
        self._answered[Finished, False] += attempts

    def start(self, work: Work) -> None:
        self._started[work.undo] += 1

    def answer(self, work: Work, report: Report) -> None:
        self._answered[type(report), work.undo] += 1

    def attempts(self) -> AttemptCounts:
        answered = self._answered
        return AttemptCounts(
            started=self._started[False],
            finished=answered[Finished, False],
            failed=answered[Raised, False],
            lost=answered[Died, False] + answered[MetLost, False],
            stopped=answered[Ended, False],
            undos=self._started[True],
            undone=answered[Finished, True],
        )
