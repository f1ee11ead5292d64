"""Cancelling a run with fibers (design 2.8): each fiber is cancelled before the run stops.

Each fiber is notified once: `Cancelled` is raised where it waits, or at its next await. What it waits for without
effect is stopped; what has begun outside comes to its end first. A segment that runs was started as one of a run that
goes on: it has no effect, so it is stopped and started once more, and notified at its next await; what the first
attempt gives after all, which could begin something, does not count. From then on the fiber does what it likes, to
clean up; its segments have another name then (`cleanup`), so that it is not disturbed again, also after a crash. When a
fiber lets the exception out of the run, or when the time is over, the run is cancelled as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onceflow.core.model import events
from onceflow.core.model.rows import Row
from onceflow.core.run import Run
from onceflow.driver import entries
from onceflow.driver.fiber_failures import SEGMENT
from onceflow.driver.history import History, untouched
from onceflow.driver.hooks import Feature
from onceflow.driver.work import Work
from onceflow.errors import Cancelled
from onceflow.values import packed_outputs
from onceflow.values.failures import dump
from onceflow.values.handler_answers import THE_TASK, Answer
from onceflow.values.waits import CANCELLED, Wait

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.outputs import Part

TIME = 30.0
"""Seconds that fibers have to clean up."""

NOTHING = packed_outputs.dump(None)


class Cancelling(Feature):
    """Of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self.asked = past.cancelling
        """Cancellation was requested, with or without undo, and the journal has it."""
        self.ended_fibers = past.ended_fibers
        """Ids of fibers that have let the exception out of the run, which the journal knows, too."""
        self._grace = 0.0
        self._stopped: set[int] = set()
        """Attempts that were stopped for it."""
        self._hurried: set[int] = set()
        """Attempts that have failed, and whose delay was cut short for it."""

    @classmethod
    def is_needed(cls, past: History) -> bool:
        return past.cancelling is not None or bool(past.ended_fibers)

    def ask(self, undo: bool, grace: float) -> None:
        """Cancel the run. `grace`: seconds that begun irrevocable attempts have, when its fibers have ended."""
        self._grace = grace
        if self.asked is not None or not (has_fibers(self._driver.run) or any(self._outdated())):
            self.end(undo)
            return
        self.asked = undo
        self.begin()

    def begin(self) -> None:
        """Give fibers time to clean up, and no more. Does nothing unless cancellation was requested."""
        if self.asked is None:
            return
        self._driver.note(entries.cancelling(self.asked))
        self._host.later(self._driver, TIME, self.end)
        self._driver.proceed()

    def end(self, undo: bool | None = None) -> None:
        """No more fibers are notified."""
        self._driver.tell(events.Cancel(bool(self.asked if undo is None else undo)))
        self._host.later(self._driver, self._grace, lambda: self._driver.tell(events.GiveUp()))

    def let_go(self, work: Work) -> None:
        """A fiber has let the exception out of the run. It has ended by that; so a run that goes on with it, because it
        was resumed, comes to the same end once more."""
        outer, slash, last = work.inside[:-1].rpartition("/")
        fiber = f"{outer}{slash}{last.partition('~')[0]}"
        self.asked = bool(self.asked)
        self.ended_fibers.append(fiber)
        self._driver.note(entries.cancelling(self.asked, fiber))
        self.end()

    def dropped(self, nodes: Sequence[str]) -> None:
        """The work of these nodes no longer counts."""
        self.ended_fibers = untouched(self.ended_fibers, nodes)

    def look(self) -> bool:
        """Interrupt fibers that wait, and stop those that run. Returns whether there was one that waited."""
        if self.asked is None or self._driver.run.status != "running":
            return False
        ops = [parent for row in self._driver.run.rows.values() if _is_untold(row) for parent, _ in row.parents]
        attempts = [op.attempt for op in ops if op.state == "running" and _need_not_end(op)]
        attempts += [work.attempt for work in self._outdated()]
        disturbed = [self._disturb(attempt) for attempt in attempts]
        disturbed += [self._hurry(op) for op in ops if op.state == "backoff" and _need_not_end(op)]
        return any(disturbed)

    def _hurry(self, op: Row) -> bool:
        """It waits for its next attempt, which is started at once, and stopped."""
        if op.attempt in self._hurried:
            return False
        self._hurried.add(op.attempt)
        self._driver.tell(events.Elapsed(op.id, op.attempt))
        return True

    def _disturb(self, attempt: int) -> bool:
        if attempt in self._stopped:
            return False
        if self._driver.launches.is_under_way(attempt):  # else it is about to start, and its time comes then
            self._stopped.add(attempt)
            self._driver.launches.stop(attempt)
            return False
        return self._driver.features.waits.disturb(attempt, self)

    def _outdated(self) -> Iterator[Work]:
        return filter(self.is_outdated, self._driver.launches.under_way())

    def is_outdated(self, work: Work) -> bool:
        """Whether it is a segment that was started before cancellation of the run was requested."""
        return work.call.settings.fiber and not work.cancelled and not self._driver.launches.is_private(work.attempt)

    def instead(self, work: Work) -> Answer | None:
        """What a stopped attempt counts as having given, if it was stopped here. A fiber says that itself."""
        settings = work.call.settings
        if work.attempt not in self._stopped or not settings.catch or settings.fiber:
            return None
        return Answer("value", THE_TASK, [NOTHING, packed_outputs.dump(Cancelled(self._driver.id))])

    def failure(self) -> bytes:
        return dump(Cancelled(self._driver.id), "the engine")

    def parts(self, wait: Wait) -> list[Part]:
        """The output of a wait that is interrupted."""
        if wait.children:
            return [packed_outputs.dump([])] if wait.count else [NOTHING, packed_outputs.dump(CANCELLED)]
        return [packed_outputs.dump(Cancelled(self._driver.id))]


def _need_not_end(op: Row) -> bool:
    """Whether something else can be given to the fiber instead, unnoticed. (What is done in no time, such as
    what catches the errors of a graph, has nothing that could be given.)"""
    settings = op.node.call.settings
    return op.effect == "none" and not settings.fiber and bool(settings.catch or settings.wait is not None)


def _is_untold(row: Row) -> bool:
    """Whether it continues a fiber that has not been notified. (A run that was just loaded does not know yet what is
    done in it, but what is saved.)"""
    is_segment = row.node.task == SEGMENT and row.node.call.settings.fiber
    return is_segment and row.state in ("waiting", "running", "backoff") and not row.saved


def has_fibers(run: Run) -> bool:
    """Whether there are fibers that could be notified."""
    return any(map(_is_untold, run.rows.values()))
