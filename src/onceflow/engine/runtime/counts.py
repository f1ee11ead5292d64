"""Counters of an engine: the runs that it drives, their attempts, and their outcomes."""

from __future__ import annotations

from collections import Counter

import msgspec

from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report


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


class Counts:
    """Since the engine was opened. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        """Status with which runs left this engine → how many."""
        self.commands = 0
        self.delegated = 0
        self.started = [0, 0]
        """Attempts, undos."""
        self.answered: Counter[tuple[type[Report], bool]] = Counter()

    def delegate(self, attempts: int) -> None:
        """A worker has gone on with a run, and finished so many attempts."""
        self.delegated += 1
        self.started[False] += attempts
        self.answered[Finished, False] += attempts

    def attempts(self) -> AttemptCounts:
        answered = self.answered
        return AttemptCounts(
            started=self.started[False],
            finished=answered[Finished, False],
            failed=answered[Raised, False],
            lost=answered[Died, False] + answered[MetLost, False],
            stopped=answered[Ended, False],
            undos=self.started[True],
            undone=answered[Finished, True],
        )
