"""Places that are kept for attempts before they begin.

What has an effect must not be recorded as *begun* (design 2.3) long before a worker can take it: after a crash it would
not be known whether it had started. So it **reserves** a place first. The place is *promised* when a worker will soon
be free for it; then the journal learns that it begins, and it is started as a job like any other. The place is kept
until a worker has the job.

Without any promise ahead, each worker would wait for a commit before each job. So each has a *window* of promises
beyond what it runs: one, or as many as are expected to take `HORIZON` seconds together. As long as nothing is known
about a function, its jobs are promised idle workers only. Jobs that share a worker start as they come, so for them the
window is the number of threads that a worker has.

A job that waits for a promise stands in a line in which runs take turns (`fair_queue`). What needs the same stands in
one line and has a window of its own: many jobs that wait for memory keep no others from workers that are free. So have
runs that have just begun, for which loops make room: they do not wait for a part of a loop that was promised a place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from onceflow.backends.local.fair_queue import Line
from onceflow.backends.local.messages import Job
from onceflow.backends.local.send_ahead import LONG, Estimates, Load

HORIZON = 0.020
"""Seconds of expected work for each worker beyond which nothing more is promised: a commit takes some milliseconds."""

MOST = 512
"""Promises for each worker, however short the jobs are."""

SHARED = 32
"""Promises for each worker of places for jobs that share it."""

Kind = tuple[object, ...]
"""What a job needs."""

PLAIN: Kind = ()
"""A lane, and nothing else. Almost all."""

YOUNGEST: Kind = (True,)
"""The same for a run that has just begun (`Job.young`)."""


class _Window(Load):
    """The promises for jobs of one kind, and the jobs that wait for one."""

    __slots__ = ("expected", "line", "shares")

    def __init__(self, shares: bool) -> None:
        super().__init__()
        self.shares = shares
        self.expected: dict[int, float] = {}
        """Token of what is promised → how long it is expected to take."""
        self.line = Line()

    def admits(self, expected: float, workers: int, idle: Callable[[], int]) -> bool:
        jobs = self.jobs
        if self.shares:
            return jobs < SHARED * workers
        if jobs < workers:
            return expected < inf or jobs < idle()
        return expected < LONG and jobs < MOST * workers and self.seconds < HORIZON * workers


class Reservations:
    """Those of one pool. `workers` says how many it has, and `idle` how many of them have nothing to do."""

    def __init__(self, estimates: Estimates, workers: Callable[[], int], idle: Callable[[], int]) -> None:
        self._estimates = estimates
        self._workers = workers
        self._idle = idle
        self._windows: dict[Kind, _Window] = {PLAIN: _Window(shares=False)}
        self.waiting: dict[int, _Window] = {}
        """Token → where the job waits."""
        self.promised: dict[int, _Window] = {}
        """Token → where its place is. (No tuples: the garbage collector would look at each.)"""

    def __len__(self) -> int:
        """How many wait."""
        return len(self.waiting)

    @property
    def young(self) -> bool:
        """Whether a run that has just begun waits."""
        return bool(self.waiting) and any(window.line.young for window in self._windows.values())

    def promise(self, token: int, function: str, kind: Kind = PLAIN, *, shares: bool = False) -> bool:
        """Whether a place is promised at once. Else the job has to `wait`."""
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(shares)
        if self.waiting and window.line:
            return False
        return self._promise(token, window, self._estimates.seconds.get(function, inf))

    def wait(self, job: Job, kind: Kind = PLAIN) -> None:
        """A job for which there was no place. Only what is needed to put it in line counts; it is not started."""
        window = self.waiting[job.token] = self._windows[kind]
        window.line.add(job)

    def turn(self) -> list[int]:
        """Promises what can be promised now. Returns the tokens."""
        if not self.waiting:
            return []
        promised: list[int] = []
        for window in self._windows.values():
            if window.line:
                for job in self._next(window):
                    window.line.take(job)
                    del self.waiting[job.token]
                    promised.append(job.token)
        return promised

    def _next(self, window: _Window) -> list[Job]:
        found: list[Job] = []
        for job in window.line:
            if not self._promise(job.token, window, self._estimates.expected(job.function)):
                break
            found.append(job)
        return found

    def _promise(self, token: int, window: _Window, expected: float) -> bool:
        if not window.admits(expected, self._workers(), self._idle):
            return False
        window.jobs += 1
        window.seconds += expected
        window.expected[token] = expected
        self.promised[token] = window
        return True

    def keep(self, token: int, function: str) -> None:
        """A worker has handed the job back: nothing else is promised its place until another worker has it."""
        window = self.promised[token] = self._windows[PLAIN]
        window.expected[token] = self._estimates.expected(function)
        window.add(window.expected[token])

    def release(self, token: int) -> None:
        """A worker has the job, or it does not want to start any more. Unknown tokens are ignored."""
        window = self.promised.pop(token, None)
        if window is not None:
            window.remove(window.expected.pop(token))
        elif self.waiting:
            waiting = self.waiting.pop(token, None)
            if waiting is not None:
                waiting.line.remove(token)
