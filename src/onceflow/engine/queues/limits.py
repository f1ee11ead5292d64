"""Limits of a queue: how many at the same time (concurrency), and how many in a period (rate)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from onceflow.errors import InvalidOption

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds."""

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*([smhd])\s*")


class Rate(msgspec.Struct, frozen=True, array_like=True):
    """A rate limit: a number per period in seconds."""

    count: float
    seconds: float
    text: str
    """As a user wrote it."""

    @property
    def burst(self) -> float:
        """How many may go at once after a pause."""
        return max(1.0, self.count)

    def refilled(self, tokens: float, seconds: float) -> float:
        """How many may go now, if so many could then."""
        return min(self.burst, tokens + max(0.0, seconds) * self.count / self.seconds)

    def until(self, tokens: float) -> float:
        """Seconds until the next one may go."""
        return max(0.0, 1.0 - tokens) * self.seconds / self.count


class Limits(msgspec.Struct, frozen=True):
    """None means that it does not matter."""

    concurrency: int | None = None
    per_key: int | None = None
    per_host: int | None = None
    rate: Rate | None = None
    max_pending: int | None = None
    """Runs that may wait."""
    paused: bool = False

    @property
    def unlimited(self) -> bool:
        """Whether no request ever has to wait."""
        limits = (self.concurrency, self.per_key, self.per_host, self.rate)
        return not self.paused and all(limit is None for limit in limits)


NO_LIMITS = Limits()


def read_rate(value: Any, queue: str) -> Rate:
    """From `"10/s"`, `"100/m"`, `"5/10s"`, `"1000/d"`."""
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or not float(found[1]) or (found[2] is not None and not float(found[2])):
        raise InvalidOption(
            queue, f'rate must be a text such as "10/s", "100/m" or "5/10s", not {value!r}', kind="queue"
        )
    return Rate(float(found[1]), float(found[2] or 1) * UNITS[found[3]], value.strip())


def checked(queue: str, given: dict[str, Any]) -> dict[str, Any]:
    """What was given for the limits of a queue, as they are kept."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "rate":
            found[name] = None if value is None else read_rate(value, queue)
            continue
        least = 0 if name == "max_pending" else 1
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InvalidOption(
                queue, f"{name} must be an int of at least {least}, or None, not {value!r}", kind="queue"
            )
        found[name] = value
    return found


def check_name(queue: Any) -> str:
    """The name of a queue."""
    if isinstance(queue, str) and queue and queue.isprintable():
        return queue
    problem = f"the name of a queue is a text that is not empty, not {queue!r}"
    raise InvalidOption("queue", problem, kind="setting")
