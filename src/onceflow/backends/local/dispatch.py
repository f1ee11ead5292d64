"""Who gets which job: the jobs that no worker has yet, and how they are shared out.

Jobs for lanes go first come, first served, to the least loaded worker, as far as its window admits (`window`). Each
worker gets its part of what is queued, so that a batch for the first does not leave the second idle. Jobs that share
go to the worker with the fewest of them; among equals to one whose lane is empty, because a job in a lane can only be
stopped by killing the process.
"""

from __future__ import annotations

from collections.abc import Collection

from onceflow.backends.local.messages import Job
from onceflow.backends.local.server import search_path
from onceflow.backends.local.window import Estimates, admits
from onceflow.backends.local.workers import Worker
from onceflow.values.functions import Shipped

ASYNC = 1000
"""Async jobs that share a worker at most."""

THREADS = 32
"""Jobs in threads that share a worker at most."""


class Dispatcher:
    """The queue of a pool. It gives jobs to workers and never takes any back."""

    def __init__(self) -> None:
        self.shipped: dict[str, Shipped] = {}
        """Hash → function."""
        self.path = search_path()
        """The caller's `sys.path` when a function was last shipped."""
        self.estimates = Estimates()
        self.holders: dict[int, Worker] = {}
        """Token → the worker that has the job."""
        self.congested = False
        """Whether a worker could not receive what it was to be given."""
        self.dispatched = 0
        """Jobs given, since the beginning."""
        self._returned: dict[int, Job] = {}
        """Jobs for lanes that a worker had and did not start. They come before all others."""
        self._lane: dict[int, Job] = {}
        self._shared: dict[int, Job] = {}

    def __len__(self) -> int:
        return len(self._returned) + len(self._lane) + len(self._shared)

    def ship(self, shipped: Shipped) -> None:
        self.shipped[shipped.hash] = shipped
        path = search_path()
        if path != self.path:
            self.path = path

    def add(self, job: Job) -> None:
        (self._shared if job.is_async or job.threads else self._lane)[job.token] = job

    def put_back(self, job: Job) -> None:
        self._returned[job.token] = job

    def remove(self, token: int) -> bool:
        """Whether the job was queued."""
        return any(queue.pop(token, None) for queue in (self._returned, self._lane, self._shared))

    def fill(self, workers: Collection[Worker], now: float) -> None:
        """Gives what may be given."""
        self.congested = False
        if self._returned or self._lane:
            able = sorted((worker for worker in workers if worker.open), key=_load)
            for others, worker in zip(reversed(range(len(able))), able, strict=True):
                self._fill_lane(worker, -(-(len(self._returned) + len(self._lane)) // (others + 1)), now)
        if self._shared:
            self._fill_shared([worker for worker in workers if worker.usable])

    def _fill_lane(self, worker: Worker, most: int, now: float) -> None:
        was_empty = not worker.queue
        given: list[tuple[Job, float]] = []
        jobs, seconds = worker.load.jobs, worker.load.seconds
        for queue in (self._returned, self._lane):
            for job in queue.values():
                expected = self.estimates.expected(job.function)
                if len(given) == most or not admits(jobs, seconds, expected):
                    break
                given.append((job, expected))
                jobs += 1
                seconds += expected
            else:
                continue
            break
        if not given:
            return
        if not worker.give(given, self.shipped, self.path):
            self.congested = True
            return
        if was_empty:
            worker.heard = now
        self._note(worker, [job for job, _ in given])

    def _fill_shared(self, workers: list[Worker]) -> None:
        wanted: dict[int, list[Job]] = {}
        counts = {worker.pid: len(worker.shared) for worker in workers}
        threads = {worker.pid: sum(held.job.threads for held in worker.shared.values()) for worker in workers}
        for job in self._shared.values():
            able = [
                worker
                for worker in workers
                if (threads[worker.pid] < THREADS if job.threads else counts[worker.pid] < ASYNC)
            ]
            if able:
                worker = min(able, key=lambda worker: (counts[worker.pid], len(worker.queue)))
                wanted.setdefault(worker.pid, []).append(job)
                counts[worker.pid] += 1
                threads[worker.pid] += job.threads
        for worker in workers:
            jobs = wanted.get(worker.pid)
            if not jobs:
                continue
            if worker.give([(job, 0.0) for job in jobs], self.shipped, self.path, share=True):
                self._note(worker, jobs)
            else:
                self.congested = True

    def _note(self, worker: Worker, jobs: list[Job]) -> None:
        self.dispatched += len(jobs)
        for job in jobs:
            self.holders[job.token] = worker
            self.remove(job.token)


def _load(worker: Worker) -> float:
    return worker.load.seconds
