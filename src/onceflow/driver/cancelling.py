"""Cancelling a run with fibers (design 2.8): they are told first.

Each fiber is told once: `Cancelled` is raised where it waits, or at its next await. What it waits for without effect is
stopped; what has begun outside comes to its end first. From then on the fiber does what it likes, to clean up; its
segments have another name then (`CLEANUP`), so that nobody disturbs it again, also after a crash. When a fiber lets the
exception out of the run, or when the time is over, the run is cancelled as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceflow.core import events
from onceflow.core.rows import Row
from onceflow.core.run import Run
from onceflow.driver import entries
from onceflow.driver.work import Host, Work
from onceflow.errors import Cancelled
from onceflow.values import packing
from onceflow.values.answers import THE_TASK, Answer
from onceflow.values.failures import dump
from onceflow.values.waits import CANCELLED, Wait

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.outputs import Part

SEGMENT = "segment"
"""The task of those that go on with a fiber."""

FOLLOWING = (SEGMENT, "cleanup")
"""The same, with those that know that the run is cancelled."""

TIME = 30.0
"""Seconds that fibers have to clean up."""

NOTHING = packing.dump(None)


class Cancelling:
    """Of one driver. `asked`: somebody wants that, with or without undo, and the journal knows it."""

    def __init__(self, driver: Driver, host: Host, asked: bool | None) -> None:
        self._driver = driver
        self._host = host
        self.asked = asked
        self._grace = 0.0
        self._stopped: set[int] = set()
        """Attempts that were stopped for it."""

    def ask(self, undo: bool, grace: float) -> None:
        """Cancel the run. `grace`: seconds that begun irrevocable attempts have, when its fibers have ended."""
        self._grace = grace
        if self.asked is not None or not has_fibers(self._driver.run):
            self.end(undo)
            return
        self.asked = undo
        self.begin()

    def begin(self) -> None:
        """Give fibers time to clean up, and no more. Nothing, if nobody has asked for it."""
        if self.asked is None:
            return
        self._driver.note(entries.cancelling(self.asked))
        self._host.later(self._driver, TIME, self.end)
        self._driver.proceed()

    def end(self, undo: bool | None = None) -> None:
        """Nobody is asked any more."""
        self._driver.tell(events.Cancel(bool(self.asked if undo is None else undo)))
        self._host.later(self._driver, self._grace, lambda: self._driver.tell(events.GiveUp()))

    def look(self) -> bool:
        """Disturb fibers that wait. Whether there was one."""
        if self.asked is None or self._driver.run.status != "running":
            return False
        ops = [parent for row in self._driver.run.rows.values() if _is_untold(row) for parent, _ in row.parents]
        disturbed = [self._disturb(op) for op in ops if op.state == "running" and op.effect == "none"]
        return any(disturbed)

    def _disturb(self, op: Row) -> bool:
        if op.attempt in self._stopped:
            return False
        self._stopped.add(op.attempt)
        return self._driver.disturb(op.attempt)

    def instead(self, work: Work) -> Answer | None:
        """What a stopped attempt counts as having given, if it was stopped here."""
        if work.attempt not in self._stopped or not work.call.settings.catch:
            return None
        return Answer("value", THE_TASK, [NOTHING, packing.dump(Cancelled(self._driver.id))])

    def failure(self) -> bytes:
        return dump(Cancelled(self._driver.id), "the engine")

    def parts(self, wait: Wait) -> list[Part]:
        """What a wait that is disturbed gives."""
        if wait.children:
            return [packing.dump([])] if wait.count else [NOTHING, packing.dump(CANCELLED)]
        return [packing.dump(Cancelled(self._driver.id))]


def _is_untold(row: Row) -> bool:
    """Whether it goes on with a fiber that has not been told."""
    return row.node.task == SEGMENT and row.state == "waiting" and row.node.call.settings.fiber


def has_fibers(run: Run) -> bool:
    """Whether there are any that could be told."""
    return any(map(_is_untold, run.rows.values()))
