"""The pool: jobs in, reports out, from one selector loop and without a thread of its own.

The loop that owns the selector does this and nothing else for the pool:

    while True:
        timeout = pool.turn()
        for key, _ in selector.select(timeout):
            key.data()

A pool is used from one thread. `start` and `stop` only note what is wanted; `turn` sends it, everything for a worker
in one packet. Reports are delivered from `turn` and from the callbacks, never from `start` or `stop`.

Where a job is: queued here → given to a worker → reported. A worker may give back what it has not started; it is then
queued again, before all others. A worker that dies gives back what it has not started, too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from onceflow.backends.local import capacity
from onceflow.backends.local.actors.processes import Hosts
from onceflow.backends.local.admission import Admission, Needs
from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.forkserver_client import HasFileno, Server, Starter
from onceflow.backends.local.live_publishing import Publishing, Then
from onceflow.backends.local.locality import Homes
from onceflow.backends.local.messages import (
    Born,
    Cancel,
    Definition,
    FromWorker,
    Gone,
    Host,
    Interrupt,
    Job,
    Outcome,
    Outcomes,
    Read,
    Ready,
    Receiver,
    Returned,
    Spawn,
    Told,
    Wanted,
)
from onceflow.backends.local.output_relay import Listening
from onceflow.backends.local.reports import (
    Died,
    Ended,
    Finished,
    MetLost,
    Printed,
    Progressed,
    Raised,
    Report,
    Statistics,
)
from onceflow.backends.local.reservations import Reservations
from onceflow.backends.local.send_ahead import LONG
from onceflow.backends.local.sources import Sources
from onceflow.backends.local.workers import Worker
from onceflow.data.objects import HeldRef, Object, Shelf
from onceflow.data.places import Live, Place
from onceflow.data.porter.startup import Start
from onceflow.errors import InputNotSent, WorkersUnavailable
from onceflow.values import culprits, failures, functions
from onceflow.values.failures import Blame
from onceflow.values.functions import Shipped

log = logging.getLogger(__name__)

OVERDUE = 0.010
"""Seconds. A worker that has been silent for this long, and four times as long as its jobs should take, is asked to
give back those that wait behind the one that runs."""

GRACE = 1.0
"""Seconds that a job which is told to stop has for cleaning up. Then its worker is killed."""

UNRESPONSIVE = 0.1
"""Seconds that a worker has to give back what it has not started before it is killed because of what it runs. Code
that does not release the interpreter lock keeps it from doing so."""

CONGESTED = 0.005
"""Seconds until a worker that had too much in its socket is tried again."""


LOOK = 1.0
"""Seconds between two looks at whether somebody let a large value go."""

FRUITLESS = 3
"""Fork servers that may die in a row before a worker of theirs has come to life. One may be killed by chance."""


Ask = Callable[[int, str, Callable[[bytes | None], None]], None]
"""Has somebody told what a job (by its token) asks for by name."""

Define = Callable[[str, Callable[[bytes | None], None]], None]


def define_here(name: str, tell: Callable[[bytes | None], None]) -> None:
    """Tells what `__main__` of this process has under a name."""
    try:
        payload = functions.definition(name)
    except Exception:
        log.exception("%r of __main__ cannot be sent to a worker", name)
        payload = None
    tell(payload)


class Pool:
    """Worker processes on this host.

    `directory` must exist; it gets the lock that proves the end of all workers (`locks`). `workers` defaults to the
    number of usable cores. `preload` names modules that are imported once, before workers are forked.

    `cpus` and `memory` (bytes) are what the jobs that run at the same time may need together (`Job.cpus`,
    `Job.memory`). They default to the number of usable cores, or of workers if that is larger, and to the physical
    memory of the host, or what its control groups leave of that (`capacity`). `grace` is how many seconds a job has for
    cleaning up when it is told to stop.

    `printed` gets what jobs print and log, from `log_level` on (a level of `logging`), and `progressed` how far they
    are; `died` gets process id and exit status of each worker that dies without having been asked to. All are called
    where `report` is. `lost` gets the large values that are no more because their worker died, before anything else
    that follows from it; `missing` the numbers of those that a job was to read and did not find. `variable` says what a
    task variable holds that a job asks for, and `define` what the program's `__main__` has under a name, now or later;
    `asked_for_host` is told that a job makes an actor, and the socket where that will listen. Without `printed`, or
    with `capture=False`, workers write to where this process does. `open_server` gives what starts workers, if that is
    not to be a fork server; `relieve` then says whether a worker may go, or has it prepared.
    """

    def __init__(
        self,
        directory: Path,
        workers: int | None = None,
        *,
        selector: selectors.BaseSelector,
        report: Callable[[Report], None],
        preload: Sequence[str] = (),
        cpus: float | None = None,
        memory: int | None = None,
        grace: float = GRACE,
        printed: Callable[[list[Printed]], None] | None = None,
        progressed: Callable[[Progressed], None] | None = None,
        died: Callable[[int, int | None], None] | None = None,
        lost: Callable[[list[Object]], None] | None = None,
        missing: Callable[[list[int]], None] | None = None,
        variable: Ask | None = None,
        define: Define | None = None,
        open_server: Callable[[], Starter] | None = None,
        relieve: Callable[[int], bool] | None = None,
        asked_for_host: Callable[[Host, int], None] | None = None,
        capture: bool = True,
        log_level: int = logging.INFO,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        cores = len(os.sched_getaffinity(0))
        self.size = cores if workers is None else workers
        self._selector = selector
        self._report = report
        self._preload = tuple(preload)
        self._grace = grace
        self._died = died
        self._lost = lost
        self._missing = missing
        self._variable = variable
        self._define = define or define_here
        self._relieve = relieve
        self._new_server = open_server or (lambda: Server(directory, self._preload, self._environment))
        self._asked_for_host = asked_for_host
        self._wish = Spawn(capture and printed is not None, log_level, progressed is not None)
        self._environment = environment or {}
        there = Needs(max(cores, self.size) if cpus is None else cpus, capacity.memory() if memory is None else memory)
        self.shelf = Shelf()
        """The large values that jobs returned, as long as somebody holds them."""
        self._dispatcher = Dispatcher(Admission(there, self.size), self.shelf, lambda: self.size, self._count_idle)
        self._listening = Listening(selector, self._dispatcher.holders, printed, progressed)
        self._sources = Sources()
        self._workers: dict[int, Worker] = {}
        """Process id → worker, until its end is proved."""
        self._publishing = Publishing(self.shelf, self._workers)
        self._homes = Homes(
            self._publishing, self._dispatcher, self._workers, fail=self._cannot_read, end=self._cannot_start
        )
        self._hosts = Hosts(self._dispatcher, self._spawn_host, lambda report: self._due.append(report))
        self._due: list[Report] = []
        """Reports to be delivered with the next turn."""
        self._failure: WorkersUnavailable | None = None
        self.paused = False
        """Whether nothing is given to workers for the time being."""
        self._withdrawn: set[int] = set()
        """Tokens of jobs that workers have and that shall not start."""
        self._halted = False
        """Whether nothing starts any more."""
        self._fruitless = 0
        """Fork servers in a row that died before a worker of theirs had come to life."""
        self._returned = self._deaths = 0
        self._servers: list[Starter] = []
        """The last one forks; those before it are closed when their last worker is gone."""
        self._open_server()

    def ship(self, shipped: Shipped) -> None:
        """Makes a function known. It is sent to each worker once, with the first job that needs it. If the user's
        modules have changed since the last time, all workers are replaced by fresh ones; what they run is finished."""
        is_new = shipped.hash not in self._dispatcher.shipped
        self._dispatcher.ship(shipped)
        if self._sources.have_changed(now=is_new):
            self.renew()
            if self._preload:
                self._open_server()  # a fork of the present one would begin with the older state

    def know(self, shipped: Sequence[Shipped], path: list[str] | None) -> None:
        """The same for functions of a program on another host, which looks after its modules itself. `path` is its
        `sys.path`, if that has changed."""
        self._dispatcher.shipped.update({function.hash: function for function in shipped})
        if path is not None:
            self._dispatcher.path = path

    def renew(self) -> None:
        """All workers are replaced by fresh ones; what they run is finished."""
        for worker in self._workers.values():
            worker.retired = worker.retired or not worker.host

    def start_porter(self, start: Start, connection: socket.socket) -> None:
        """Has a porter started at this end of a socket. It does not belong to the pool, and outlives it."""
        if self._failure is not None:
            raise self._failure
        self._servers[-1].start_porter(start, connection)

    @property
    def reservations(self) -> Reservations:
        """Places for jobs that are about to be started. The place of one that was started is free again when a worker
        has it."""
        return self._dispatcher.reservations

    def _count_idle(self) -> int:
        """How many workers have nothing in their lanes. Those that have yet to be born count."""
        return self.size - sum(bool(worker.queue) and worker.usable for worker in self._workers.values())

    def start(self, job: Job, live: Mapping[int, Object] | None = None) -> None:
        """Its function must have been shipped, its token be larger than those before. `live` are the objects
        it reads that have not been published, by their numbers; whoever starts it holds them."""
        assert job.function in self._dispatcher.shipped
        if live:
            self._homes.add(job, live)
        else:
            self._dispatcher.add(job)

    def host(self, name: str, job: Job, listener: int) -> None:
        """Starts a job that an actor lives in, in a process of its own, which listens at this descriptor."""
        self._hosts.start(name, job, listener)

    def _spawn_host(self, name: str, listener: int) -> None:
        self._servers[-1].spawn_host(msgspec.structs.replace(self._wish, host=name), listener)

    def publish(self, object: Object, then: Then) -> None:
        """Has a live value written to shared memory. `then` is called later."""
        self._publishing.ask(object, then)

    def follow(self, token: int, jobs: list[Job]) -> bool:
        """Has these run behind a job that was just started, in the same lane, each with the output of the one before it
        (`Job.follows`). One that finds no output there, or would have to wait too long, is reported with `Ended` and
        was not started. False, and nothing has happened, if the job is on its way already."""
        return self._dispatcher.follow(token, jobs, stays=token in self._homes.staying)

    def surrender(self, most: int) -> list[int]:
        """Forgets at most so many of the jobs that no worker has, those that would be next. Returns their tokens. What
        was to follow one of them is reported with `Ended`."""
        tokens = self._dispatcher.surrender(most)
        self._due += self._unfollowed()
        return tokens

    def resize(self, workers: int) -> None:
        """From now on there are so many. Those that are too many go when they have nothing to do."""
        self.size = workers
        idle = [worker for worker in self._workers.values() if worker.usable and not worker.queue and not worker.shared]
        surplus = sum(worker.usable for worker in self._workers.values()) - workers
        for worker in idle[: max(0, surplus)]:
            worker.retired = True

    def count_change(self) -> None:
        """Something was committed to a task variable: what workers have read before may be old."""
        for worker in self._workers.values():
            worker.count_change()

    def is_short(self, function: str) -> bool:
        """Whether calls of it are known to be so short that it pays to have another one follow."""
        return self._dispatcher.estimates.expected(function) < LONG

    def has_started(self, token: int) -> bool:
        """Whether a worker runs this job now, or has run it and not told yet."""
        worker = self._dispatcher.holders.get(token)
        if worker is None:
            return False
        return token in worker.shared or worker.queue[token].place <= worker.mark

    def started(self, token: int) -> float | None:
        """When a worker began to run this job, in seconds since the epoch; None if that has not happened. Jobs that
        share begin when they are given. (One of a lane that has ended and not told yet began before that.)"""
        worker = self._dispatcher.holders.get(token)
        if worker is None:
            return None
        shared = worker.shared.get(token)
        if shared is not None:
            return shared.given
        return worker.started if worker.queue[token].place <= worker.mark else None

    def lingering(self) -> set[Object]:
        """What workers have mapped, although no job of theirs may read it any more."""
        return {object for worker in self._workers.values() for object in worker.lingering}

    def running(self) -> list[int]:
        """The tokens of all jobs that workers run now."""
        return [token for worker in self._workers.values() for token in worker.running]

    def is_queued(self, token: int) -> bool:
        """Whether no worker has this job."""
        return token not in self._dispatcher.holders

    def lacks_room(self, token: int) -> bool:
        """Whether this job waits for cpus or memory (`admission`), not for a worker that has nothing to do."""
        job = self._dispatcher.find_needy(token)
        if job is None:
            return False
        return job.shares or any(worker.open and not worker.queue for worker in self._workers.values())

    def exceeds(self, token: int) -> bool:
        """Whether this job waits for more than there is anywhere. On one host it counts as all there is."""
        return False

    def withdraw(self, token: int) -> None:
        """Takes a job back that no worker has started, which is answered by `Ended`. One that has started goes on.
        Unknown tokens are ignored."""
        worker = self._dispatcher.holders.get(token)
        if worker is None:
            self.stop(token)
        elif token in worker.queue and worker.queue[token].place > worker.mark:
            self._withdrawn.add(token)
            if worker.recalled is None:
                worker.recall(time.monotonic())

    def stop(self, token: int, *, now: bool = False) -> None:
        """Ends a job. Answered by `Ended`, or by another report if that was quicker. Unknown tokens are ignored.

        A running job is told first: `Stopped` is raised in it, or `asyncio.CancelledError` if it is async. From then on
        it counts as stopped, whatever it returns or raises. If it still runs after the time for cleaning up, or at once
        with `now`, its worker is killed. Others in that lane are then started elsewhere, and others that share the
        worker are reported with `Died`.

        What the job started ends with its worker, which is replaced even if the job has ended by itself, and only then
        `Ended` is reported. Nobody can tell, though, which of the jobs that share a worker has started what. So if
        others still run there, the worker gets no more jobs and ends when they have ended. It goes on if the stopped
        job was async and there are no child processes.
        """
        if self._hosts.stop(token):
            return
        if self._homes.remove(token):
            self._dispatcher.leave_followers(token)
            self._due += [Ended(token, started=False), *self._unfollowed()]
            return
        if self._dispatcher.remove(token):
            self._due.append(Ended(token, started=False))
            self._due += self._unfollowed()
            return
        worker = self._dispatcher.holders.get(token)
        if worker is None:
            return
        time_now = time.monotonic()
        if token not in worker.stopping:
            if token in worker.queue:
                if worker.recalled is None:
                    worker.recall(time_now)
                worker.tell(Interrupt(token))
            else:
                worker.tell(Cancel(token))
            worker.stopping[token] = time_now + self._grace
            self._evacuate(worker)  # it will have to go
        if now:
            worker.stopping[token] = time_now

    def halt(self) -> None:
        """Starts nothing more: neither what is queued nor what workers have been given and have not started, which is
        reported with `Ended`. What runs goes on. For good. Unlike all other methods, from any thread."""
        self._halted = True
        for worker in list(self._workers.values()):
            worker.halt()

    def turn(self) -> float | None:
        """Delivers what is due, sends what is queued. To be called before every wait; returns the seconds after which
        it has to be called again at the latest. Raises `WorkersUnavailable` if there is no way to get a worker."""
        if self._failure is not None:
            raise self._failure
        due, self._due = self._due, []
        for report in due:
            self._report(report)
        now = time.monotonic()
        self._dispatcher.congested = False
        gives = not (self.paused or self._halted)
        if self._homes.staying and gives:
            self._homes.give(now)
        if (len(self._dispatcher) or self._dispatcher.reservations.young) and gives:
            self._dispatcher.fill(self._workers.values(), now)
            for job, problem in self._dispatcher.unsent:
                self._cannot_read(job, problem)
            self._dispatcher.unsent.clear()
            if self._dispatcher.unfollowed:
                for report in self._unfollowed():
                    self._report(report)
        self._let_go_of_retired()
        self._tell_of_memory()
        if self._due:
            return 0
        timeout = self._look_after(now)
        return timeout if not self.shelf.size else LOOK if timeout is None else min(timeout, LOOK)

    def _tell_of_memory(self) -> None:
        """What nobody holds any more, those may use again who made it."""
        freed = self.shelf.collect()
        for pid, places in freed.items():
            worker = self._workers.get(pid)
            if worker is not None:  # else its memory has gone with it
                worker.free(places)
        closed = self.shelf.closed()
        if closed:
            for worker in self._workers.values():
                worker.forget(closed)

    def _unfollowed(self) -> list[Report]:
        tokens, self._dispatcher.unfollowed = self._dispatcher.unfollowed, []
        return [Ended(token, started=False) for token in tokens]

    def close(self) -> None:
        """Ends all workers at once and waits for that. What they ran is not reported, but what it printed is."""
        for server in self._servers:
            self._unwatch(server.connection)
            server.close()
        self._servers.clear()
        for worker in self._workers.values():
            self._listening.drain(worker)
            self._forget(worker)
        self._workers.clear()
        self.shelf.close()

    def statistics(self) -> Statistics:
        return Statistics(
            workers=sum(worker.usable for worker in self._workers.values()),
            starting=self._servers[-1].starting if self._servers else 0,
            queued=len(self._dispatcher) + len(self._homes),
            taken=len(self._dispatcher.holders),
            dispatched=self._dispatcher.dispatched,
            returned=self._returned,
            deaths=self._deaths,
        )

    def _look_after(self, now: float) -> float | None:
        """Sees to workers that do not get on. Returns the seconds until there may be more to do."""
        deadlines = [deadline for worker in self._workers.values() if (deadline := self._see_to(worker, now))]
        if self._dispatcher.congested:
            deadlines.append(now + CONGESTED)
        deadlines += self._listening.turn(now)
        return max(0.0, min(deadlines) - now) if deadlines else None

    def _see_to(self, worker: Worker, now: float) -> float | None:
        """Asks a worker to give back what waits too long, kills one that has to answer and does not. Returns when to
        look at it again."""
        if worker.killed or (len(worker.queue) < 2 and not worker.stopping and not worker.owed):  # almost always
            return None
        if worker.owed:
            worker.catch_up()
        looks = [now + CONGESTED] if worker.owed else []
        if worker.stopping:
            deadline = min([self._deadline(worker, token, now) for token in worker.stopping])
            if deadline <= now:
                worker.kill()
                return None
            looks.append(deadline)
        if worker.recalled is None and len(worker.queue) > 1:
            deadline = worker.heard + max(OVERDUE, 4 * worker.load.seconds)
            if now < deadline:
                looks.append(deadline)
            else:
                worker.recall(now)
        return min(looks, default=None)

    def _deadline(self, worker: Worker, token: int, now: float) -> float:
        """When the worker has to be killed because of a job that is to stop, or looked at again.

        Of the jobs in the lane it is certain which one runs when the worker has given back the others, or has no
        others. One before the mark has ended, and its outcome is on its way; for one after it there is no need to kill
        the worker and with it somebody else's job: if it starts after all, that is seen soon."""
        deadline = worker.stopping[token]
        given = worker.queue.get(token)
        if given is None or deadline > now:
            return deadline
        if given.place != worker.mark:
            return now + UNRESPONSIVE
        if worker.answered or len(worker.queue) == 1:
            return deadline
        assert worker.recalled is not None
        return worker.recalled + UNRESPONSIVE

    def _heard_from(self, worker: Worker, way: Receiver[FromWorker]) -> None:
        if way.connection.fileno() < 0:  # closed by another callback of the same turn of the loop
            return
        try:
            received = way.receive()
        except BlockingIOError:
            return
        if received is None:
            # It is dying, or user code closed its sockets. Its end is proved when the fork server has reaped it.
            self._unwatch(way.connection)
            if not worker.killed:
                worker.broken = True
                worker.kill()
        else:
            self._handle(worker, *received)

    def _handle(self, worker: Worker, message: FromWorker, descriptors: tuple[int, ...] = ()) -> None:
        match message:
            case Outcomes(outcomes):
                if outcomes:
                    worker.heard = time.monotonic()
                for segment, descriptor in zip(message.segments, descriptors, strict=True):
                    self.shelf.open(segment, descriptor, worker.pid)
                worker.note_lingering(message.number, message.lingering, self.shelf)
                if message.closed:
                    self.shelf.give_up(worker.pid, message.closed)
                self._listening.catch_up(worker)
                for published in message.published:
                    self._publishing.answered(published)
                for outcome in outcomes:
                    self._ended(worker, outcome)
            case Returned(number, tokens):
                worker.answered = worker.recalled is not None and number == worker.recalls
                self._returned += len(tokens)
                for token in tokens:
                    self._give_back(worker, token)
            case Read(number, token, name):
                if token in self._dispatcher.holders and self._variable is not None:
                    self._variable(token, name, lambda value: worker.tell(Told(number, value)))
                else:
                    worker.tell(Told(number, None, known=False))
            case Wanted(name):
                self._define(name, lambda payload: worker.tell(Definition(name, payload)))
            case Host():
                assert self._asked_for_host is not None
                self._asked_for_host(message, descriptors[0] if descriptors else -1)

    def _ended(self, worker: Worker, outcome: Outcome) -> None:
        token = outcome.token
        self._listening.end(worker, token)
        if outcome.cancelled and not self._leaves_worker_clean(worker, outcome):
            worker.retired = True
            if worker.has_nothing_but(token):
                worker.stopping.setdefault(token, time.monotonic() + self._grace)
                worker.over = token
                self._end_if_evacuated(worker)
                return  # its end is reported together with that of everything it started
        given = worker.take(token)
        self._withdrawn.discard(token)
        worker.retired = worker.retired or bool(worker.host)  # it was for this job alone
        if self._homes.readers:
            self._homes.forget(token)
        del self._dispatcher.holders[token]
        assert given is not None
        if outcome.gone and self._missing is not None:
            self._missing(outcome.gone)
        if outcome.skipped:
            self._report(Ended(token, started=False))
            return
        if given.place and not outcome.cancelled and not worker.was_hurried(given):
            self._dispatcher.estimates.learn(given.job.function, outcome.ended - outcome.started)
        if outcome.cancelled:
            self._report(Ended(token, started=True))
        elif outcome.lost:
            self._report(MetLost(token, outcome.lost, outcome.started, outcome.ended, worker.pid))
        elif outcome.failure is None:
            self._report(
                Finished(
                    token,
                    [part if isinstance(part, bytes) else self._shelve(part, worker) for part in outcome.parts],
                    outcome.started,
                    outcome.ended,
                    worker.pid,
                    outcome.graph,
                    outcome.annotations,
                    [
                        HeldRef(ref.holders, ref.origin, self._content(ref.content, worker), ref.actor)
                        for ref in outcome.refs
                    ],
                    outcome.writes,
                )
            )
        else:
            times = outcome.started, outcome.ended
            self._report(Raised(token, outcome.failure, outcome.permanent, *times, worker.pid, outcome.answer))

    def _content(self, part: bytes | Place | Live | None, worker: Worker) -> bytes | Object | None:
        return part if part is None or isinstance(part, bytes) else self._shelve(part, worker)

    def _shelve(self, part: Place | Live, worker: Worker) -> Object:
        return self.shelf.add_live(part, worker.pid) if isinstance(part, Live) else self.shelf.add(part)

    def _evacuate(self, worker: Worker) -> bool:
        """Has everything brought to safety that would go with this worker. Whether that has been done."""
        return self._publishing.evacuate(worker) and (self._relieve is None or self._relieve(worker.pid))

    def _end_if_evacuated(self, worker: Worker) -> None:
        """Kills a worker whose last job was stopped, when others have what only it had."""
        if worker.over and not worker.killed and self._evacuate(worker):
            worker.kill()

    def _cannot_read(self, job: Job, problem: OSError) -> None:
        self._dispatcher.leave_followers(job.token)
        failure = failures.dump(InputNotSent(job.task, culprits.told(problem)), "the engine")
        self._due += [Raised(job.token, failure, False, 0.0, 0.0, 0, here=True), *self._unfollowed()]

    def _cannot_start(self, job: Job) -> None:
        """What it reads is lost."""
        self._dispatcher.leave_followers(job.token)
        self._due += [Ended(job.token, started=False), *self._unfollowed()]

    def _leaves_worker_clean(self, worker: Worker, outcome: Outcome) -> bool:
        """Whether a worker can go on as if the stopped job had never been there. An exception that comes out of nowhere
        may have left locks held and things half done; and processes may be left that the job started."""
        return outcome.token in worker.shared and worker.shared[outcome.token].job.is_async and not outcome.children

    def _give_back(self, worker: Worker, token: int) -> None:
        """The worker has not started this job and will not."""
        stopped = token in worker.stopping or token in self._withdrawn
        self._withdrawn.discard(token)
        given = worker.take(token)
        del self._dispatcher.holders[token]
        assert given is not None
        if stopped or given.job.follows:
            self._homes.forget(token)
            self._report(Ended(token, started=False))
        elif not self._homes.take_back(token):
            self._dispatcher.put_back(given.job)

    def _gone(self, worker: Worker, status: int | None) -> None:
        """The worker's end is proved."""
        for message, descriptors in worker.remaining():
            self._handle(worker, message, descriptors)
        self._listening.drain(worker)
        if worker.broken or not (worker.killed or worker.retired):
            self._deaths += 1
            log.warning("worker %s died with status %s", worker.pid, status)
            if self._died is not None:
                self._died(worker.pid, status)
        lost = self._publishing.lose(worker)
        if lost:
            if self._lost is not None:
                self._lost(lost)
            self._publishing.forget(lost)
        self._homes.close(worker)
        mark = worker.mark
        for token in [token for token, given in worker.queue.items() if given.place > mark]:
            self._give_back(worker, token)
        started = [*worker.queue, *worker.shared]
        self._withdrawn.difference_update(started)
        running = worker.running
        for token in started:
            del self._dispatcher.holders[token]
            self._homes.forget(token)
        del self._workers[worker.pid]
        self._forget(worker)
        self.shelf.give_up(worker.pid)
        worker.lingering.clear()
        for token in started:
            if token in worker.stopping:
                self._report(Ended(token, started=True))
        died = [token for token in started if token not in worker.stopping]
        for blame in get_args(Blame):
            tokens = tuple([token for token in died if _blame(worker, token, running) == blame])
            if tokens:
                self._report(Died(tokens, worker.pid, status, blame))
        self._spawn_missing()
        self._close_old_servers()

    def _forget(self, worker: Worker) -> None:
        self._listening.remove(worker)
        for descriptor in (*worker.connections, worker.pidfd):
            self._unwatch(descriptor)
        worker.close()

    def _let_go_of_retired(self) -> None:
        for worker in self._workers.values():
            if worker.over:
                self._end_if_evacuated(worker)
            elif (
                worker.retired
                and not worker.queue
                and not worker.shared
                and worker.lane.connection.fileno() >= 0
                and self._evacuate(worker)
            ):
                for connection in worker.connections:
                    self._unwatch(connection)
                worker.server.dismiss(worker.pid)
                worker.disconnect()
        self._spawn_missing()

    def _open_server(self) -> None:
        server = self._new_server()
        self._servers.append(server)
        self._selector.register(server.connection, selectors.EVENT_READ, lambda: self._heard_from_server(server))
        self._spawn_missing()

    def _spawn_missing(self) -> None:
        if self._failure is not None:
            return
        server = self._servers[-1]
        there = sum(worker.usable for worker in self._workers.values())
        for _ in range(self.size - there - server.starting):
            server.spawn(self._wish)

    def _heard_from_server(self, server: Starter) -> None:
        if server not in self._servers:
            return
        try:
            received = server.receive()
        except BlockingIOError:
            return
        if received is None:
            self._server_gone(server)
            return
        message, descriptors = received
        match message:
            case Ready(missing):
                for module, problem in missing:
                    log.warning("%s could not be preloaded: %s", module, problem)
            case Born(pid, host):
                self._born(Worker(pid, server, descriptors, host))
            case Gone(pid, status):
                self._gone(self._workers[pid], status)

    def _born(self, worker: Worker) -> None:
        worker.server.starting -= not worker.host
        worker.server.fruitful = True
        worker.retired = worker.server is not self._servers[-1]
        if worker.pid in self._workers:  # its fork server died, so others may have reaped it and its id is in use again
            self._gone(self._workers[worker.pid], None)
        self._workers[worker.pid] = worker
        if self._halted:
            worker.halt()
        self._listening.add(worker)
        for way in (worker.lane, worker.side):
            self._selector.register(way.connection, selectors.EVENT_READ, lambda way=way: self._heard_from(worker, way))
        if worker.host:
            self._hosts.born(worker)

    def _server_gone(self, server: Starter) -> None:
        """Somebody killed it. Its workers die with it, and nobody can tell their exit status any more."""
        is_last = server is self._servers[-1]
        self._unwatch(server.connection)
        self._servers.remove(server)
        status = server.close()
        log.warning("the fork server %s died with status %s", server.pid, status)
        for worker in self._workers.values():
            if worker.server is server:
                worker.killed = worker.broken = True
                self._selector.register(
                    worker.pidfd, selectors.EVENT_READ, lambda worker=worker: self._gone(worker, None)
                )
        self._hosts.lose()
        self._fruitless = 0 if server.fruitful else self._fruitless + 1
        if is_last and self._fruitless < FRUITLESS:
            self._open_server()
        elif is_last:  # another one would fare no better
            self._failure = WorkersUnavailable(
                f"the process that starts workers ended at once, with status {status}, {FRUITLESS} times in a row"
            )

    def _close_old_servers(self) -> None:
        used = {id(worker.server) for worker in self._workers.values()}
        for server in self._servers[:-1]:
            if id(server) not in used and not server.starting:
                self._servers.remove(server)
                self._unwatch(server.connection)
                server.close()

    def _watch(self, descriptor: int | HasFileno, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def _unwatch(self, descriptor: int | HasFileno) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it is not watched, or is closed already
            self._selector.unregister(descriptor)


def _blame(worker: Worker, token: int, running: list[int]) -> Blame:
    """`running` are the tokens of the jobs that the worker ran when it died. Of the lane's it is certain, although
    others may have shared the worker: those are given to a lane from now on (`Job.alone`)."""
    if token not in running:
        return "none"
    return "certain" if token in worker.queue or len(running) == 1 else "possible"
