"""Information that only the engine driving a run has: what its workers do, and what is due when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.work import Work
    from onceflow.engine.queues.tickets import Doorman
    from onceflow.engine.runtime.executor import Crew


class Progress(msgspec.Struct, frozen=True):
    """How far a task is, as it says itself (`current().progress`)."""

    done: int | float
    total: int | float | None = None
    """None if it is not known."""
    note: str = ""

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1. None if that cannot be said."""
        if not self.total or not math.isfinite(self.total) or not 0 <= self.done <= self.total:
            return None
        return self.done / self.total

    def __str__(self) -> str:
        told = f"{self.done:.15g}" if self.total is None else f"{self.done:.15g} of {self.total:.15g}"
        if self.share is not None:
            told += f" ({int(100 * self.share)} %)"
        return f"{told} {self.note}" if self.note else told


class Look(msgspec.Struct, frozen=True, gc=False):
    """A look at an attempt that was given to the workers."""

    started: float | None = None
    """When it began to run, in seconds since 1970; None if it waits for its turn."""
    progress: Progress | None = None
    needs: str = ""
    """What there is too little of just now, for one that waits for that."""


class Insight:
    """For one run. Used in the loop's thread."""

    def __init__(self, driver: Driver, workers: Crew | None, doorman: Doorman, now: float) -> None:
        self.driver = driver
        self._doorman = doorman
        self._workers = workers
        self._now = now

    def running(self) -> list[Work]:
        """The attempts that workers run now, but for undos."""
        found = [] if self._workers is None else self._workers.running(self.driver)
        return [work for work in found if not work.undo and work.node in self.driver.run.rows]

    def look(self, attempt: int) -> Look | None:
        """None if the attempt has not been given to the workers."""
        return None if self._workers is None else self._workers.look(self.driver, attempt)

    def why_not_admitted(self, node: str) -> str:
        """What a node waits for that asked for a place in a queue, or for a worker; empty if it does not."""
        waits = self._doorman.why(self.driver, node)
        return waits or ("" if self._workers is None else self._workers.why(self.driver, node))

    def why_not_begun(self) -> str:
        """What the run itself waits for, if it has yet to begin."""
        return self._doorman.why_outside(self.driver) if self.driver.waits_outside else ""

    def until_retry(self, node: str) -> float | None:
        """Seconds until what raised is tried again, if there is a time for that."""
        due = self.driver.features.delays.until.get(node)
        return None if due is None else max(0.0, due - self._now)
