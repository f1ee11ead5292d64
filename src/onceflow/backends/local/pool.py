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

from onceflow.backends.local import capacity, stragglers
from onceflow.backends.local.actors.processes import Hosts
from onceflow.backends.local.admission import Admission, Needs
from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.fork_servers import ForkServers
from onceflow.backends.local.forkserver_client import HasFileno, Server, Starter
from onceflow.backends.local.live_publishing import Publishing, Then
from onceflow.backends.local.locality import Homes
from onceflow.backends.local.messages import (
    Cancel,
    FromWorker,
    Host,
    Interrupt,
    Job,
    Receiver,
    Spawn,
)
from onceflow.backends.local.output_relay import Listening
from onceflow.backends.local.reports import (
    Died,
    Ended,
    Printed,
    Progressed,
    Raised,
    Report,
    Statistics,
)
from onceflow.backends.local.reservations import Reservations
from onceflow.backends.local.send_ahead import LONG
from onceflow.backends.local.sources import Sources
from onceflow.backends.local.worker_messages import Ask, Define, WorkerMessages
from onceflow.backends.local.workers import Worker
from onceflow.data.objects import Object, Shelf
from onceflow.data.porter.startup import Start
from onceflow.errors import InputNotSent
from onceflow.values import culprits, failures, functions
from onceflow.values.failures import Blame
from onceflow.values.functions import Shipped

