"""Dispatch: which worker gets which job.

Jobs for lanes go first come, first served, to the least loaded worker, as far as its window admits (`send_ahead`). Each
worker gets its part of what is queued, so that a batch for the first does not leave the second idle. Jobs that share
go to the worker with the fewest of them; among equals to one whose lane is empty, because a job in a lane can only be
stopped by killing the process. Jobs that say what they need wait until that is there (`admission`).

A job may have others that *follow* it: each takes the output of the one before it, in the same lane and right behind
it, as long as they are known to be short. They are not queued, and are not given to other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import inf

from onceflow.backends.local.admission import Admission, Room
from onceflow.backends.local.forkserver_client import search_path
from onceflow.backends.local.messages import Job
from onceflow.backends.local.pending_jobs import Queues
from onceflow.backends.local.reservations import Reservations
from onceflow.backends.local.send_ahead import LONG, Estimates, admits
from onceflow.backends.local.workers import Worker
from onceflow.data.objects import Shelf
from onceflow.values.functions import Shipped

ASYNC = 1000
"""Async jobs that share a worker at most."""

THREADS = 32
"""Jobs in threads that share a worker at most."""


class Dispatcher:
    """The queue of a pool. It gives jobs to workers and never takes any back."""

    def __init__(self, admission: Admission, shelf: Shelf, workers: Callable[[], int], idle: Callable[[], int]) -> None:
        self._shelf = shelf
        self.shipped: dict[str, Shipped] = {}
        """Hash → function."""
        self.path = search_path()
        """The caller's `sys.path` when a function was last shipped."""
        self.estimates = Estimates()
        self.reservations = Reservations(self.estimates, workers, idle)
        self.holders: dict[int, Worker] = {}
        """Token → the worker that has the job."""
        self.congested = False
        """Whether a worker could not receive what it was to be given."""
        self.served: set[int] = set()
        """Process ids of workers that were given something that was queued. The reader takes them out."""
        self.dispatched = 0
        """Jobs given, since the beginning."""
        self.unsent: list[tuple[Job, OSError]] = []
        """Jobs that cannot be sent to any worker, and why."""
        self._one_by_one = False
        """Whether jobs are sent in batches of one."""
        self.unfollowed: list[int] = []
        """Tokens of jobs that were to follow another and will not."""
        self._followers: dict[int, list[Job]] = {}
        """Token of a queued job → those that follow it."""
        self._admission = admission
        self._queues = Queues()
        self.may_have_jobs = False
        """False if nothing is queued."""

    def __len__(self) -> int:
        return len(self._queues)

    def find_path(self) -> None:
        """The caller may have changed it."""
        path = search_path()
        if path != self.path:
            self.path = path

    def add(self, job: Job) -> None:
        self.may_have_jobs = True
        self._queues.add(job)
        if self._queues.needy and job.needy:
            self._admission.warn_of(job)

    @property
    def weighs(self) -> bool:
        """Whether it matters what jobs need."""
        return self._queues.needy > 0 or bool(self._admission.given) or self._admission.scarce

    def follow(self, token: int, jobs: list[Job], *, stays: bool = False) -> bool:
        """Whether the job is queued, or stays at home (`locality`): then these follow it."""
        if not stays and not (jobs and self._queues.lane.has_come(token, jobs[0])):
            return False
        self._followers[token] = jobs
        return True

    def put_back(self, job: Job) -> None:
        """A worker had it and did not start it. It comes before others that need the same, and counts as promised until
        another worker has it: what has begun and waits is bounded."""
        self.may_have_jobs = True
        self._queues.put_back(job)
        self.reservations.keep(job.token, job.function)

    def remove(self, token: int) -> bool:
        """Whether the job was queued."""
        if not self._queues.remove(token):
            return False
        self.reservations.release(token)
        self.leave_followers(token)
        return True

    def surrender(self, most: int) -> list[int]:
        """Removes at most so many that are queued, and returns their tokens."""
        tokens = self._queues.first(most)
        for token in tokens:
            self.remove(token)
        return tokens

    def leave_followers(self, token: int) -> None:
        """The job will not run, so nothing can follow it."""
        self._leave_behind(self._followers.pop(token, ()))

    def find_needy(self, token: int) -> Job | None:
        """The job, if it is queued and says what it needs."""
        return self._queues.find_needy(token)

    def fill(self, workers: Collection[Worker], now: float) -> None:
        """Gives what may be given."""
        self._give_what_fits(workers, now)
        queues = self._queues
        lines = (queues.lane, *queues.sharing)
        self.may_have_jobs = queues.needy > 0 or any([line.count or line.returned for line in lines])  # noqa: C419

    def _give_what_fits(self, workers: Collection[Worker], now: float) -> None:
        self._one_by_one = self._one_by_one and len(self) > 1
        admission = self._admission
        if not self.weighs:
            self._fill_lanes(workers, None, now)
            if any([line.count or line.returned for line in self._queues.sharing]):  # noqa: C419
                self._fill_shared(workers, None)
            if self._queues.lane.young or (self.reservations.waiting and self.reservations.young):
                self._hurry(workers)
            return
        admission.line_up(self._queues.holds)
        room = admission.room(workers, self.holders, self._queues.shares)
        if admission.first is not None and admission.first.shares:
            self._fill_shared(workers, room)
            self._fill_lanes(workers, room, now)
        else:
            self._fill_lanes(workers, room, now)
            self._fill_shared(workers, room)
        admission.line_up(self._queues.holds, room.refused)

    def _fill_lanes(self, workers: Collection[Worker], room: Room | None, now: float) -> None:
        lane = self._queues.lane
        queued = lane.count + len(lane.returned) if room is None else sum(map(len, self._queues.lines(share=False)))
        if not queued:
            return
        able = sorted([worker for worker in workers if worker.open], key=_load)
        for others, worker in zip(reversed(range(len(able))), able, strict=True):
            queued -= self._fill_lane(worker, -(-queued // (others + 1)), room, now)

    def _hurry(self, workers: Collection[Worker]) -> None:
        """A run that has just begun waits: holders that can release it before are asked to."""
        for worker in workers:
            if worker.queue:
                worker.hurry()

    def _fill_lane(self, worker: Worker, most: int, room: Room | None, now: float) -> int:
        """Returns how many jobs were given."""
        given: list[tuple[Job, float]] = []
        jobs, seconds = worker.load.jobs, worker.load.seconds
        for job in self._queues.lane if room is None else room.fitting(self._queues.lines(share=False), worker.pid):
            expected = self.estimates.seconds.get(job.function, inf)
            if len(given) == (1 if self._one_by_one else most) or (jobs and not admits(jobs, seconds, expected)):
                break
            given.append((job, expected))
            jobs += 1
            seconds += expected
            if room is not None:
                room.take()
        try:
            if not given or not self._give(worker, given, now):
                return 0
        except OSError as problem:
            return self._refuse([job for job, _ in given], problem)
        self.served.add(worker.pid)
        return len(given)

    def _refuse(self, jobs: list[Job], problem: OSError) -> int:
        """These cannot be sent: together they need more than there is of memory, disk or descriptors. From now on they
        are sent one by one, until the one is found that needs too much. Returns how many are not queued any more."""
        self._one_by_one = len(jobs) > 1
        if self._one_by_one:
            self.congested = True
            return 0
        self._queues.take(jobs)
        self.reservations.release(jobs[0].token)
        self.unsent.append((jobs[0], problem))
        return 1

    def give_at_once(self, worker: Worker, job: Job, now: float) -> bool:
        """Gives a job to this worker, whatever is queued. False if the worker lags behind."""
        return self._give(worker, [(job, self.estimates.expected(job.function))], now)

    def give_alone(self, worker: Worker, job: Job, now: float) -> bool:
        """Gives a job that was never queued to the worker that is for it. False if the worker is gone."""
        if not worker.give([(job, 0.0)], self.shipped, self.path, self._shelf, share=job.shares):
            return False
        worker.heard = now
        self.dispatched += 1
        self.holders[job.token] = worker
        self._admission.note_given([job])
        return True

    def _give(self, worker: Worker, given: list[tuple[Job, float]], now: float) -> bool:
        was_empty = not worker.queue
        if not worker.give(
            self._with_followers(given) if self._followers else given, self.shipped, self.path, self._shelf
        ):
            self.congested = True
            return False
        if was_empty:
            worker.heard = now
        self._note(worker, [job for job, _ in given])
        return True

    def _with_followers(self, given: list[tuple[Job, float]]) -> list[tuple[Job, float]]:
        """The same, each with those of its followers that are known to be short."""
        result: list[tuple[Job, float]] = []
        for job, expected in given:
            result.append((job, expected))
            for follower in self._followers.get(job.token, ()) if expected < LONG else ():
                expected = self.estimates.expected(follower.function)
                if expected >= LONG:
                    break
                result.append((follower, expected))
        return result

    def _leave_behind(self, followers: Iterable[Job]) -> None:
        self.unfollowed += [follower.token for follower in followers]

    def _fill_shared(self, workers: Collection[Worker], room: Room | None) -> None:
        lines = self._queues.lines(share=True)
        if not lines:
            return
        places = _Places([worker for worker in workers if worker.usable])
        if room is None:
            for line in lines:
                for job in line:
                    if not places.find(job):
                        break
        else:
            for job in room.fitting(lines):
                if places.find(job):
                    room.take()
        for worker, found in places.found:
            jobs = found[:1] if self._one_by_one else found
            self.congested = self.congested or len(jobs) < len(found)
            try:
                if worker.give([(job, 0.0) for job in jobs], self.shipped, self.path, self._shelf, share=True):
                    self._note(worker, jobs)
                else:
                    self.congested = True
            except OSError as problem:
                self._refuse(jobs, problem)

    def _note(self, worker: Worker, jobs: list[Job]) -> None:
        self.dispatched += len(jobs)
        if self._queues.needy:
            self._admission.note_given(jobs)
        self._queues.take(jobs)
        promised = self.reservations.promised
        for job in jobs:
            self.holders[job.token] = worker
            if job.token in promised:
                self.reservations.release(job.token)
            if self._followers:
                self._note_followers(worker, job)

    def _note_followers(self, worker: Worker, job: Job) -> None:
        followers = self._followers.pop(job.token, ())
        for follower in followers:
            if follower.token in worker.queue:
                self.holders[follower.token] = worker
                self.dispatched += 1
        self._leave_behind([follower for follower in followers if follower.token not in worker.queue])


class _Places:
    """Where jobs that share find a place."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self._counts = {worker.pid: len(worker.shared) for worker in workers}
        self._threads = {worker.pid: sum(held.job.threads for held in worker.shared.values()) for worker in workers}
        self._jobs: dict[int, list[Job]] = {}

    def find(self, job: Job) -> bool:
        """Whether there was one."""
        counts, threads = self._counts, self._threads
        able = [
            worker
            for worker in self._workers
            if (threads[worker.pid] < THREADS if job.threads else counts[worker.pid] < ASYNC)
        ]
        if not able:
            return False
        worker = min(able, key=lambda worker: (counts[worker.pid], len(worker.queue)))
        self._jobs.setdefault(worker.pid, []).append(job)
        counts[worker.pid] += 1
        threads[worker.pid] += job.threads
        return True

    @property
    def found(self) -> list[tuple[Worker, list[Job]]]:
        return [(worker, self._jobs[worker.pid]) for worker in self._workers if worker.pid in self._jobs]


def _load(worker: Worker) -> float:
    return worker.load.seconds
