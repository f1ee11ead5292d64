"""Tasks that may take so long with all their attempts (`total_timeout`), or that must be done at some moment (`until`:
the time of what awaits them is over then).

The time runs from the first attempt on, which the journal knows for what has an effect or has failed, until the task is
done or dropped, or a graph around it is tried again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceflow.core.model import events
from onceflow.driver.deadlines import late
from onceflow.driver.history import History, inside_or_behind
from onceflow.driver.hooks import Feature
from onceflow.errors import TaskTimedOut
from onceflow.storage.journal import NEVER
from onceflow.values.failures import dump

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Limits(Feature):
    """Those of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._since = past.since
        """Node → when its time began, in seconds since 1970."""
        self._timed: dict[str, float] = {}
        """Nodes that have a timer → since when their time runs."""
        self._expired: set[str] = set()

    @classmethod
    def is_needed(cls, past: History) -> bool:
        return bool(past.since)

    def __contains__(self, node: str) -> bool:
        """Whether its time is over."""
        return node in self._expired

    def since(self, node: str) -> float | None:
        return self._since.get(node)

    def begun(self, node: str) -> float:
        """Since when its time runs: from now on at the latest."""
        return self._since.setdefault(node, self._host.now())

    def finished(self, node: str) -> None:
        """Should it run again, its time begins anew."""
        self._since.pop(node, None)
        self._expired.discard(node)

    def dropped(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self.finished(node)

    def forget_inside(self, expander: str) -> None:
        """The graph that this node returned is tried again: failures count from zero in it, and so does time."""
        for node in inside_or_behind(expander, {**self._since, **dict.fromkeys(self._expired)}):
            self.finished(node)

    def watch(self, node: str, settings: Any) -> bool:
        """Let a task run out of time, unless it is done before. Whether it has already."""
        now = self._host.now()
        since = self._since.setdefault(node, now)
        left = NEVER if settings.until is None else settings.until - now
        if (timeout := settings.total_timeout) is not None:
            left = min(left, timeout, since + timeout - now)  # never longer than it says: the clock may have been set
        if left <= 0:
            self._expired.add(node)
        elif left < math.inf and self._timed.get(node) != since:
            self._timed[node] = since
            self._host.later(self._driver, left, lambda: self._expire(node, since))
        return node in self._expired

    def asks(self, node: str, settings: Any) -> None:
        """A task waits for a place in a queue. What it may take with all its attempts has not begun before the first of
        them; but it may have to be done at some moment."""
        now, until = self._host.now(), settings.until
        if not self._driver.launches.is_asking(node):
            return
        if settings.total_timeout is None or node in self._since or (until is not None and until <= now):
            if self.watch(node, settings):
                self._driver.launches.refuse(node)
        elif until is not None and until < math.inf:
            self._host.later(self._driver, until - now, lambda: self.asks(node, settings))

    def _expire(self, node: str, since: float) -> None:
        row = self._driver.run.rows.get(node)
        if self._timed.get(node) == since:
            del self._timed[node]
        if row is None or row.state == "done" or self._since.get(node) != since:
            return
        self._expired.add(node)
        if row.state == "running" and not self._driver.launches.is_asked_about(row.attempt):
            self._driver.launches.stop(row.attempt)
        elif row.state == "backoff":  # it is started once more, and refused
            self._driver.tell(events.Elapsed(node, row.attempt))
        elif self._driver.launches.is_asking(node):
            self._driver.launches.refuse(node)

    def failure(self, node: str, settings: Any) -> bytes:
        """What counts as raised then."""
        total = settings.total_timeout
        error = late(node) if total is None or self._is_late(settings) else TaskTimedOut(node, total, total=True)
        return dump(error, "the engine")

    def _is_late(self, settings: Any) -> bool:
        return settings.until is not None and settings.until <= self._host.now()
