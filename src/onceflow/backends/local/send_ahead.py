"""The number of jobs that a worker gets ahead, from the durations of jobs of the same function.

A job of 50 µs is over before the pool could send the next one, so many are sent together; behind a job of 5 s no other
must wait while a worker elsewhere is free. Nothing is known about a function before its first job has ended: until
then it counts as long, and goes to idle workers only. An estimate follows a longer duration at once and shorter ones
slowly, because waiting behind a long job costs more than a batch that could have been larger.
"""

from __future__ import annotations

from math import inf

HORIZON = 0.004
"""Seconds of expected work beyond which a worker gets no more jobs."""

LONG = 0.010
"""Seconds from which a job is sent to idle workers only."""

AHEAD = 192
"""Jobs that a worker has at most."""

OVERHEAD = 20e-6
"""Seconds that loading arguments and sending the outcome take, roughly. Not part of what workers measure."""

_SHRINK = 0.2
"""Weight of a shorter duration in the estimate."""


class Estimates:
    """Function → seconds that its next job is expected to take."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def expected(self, function: str) -> float:
        return self.seconds.get(function, inf)

    def learn(self, function: str, seconds: float) -> None:
        seconds += OVERHEAD
        known = self.seconds.get(function)
        if known is None or seconds >= known:
            self.seconds[function] = seconds
        else:
            self.seconds[function] = known + _SHRINK * (seconds - known)


def admits(jobs: int, seconds: float, expected: float) -> bool:
    """Whether a worker that has so many jobs, of so many seconds, may be given one more."""
    return not jobs or (seconds < HORIZON and expected < LONG and jobs < AHEAD)


class Load:
    """The jobs that a worker has in its lane, by their expected durations."""

    __slots__ = ("jobs", "seconds")

    def __init__(self) -> None:
        self.jobs = 0
        self.seconds = 0.0

    def add(self, expected: float) -> None:
        self.jobs += 1
        self.seconds += expected

    def remove(self, expected: float) -> None:
        self.jobs -= 1
        # Sums of floats drift, and infinity cannot be taken off again.
        self.seconds = self.seconds - expected if self.jobs and self.seconds != inf else 0.0
