"""Waits of nodes that no worker runs: for an event, or for a moment (design 2.11)."""

from __future__ import annotations

import math
from typing import Any

import msgspec

NOT_YET, CANCELLED = False, True
"""The second part of the outcome of a child that has not come to its end, in time or before the run was cancelled."""


class Wait(msgspec.Struct, frozen=True):
    """An event under `key`, or, without one, a moment."""

    key: str | None = None
    seconds: float | None = None
    """After which it is over: that is what was waited for, or the event has not come."""
    until: float | None = None
    """The same as a moment, in seconds since 1970."""
    type: Any = object
    """Of the event's payload."""
    default: bytes | None = None
    """The packed value of an event that has not come. Without it, that is a failure."""
    children: tuple[str, ...] = ()
    """Ids of nodes of the run, each the outcome of a fiber that was forked, in two parts. Waited for are the parts of
    the only one; or, with `count`, so many of them, and given are those that are there."""
    count: int = 0
    masked: str | None = None
    """The key as users may see it, if there is a secret in it."""

    @property
    def shown_key(self) -> str | None:
        return self.key if self.masked is None else self.masked

    def within(self, seconds: float) -> Wait:
        """The same, but over after so many seconds at the latest: an event that has not come by then never came."""
        return Wait(self.key, seconds, type=self.type, masked=self.masked)

    def ends_in(self, now: float) -> float:
        """Seconds after which it is over, if it begins now."""
        if self.until is not None:
            return self.until - now
        return math.inf if self.seconds is None else self.seconds

    def __str__(self) -> str:
        if self.children:
            return "a forked fiber" if len(self.children) == 1 else "forked fibers"
        return "time to pass" if self.key is None else f"an event {self.shown_key!r}"
