"""Admission: which jobs may run at the same time, by the resources that they need (`Job.cpus`, `Job.memory`).

The rule: what runs at the same time never needs more than the capacity, neither of cpus nor of memory. The jobs in a
lane run one after the other, so a lane counts as much as the largest of the jobs in it; jobs that share a worker count
each. A job that says nothing counts as one cpu in a lane, which the number of workers sees to by itself, and as nothing
if it shares. So as long as no job says anything there is nothing to weigh, and the dispatcher does without all this.

A job that needs more than the whole capacity counts as the whole capacity: it runs, but nothing else that needs
anything does so at the same time.

A large job must not starve, nor must cores stand idle for its sake longer than is useful. The oldest job that does not
fit is put *first in line*. What fits and leaves enough for it may always go before it. What it would have to wait for
may do so `ROUNDS` times per worker; after that all jobs wait, what runs ends, and the first in line fits. It stays
first until it is given or stopped. Of two jobs the older one is that with the smaller token.

The ends of jobs are not reported here: `room` looks up which of the jobs that said something are still with a worker.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from onceflow.backends.local.fair_queue import Line, Shares, Whose, cost, whose
from onceflow.backends.local.messages import Job
from onceflow.backends.local.workers import Worker

log = logging.getLogger(__name__)

ROUNDS = 2
"""Jobs per worker that the first in line has to wait for although they came after it. With none, all cores but one
could stand idle until the longest of the running jobs has ended. Each one may prolong the wait by its own duration; as
workers take them side by side, two per worker delay it by about two such durations, however large the host is."""

ROUNDING = 1e-6
"""Cpus. Ten times a tenth is not quite one."""


class Needs(NamedTuple):
    cpus: float
    memory: int
    """Bytes."""


NOTHING = Needs(0.0, 0)


class Admission:
    """What a pool's jobs need, and which one is first in line."""

    def __init__(self, capacity: Needs, workers: int) -> None:
        self.capacity = capacity
        self.first: Job | None = None
        """The first in line. It may have been given or stopped since (`line_up`)."""
        self.passes = 0
        """Jobs that the first in line has to wait for although they came after it."""
        self.most_passes = ROUNDS * workers
        self.given: dict[int, Job] = {}
        """Token → job that says what it needs and was given to a worker. It may have ended since."""
        self.scarce = capacity.cpus < workers
        """Whether even jobs that say nothing could be too many."""
        self._told: set[str] = set()
        """Functions that were found to need more than the capacity."""

    def note_given(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.needy:
                self.given[job.token] = job

    def warn_of(self, job: Job) -> None:
        """Logs, once for each function, that a job needs more than there is."""
        stated = _stated(job)
        if self._exceeds(stated) and job.function not in self._told:
            self._told.add(job.function)
            log.warning(
                "task %s needs %g cpus and %d bytes of memory, more than the %g and %d that there are: it runs alone",
                job.task,
                *stated,
                *self.capacity,
            )

    def needs(self, job: Job) -> Needs:
        """The resources that the job takes while it runs."""
        return self._counted(_stated(job))

    def room(self, workers: Collection[Worker], holders: Mapping[int, Worker], shares: Shares) -> Room:
        """What is in use by the jobs that run, or may start without further ado; also in workers that are to end."""
        for token in [token for token in self.given if token not in holders]:
            del self.given[token]
        shared = NOTHING
        lanes: dict[int, Needs] = {}
        known: dict[int, int] = {}
        for token, job in self.given.items():
            worker = holders[token]
            if token in worker.queue:
                lanes[worker.pid] = _larger(lanes.get(worker.pid, NOTHING), self.needs(job))
                known[worker.pid] = known.get(worker.pid, 0) + 1
            else:
                shared = _sum(shared, self.needs(job))
        one = self._counted(Needs(1.0, 0))
        for worker in workers:
            if not worker.host and len(worker.queue) > known.get(worker.pid, 0):
                lanes[worker.pid] = _larger(lanes.get(worker.pid, NOTHING), one)
        return Room(self, lanes, shared, shares)

    def line_up(self, is_queued: Callable[[Job], bool], refused: Sequence[Job] = ()) -> None:
        """Sees whether the first in line is still there. If not, the oldest of those that were refused follows it."""
        if self.first is not None and not is_queued(self.first):
            self.first = None
        if self.first is None:
            self.first = min((job for job in refused if is_queued(job)), key=_age, default=None)
            self.passes = 0

    def _exceeds(self, needs: Needs) -> bool:
        return needs.cpus > self.capacity.cpus or needs.memory > self.capacity.memory

    def _counted(self, needs: Needs) -> Needs:
        return self.capacity if self._exceeds(needs) else needs


class Room:
    """What is in use, while jobs are given out in one turn of the pool."""

    __slots__ = ("_admission", "_first", "_kept", "_lanes", "_offer", "_shares", "_taken", "_used", "refused")

    def __init__(self, admission: Admission, lanes: dict[int, Needs], shared: Needs, shares: Shares) -> None:
        self._admission = admission
        self._shares = shares
        self._taken: dict[Whose, float] = {}
        """What each run has had in this turn."""
        self._first = admission.first
        """The first in line, until it is taken."""
        self._kept = NOTHING if admission.first is None else admission.needs(admission.first)
        """What it needs."""
        self._lanes = lanes
        """Process id → what the worker's lane counts for."""
        self._used = shared
        for needs in lanes.values():
            self._used = _sum(self._used, needs)
        self._offer: _Offer | None = None
        """The job that was offered last, unless it was taken."""
        self.refused: list[Job] = []
        """Jobs for which there was no room: of each line, the first."""

    def fitting(self, lines: list[Line], lane: int | None = None) -> Iterator[Job]:
        """Offers the jobs for which there is room, in this lane or else to share: the first in line, then those of runs
        that have had least, then the oldest.
        If one is not taken before the next is asked for, the rest of its line is not offered."""
        first = self._first
        if first is not None and first.shares == (lane is None) and self._has_room_for(first, lane):
            yield first
        heap = [(*self._rank(job), job, jobs) for jobs in map(iter, lines) for job in [next(jobs)]]
        heapq.heapify(heap)
        while heap:
            _, _, job, jobs = heap[0]
            if job is not first:
                if not self._has_room_for(job, lane):
                    self.refused.append(job)
                    heapq.heappop(heap)
                    continue
                yield job
                if self._offer is not None:
                    heapq.heappop(heap)
                    continue
            following = next(jobs, None)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (*self._rank(following), following, jobs))

    def _rank(self, job: Job) -> tuple[float, int]:
        return self._shares.of(job) + self._taken.get(whose(job), 0.0), job.token

    def take(self) -> None:
        """Counts the job that was offered last as running."""
        assert self._offer is not None
        job, more, lane, passes = self._offer
        self._offer = None
        self._taken[whose(job)] = self._taken.get(whose(job), 0.0) + cost(job)
        if job is self._first:
            self._first = None
            self._kept = NOTHING
        self._admission.passes += passes
        if more != NOTHING:
            self._used = _sum(self._used, more)
            if lane is not None:
                self._lanes[lane] = _sum(self._lanes.get(lane, NOTHING), more)

    def _has_room_for(self, job: Job, lane: int | None) -> bool:
        """If so, it is on offer."""
        admission = self._admission
        needs = more = admission.needs(job)
        if lane is not None:
            there = self._lanes.get(lane, NOTHING)
            more = Needs(max(0.0, needs.cpus - there.cpus), max(0, needs.memory - there.memory))
        if not self._is_there(needs, more, NOTHING):
            return False
        passes = job is not self._first and not self._is_there(needs, more, self._kept)
        if passes and admission.passes >= admission.most_passes:
            return False
        self._offer = _Offer(job, more, lane, passes)
        return True

    def _is_there(self, needs: Needs, more: Needs, kept: Needs) -> bool:
        """Whether this much more can be used and that much kept. What a job does not need it does not take away."""
        capacity, used = self._admission.capacity, self._used
        return (not needs.cpus or used.cpus + more.cpus + kept.cpus <= capacity.cpus + ROUNDING) and (
            not needs.memory or used.memory + more.memory + kept.memory <= capacity.memory
        )


class _Offer(NamedTuple):
    job: Job
    more: Needs
    """By how much it would add to what is in use."""
    lane: int | None
    passes: bool
    """Whether the first in line would have to wait for it."""


def _stated(job: Job) -> Needs:
    if job.cpus is None:
        return Needs(0.0 if job.shares else 1.0, job.memory)
    return Needs(job.cpus, job.memory)


def _sum(one: Needs, other: Needs) -> Needs:
    return Needs(one.cpus + other.cpus, one.memory + other.memory)


def _larger(one: Needs, other: Needs) -> Needs:
    return Needs(max(one.cpus, other.cpus), max(one.memory, other.memory))


def _age(job: Job) -> int:
    return job.token
