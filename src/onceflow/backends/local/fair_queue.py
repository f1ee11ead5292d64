"""A line of jobs that wait for workers, in which runs take turns.

Jobs of one run stand one behind the other. Of several runs in a line each is given its part: one job after the other is
taken from the run that was served least recently, so a run of one task does not wait until one of a hundred thousand
has been served, however late it came. Jobs with a **priority** are served several at a time: as many as their priority
is above the lowest one in the line, and one more. So no run starves.

As long as there is one run in the line, which is almost always, it is a queue and costs what a queue costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator

from onceflow.backends.local.messages import Job

MOST_KNOWN = 1000
"""Number of runs whose shares are remembered, before runs with no more than the others' shares are forgotten."""

Whose = str | tuple[str, int]
"""Run, and priority if there is any."""


class Stand:
    """The jobs of one run that have one priority."""

    __slots__ = ("jobs", "left", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.jobs: dict[int, Job] = {}
        """By token, in their order."""
        self.left = 0
        """How many are still given before it is the turn of others; 0 when its turn begins."""


class Line:
    """Jobs that are given in this order: those that a worker had and did not start, then by turns."""

    __slots__ = ("_lowest", "_stands", "count", "returned", "young")

    def __init__(self) -> None:
        self.returned: dict[int, Job] = {}
        self._stands: dict[Whose, Stand] = {}
        """None is empty. Whose turn it is comes first."""
        self.count = 0
        """Jobs in all of them."""
        self._lowest: int | None = 0
        """The lowest priority; None if it has to be computed."""
        self.young = 0
        """Jobs of runs that have just begun, among those that no worker has had."""

    def __len__(self) -> int:
        return len(self.returned) + self.count

    def __iter__(self) -> Iterator[Job]:
        yield from self.returned.values()
        turns: deque[tuple[Iterator[Job], int]] = deque()
        for stand in self._stands.values():
            jobs = iter(stand.jobs.values())
            if len(self._stands) == 1:
                yield from jobs
                return
            weight = self._weight(stand)
            if (yield from _some(jobs, stand.left or weight)):
                turns.append((jobs, weight))
        while turns:
            jobs, weight = turns.popleft()
            if (yield from _some(jobs, weight)):
                turns.append((jobs, weight))

    def __contains__(self, job: Job) -> bool:
        stand = self._stands.get(whose(job))
        return job.token in self.returned or (stand is not None and job.token in stand.jobs)

    def has_come(self, token: int, like: Job) -> bool:
        """Whether a job is here that belongs to the same run, and that no worker has had."""
        stand = self._stands.get(whose(like))
        return stand is not None and token in stand.jobs

    def find(self, token: int) -> Job | None:
        for stand in self._stands.values():
            if token in stand.jobs:
                return stand.jobs[token]
        return self.returned.get(token)

    def add(self, job: Job) -> None:
        key = whose(job)
        stand = self._stands.get(key)
        if stand is None:
            stand = Stand(job.priority)
            # A run that was alone has had all turns so far.
            self._stands = {key: stand, **self._stands} if len(self._stands) == 1 else self._stands
            self._stands[key] = stand
            if job.priority or self._lowest:
                self._lowest = None
        stand.jobs[job.token] = job
        self.count += 1
        self.young += job.young

    def take(self, job: Job) -> None:
        """It is given to a worker. One that never stood here may be, too."""
        token = job.token
        if self.returned and self.returned.pop(token, None) is not None:
            return
        key = whose(job)
        stand = self._stands.get(key)
        if stand is None or token not in stand.jobs:
            return
        self._forget(key, stand, job)
        if stand.jobs and len(self._stands) > 1:
            stand.left = (stand.left or self._weight(stand)) - 1
            if not stand.left:
                self._stands[key] = self._stands.pop(key)

    def remove(self, token: int) -> bool:
        """Whether it was there."""
        if self.returned.pop(token, None) is not None:
            return True
        for key, stand in self._stands.items():
            if token in stand.jobs:
                self._forget(key, stand, stand.jobs[token])
                return True
        return False

    def _forget(self, key: Whose, stand: Stand, job: Job) -> None:
        del stand.jobs[job.token]
        self.count -= 1
        self.young -= job.young
        if not stand.jobs:
            del self._stands[key]
            if stand.priority:
                self._lowest = None

    def _weight(self, stand: Stand) -> int:
        if self._lowest is None:
            self._lowest = min([stand.priority for stand in self._stands.values()], default=0)
        return 1 + stand.priority - self._lowest


class Shares:
    """The share that each run has had, among runs that stand in different lines: the one with the least goes first. A
    new run begins with as much as was given to the one served last."""

    __slots__ = ("_had", "_last")

    def __init__(self) -> None:
        self._had: dict[Whose, float] = {}
        self._last = 0.0

    def of(self, job: Job) -> float:
        return max(self._last, self._had.get(whose(job), 0.0))

    def note(self, job: Job) -> None:
        """It is given to a worker."""
        had = self.of(job)
        self._last = had
        self._had[whose(job)] = had + cost(job)
        if len(self._had) > MOST_KNOWN:
            self._had = {key: had for key, had in self._had.items() if had > self._last}


def cost(job: Job) -> float:
    """The cost of a job: less with a higher priority."""
    return 1 / (1 + job.priority) if job.priority >= 0 else 1 - job.priority


def whose(job: Job) -> Whose:
    run: str = job.context.get("run", "")  # type: ignore[assignment]
    return (run, job.priority) if job.priority else run


def _some(jobs: Iterator[Job], count: int) -> Generator[Job, None, bool]:
    """So many of them. Returns whether there were as many."""
    for _ in range(count):
        job = next(jobs, None)
        if job is None:
            return False
        yield job
    return True
