"""Retry policies: how often, after which errors and how late a failed attempt is repeated."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

MOST_RETRIES = 2**31 - 1


class RetryPolicy(msgspec.Struct, frozen=True):
    """What happens when a task raises. `retry=3` is short for `retry=RetryPolicy(3)`.

    The waiting is durable state, not a sleep in a worker: it outlives a crash and keeps no worker busy. An undoable
    task is undone before each new attempt. Losing a worker is not a failure of the task and is not counted.

        @task(retry=RetryPolicy(5, on=ConnectionError, delay=0.5, max_delay=30))
        def fetch(url: str) -> bytes: ...
    """

    count: int
    """Attempts after the first one. 0 never retries."""
    on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)
    """Only these errors are retried; any other fails the task at once."""
    delay: float = 1.0
    """Seconds before the first retry."""
    backoff: float = 2.0
    """Each further delay is this many times longer than the one before."""
    max_delay: float = 300.0
    """Seconds. No delay is longer, jitter aside."""
    jitter: float = 0.1
    """Fraction of the delay by which it is lengthened or shortened at random, so that tasks that failed together do not
    return together."""

    def __post_init__(self) -> None:
        errors: Any = self.on if isinstance(self.on, tuple) else (self.on,)
        msgspec.structs.force_setattr(self, "on", errors)
        count: Any = self.count
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"RetryPolicy: count must be an int, not {count!r}")
        if not errors or not all(isinstance(error, type) and issubclass(error, BaseException) for error in errors):
            raise TypeError(f"RetryPolicy: on must be one or more exception classes, not {self.on!r}")
        if not 0 <= count <= MOST_RETRIES:
            raise ValueError(f"RetryPolicy: count must be from 0 to {MOST_RETRIES:,}, not {count!r}")
        if not 0 <= self.delay <= sys.float_info.max or not 0 <= self.max_delay <= sys.float_info.max:
            raise ValueError("RetryPolicy: delay and max_delay are seconds, and must not be negative")
        if not 1 <= self.backoff <= sys.float_info.max:
            raise ValueError(f"RetryPolicy: backoff must be at least 1, not {self.backoff!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"RetryPolicy: jitter must be between 0 and 1, not {self.jitter!r}")

    def covers(self, error: BaseException) -> bool:
        """Whether this error is one to retry."""
        return isinstance(error, self.on)

    def wait(self, failures: int, chance: float = 0.5) -> float:
        """Seconds between the `failures`-th failure and the next attempt. `chance`, from 0 to 1, is the caller's
        dice."""
        doublings = min(failures - 1, 1_000)  # beyond that a float overflows, and max_delay was met long ago
        try:
            late = min(self.delay * self.backoff**doublings, self.max_delay)
        except OverflowError:
            late = self.max_delay
        return late * (1 + self.jitter * (2 * chance - 1))