log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds that a job which is asked to stop has for cleaning up. Then its worker is killed."""

LOOK = 1.0
"""Seconds between two looks at whether a large value was released."""


def define_here(name: str, tell: Callable[[bytes | None], None]) -> None:
    """Returns what `__main__` of this process has under a name."""
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
    cleaning up when it is asked to stop.

    `printed` gets what jobs print and log, from `log_level` on (a level of `logging`), and `progressed` how far they
    are; `died` gets process id and exit status of each worker that dies without having been asked to. All are called
    where `report` is. `lost` gets the large values that are no more because their worker died, before anything else
    that follows from it; `missing` the numbers of those that a job was to read and did not find. `variable` says what a
    task variable holds that a job asks for, and `define` what the program's `__main__` has under a name, now or later;
    `asked_for_host` is notified that a job makes an actor, and the socket where that will listen. Without `printed`, or
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
        self._relieve = relieve
        self._servers = ForkServers(
            selector,
            open_server or (lambda: Server(directory, self._preload, self._environment)),
            born=self._born,
            gone=lambda pid, status: self._gone(self._workers[pid], status),
            died=self._server_died,
        )
        self._wish = Spawn(capture and printed is not None, log_level, progressed is not None)
        self._environment = environment or {}
        there = Needs(max(cores, self.size) if cpus is None else cpus, capacity.memory() if memory is None else memory)
        self.shelf = Shelf()
        """The large values that jobs returned, as long as they have holders."""
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
        self._told = WorkerMessages(
            self._dispatcher,
            self._homes,
            self.shelf,
            self._listening,
            self._publishing,
            report=report,
            over=self._end_if_evacuated,
            grace=grace,
            missing=missing,
            variable=variable,
            define=define or define_here,
            asked_for_host=asked_for_host,
        )
        self._due: list[Report] = []
        """Reports to be delivered with the next turn."""
        self.paused = False
        """Whether nothing is given to workers for the time being."""
        self._halted = False
        """Whether nothing starts any more."""
        self._deaths = 0
        self._open_server()

    def ship(self, shipped: Shipped) -> None:
        """Makes a function known. It is sent to each worker once, with the first job that needs it. If the user's
        modules have changed since the last time, all workers are replaced by fresh ones; what they run is finished."""
        is_new = shipped.hash not in self._dispatcher.shipped
        self._dispatcher.shipped[shipped.hash] = shipped
        self._dispatcher.find_path()
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
        self._servers.start_porter(start, connection)

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
        it reads that have not been published, by their numbers; the caller that starts it holds them."""
        assert job.function in self._dispatcher.shipped
        if live:
            self._homes.add(job, live)
        else:
            self._dispatcher.add(job)

    def host(self, name: str, job: Job, listener: int) -> None:
        """Starts a job that an actor lives in, in a process of its own, which listens at this descriptor."""
        self._hosts.start(name, job, listener)

    def _spawn_host(self, name: str, listener: int) -> None:
        self._servers.spawn_host(msgspec.structs.replace(self._wish, host=name), listener)

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
        """Whether a worker runs this job now, or has run it and not reported yet."""
        worker = self._dispatcher.holders.get(token)
        if worker is None:
            return False
        return token in worker.shared or worker.queue[token].place <= worker.mark

    def started(self, token: int) -> float | None:
        """When a worker began to run this job, in seconds since the epoch; None if that has not happened. Jobs that
        share begin when they are given. (One of a lane that has ended and not been reported yet began before that.)"""
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
            self._told.withdrawn.add(token)
            if worker.recalled is None:
                worker.recall(time.monotonic())

    def stop(self, token: int, *, now: bool = False) -> None:
        """Ends a job. Answered by `Ended`, or by another report if that was quicker. Unknown tokens are ignored.

        A running job is notified first: `Stopped` is raised in it, or `asyncio.CancelledError` if it is async. From
        then on it counts as stopped, whatever it returns or raises. If it still runs after the time for cleaning up, or
        at once with `now`, its worker is killed. Others in that lane are then started elsewhere, and others that share
        the worker are reported with `Died`.

        What the job started ends with its worker, which is replaced even if the job has ended by itself, and only then
        `Ended` is reported. Which of the jobs that share a worker has started what is unknown, though. So if
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
        if self._servers.failure is not None:
            raise self._servers.failure
        due, self._due = self._due, []
        for report in due:
            self._report(report)
        now = time.monotonic()
        self._dispatcher.congested = False
        gives = not (self.paused or self._halted)
        if self._homes.staying and gives:
            self._homes.give(now)
        waiting = self._dispatcher.reservations.waiting
        if gives and (self._dispatcher.may_have_jobs or (waiting and self._dispatcher.reservations.young)):
            self._dispatcher.fill(self._workers.values(), now)
            for job, problem in self._dispatcher.unsent:
                self._cannot_read(job, problem)
            self._dispatcher.unsent.clear()
            if self._dispatcher.unfollowed:
                for report in self._unfollowed():
                    self._report(report)
        self._let_go_of_retired()
        if self.shelf.dropped or self.shelf.closed_here:
            self._tell_of_memory()
        if self._due:
            return 0
        timeout = self._look_after(now)
        return timeout if not self.shelf.size else LOOK if timeout is None else min(timeout, LOOK)

    def _tell_of_memory(self) -> None:
        """Objects without holders: their makers may reuse the memory."""
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
        self._servers.close()
        for worker in self._workers.values():
            self._listening.drain(worker)
            self._forget(worker)
        self._workers.clear()
        self.shelf.close()

    def statistics(self) -> Statistics:
        return Statistics(
            workers=sum(worker.usable for worker in self._workers.values()),
            starting=self._servers.starting,
            queued=len(self._dispatcher) + len(self._homes),
            taken=len(self._dispatcher.holders),
            dispatched=self._dispatcher.dispatched,
            returned=self._told.returned,
            deaths=self._deaths,
        )

    def _look_after(self, now: float) -> float | None:
        """Sees to workers that do not get on. Returns the seconds until there may be more to do."""
        deadlines: list[float] = []
        for worker in self._workers.values():
            if worker.killed or (len(worker.queue) < 2 and not worker.stopping and not worker.owed):  # almost always
                continue
            if deadline := stragglers.see_to(worker, now):
                deadlines.append(deadline)
        if self._dispatcher.congested:
            deadlines.append(now + stragglers.CONGESTED)
        if self._listening.due:
            deadlines += self._listening.turn(now)
        return max(0.0, min(deadlines) - now) if deadlines else None

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
            self._told.handle(worker, *received)

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
        """An input of the job is lost."""
        self._dispatcher.leave_followers(job.token)
        self._due += [Ended(job.token, started=False), *self._unfollowed()]

    def _gone(self, worker: Worker, status: int | None) -> None:
        """The worker's end is proved."""
        for message, descriptors in worker.remaining():
            self._told.handle(worker, message, descriptors)
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
            self._told.give_back(worker, token)
        started = [*worker.queue, *worker.shared]
        self._told.withdrawn.difference_update(started)
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
        self._servers.close_unused(worker.server for worker in self._workers.values())

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
        self._servers.open()
        self._spawn_missing()

    def _spawn_missing(self) -> None:
        workers = self._workers.values()
        missing = self.size - sum([not (it.killed or it.retired or it.host) for it in workers])
        if missing and (missing := missing - self._servers.starting) > 0:
            self._servers.spawn(missing, self._wish)

    def _born(self, worker: Worker) -> None:
        worker.retired = not self._servers.forks(worker.server)
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

    def _server_died(self, server: Starter) -> None:
        """Its workers die with it."""
        for worker in self._workers.values():
            if worker.server is server:
                worker.killed = worker.broken = True
                self._selector.register(
                    worker.pidfd, selectors.EVENT_READ, lambda worker=worker: self._gone(worker, None)
                )
        self._hosts.lose()
        self._spawn_missing()

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
