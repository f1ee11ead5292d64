"""The pool of an engine on Ray: which node gets which job. The rest is done on the nodes (`agent`).

Where a job is: held here until what it reads is in Ray's store → queued here → given to a station, or to a worker that
was asked of Ray for it alone → reported. What a worker has is not taken back: so a station gets no more than its
workers will have done soon, and what is long only if a worker is free.

A station counts on the cpus of its node, but Ray may have given them to others: to jobs that are alone, to actors, to
other programs. When those end is unknown; perhaps not before a job has run that waits at this station. So if it
does not get a worker in time, it counts as one that has only those it has, and returns what it has no worker for; also
if a worker elsewhere has nothing to do. What was returned is the first that goes to the next free worker.

A job that says what it needs (cpus, memory, resources) gets a Ray actor with just that, wherever Ray finds room for it.
The workers of the stations have one cpu each; there are as many as there is work for, and they are given back to Ray
when there has been none for a while, or when Ray has no room for a job that needs more.
"""

from __future__ import annotations

import logging
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onceflow.backends.local.fair_queue import Line
from onceflow.backends.local.forkserver_client import Server
from onceflow.backends.local.live_publishing import Then
from onceflow.backends.local.messages import Job
from onceflow.backends.local.pool import define_here
from onceflow.backends.local.reports import (
    Died,
    Ended,
    Finished,
    Printed,
    Progressed,
    Raised,
    Report,
    Statistics,
)
from onceflow.backends.local.reservations import Reservations
from onceflow.backends.local.send_ahead import LONG, Estimates
from onceflow.backends.local.sources import Sources
from onceflow.backends.local.worker_deadline import AWAY, Leash
from onceflow.backends.local.worker_messages import Ask
from onceflow.backends.ray import balance
from onceflow.backends.ray.agent import AgentSettings
from onceflow.backends.ray.cluster import connect
from onceflow.backends.ray.inbox import Inbox
from onceflow.backends.ray.messages import (
    Alone,
    Began,
    Changed,
    Crowd,
    Death,
    Done,
    Follow,
    FromAgent,
    Gone,
    Made,
    Moved,
    Read,
    Renew,
    Reported,
    Returned,
    Said,
    Stop,
    Told,
    Wanted,
    Withdraw,
)
from onceflow.backends.ray.nodes import Station, Stations
from onceflow.backends.ray.single_workers import CPUS, MEMORY, Singles
from onceflow.backends.ray.stored_objects import RayShelf, read_by, with_lives
from onceflow.backends.ray.transfer import Carriers
from onceflow.data.objects import HeldRef, Object
from onceflow.data.places import Live, Place
from onceflow.data.porter.startup import Start
from onceflow.errors import InputNotSent, OnceflowError, WorkersUnavailable
from onceflow.values import culprits, failures
from onceflow.values.functions import Shipped

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds between two looks at which stations are idle."""


class RayPool:
    """As `local.pool.Pool`, on the cluster that `address` names. `folder` is where the proofs of the workers' end are.
    Without `workers` there may be as many as there are cpus. `silence` is how many seconds nodes work on if they hear
    nothing from here; `until` says when this engine has to have stopped everything, if others rely on that."""

    def __init__(
        self,
        address: str,
        folder: Path,
        workers: int | None = None,
        *,
        selector: selectors.BaseSelector,
        report: Callable[[Report], None],
        preload: Sequence[str],
        environment: Mapping[str, str],
        printed: Callable[[list[Printed]], None] | None,
        progressed: Callable[[Progressed], None],
        died: Callable[[int, int | None], None],
        lost: Callable[[list[Object]], None],
        variable: Ask,
        log_level: int,
        store: int | None,
        silence: float,
        until: Callable[[], float | None],
    ) -> None:
        self._folder = folder
        self.environment = environment
        self._most = workers
        self._report = report
        self._printed = printed
        self._progressed = progressed
        self._died = died
        self._lost = lost
        self._variable = variable
        self.shelf = RayShelf()
        self.paused = False
        self._halted = False
        self._inbox = Inbox(selector)
        self._shipped: dict[str, Shipped] = {}
        self._sources = Sources()
        self._estimates = Estimates()
        self.reservations = Reservations(
            self._estimates, lambda: max(1, self._slots), lambda: max(1, self._slots) - len(self._holders)
        )
        self._queue = Line()
        """Jobs that no station has."""
        self._followers: dict[int, list[Job]] = {}
        """Token of a queued job → those that follow it."""
        self._held: dict[int, Job] = {}
        """Token → job that waits until what it reads is in Ray's store."""
        self._stations: dict[str, Station] = {}
        self._holders: dict[int, Station] = {}
        """Token → the station that has the job."""
        self._stopped: set[int] = set()
        """Tokens of jobs that their stations were asked to stop, or not to start: returned ones are not given again."""
        self._began: dict[int, float] = {}
        self.made_actor: Callable[[int, str, float], None] = lambda token, name, idle: None
        """Notified that a job is about to make an actor."""
        self._due: deque[Report] = deque()
        self._failure: OnceflowError | None = None
        self._server: Server | None = None
        """For the porter."""
        self._dispatched = self._returned = self._deaths = 0
        self._closed = False
        self.carriers = Carriers(self._inbox, self.shelf, lambda: self._cluster.store, lost)
        self._away = Leash(folder, AWAY)
        self._settings = AgentSettings(printed is not None, log_level, dict(environment), list(preload), silence)
        self._singles = Singles(
            self._inbox, self._settings, self._stations, lambda: self._cluster.keeper, self._give_alone, self._refuse
        )
        self._cluster: Stations = Stations(
            lambda: connect(address, workers, store),
            self._inbox,
            self._settings,
            looked=self._singles.looked,
            joined=self._joined,
            heard=self._heard,
            lost=self._lost_station,
            printed=printed,
            failed=self._failed,
            beaten=self._lengthen,
            until=until,
        )

    # -- what is asked -------------------------------------------------------------------------------------------------

    def ship(self, shipped: Shipped) -> None:
        is_new = shipped.hash not in self._shipped
        self._shipped[shipped.hash] = shipped
        if self._sources.have_changed(now=is_new):
            for station in self._stations.values():
                station.say(Renew())

    def start_porter(self, start: Start, connection: socket.socket) -> None:
        if self._server is None or self._server.is_gone:
            self._server = Server(self._folder, (), self.environment)
        self._server.start_porter(start, connection)

    def start(self, job: Job, live: Mapping[int, Object] | None = None) -> None:
        places = [part for part in read_by(job) if isinstance(part, Place)]
        if not places:
            self._enqueue(job)
            return
        found = {place: self.carriers.object_at(place) for place in places}
        missing = {object for object in found.values() if object.live is None}
        if not missing:
            self._enqueue(with_lives(job, found))
            return
        self._held[job.token] = job

        def lent(problem: BaseException | None) -> None:
            if self._held.pop(job.token, None) is None:
                return  # it was stopped
            if problem is None:
                self._enqueue(with_lives(job, found))
            else:
                self._refuse(job, InputNotSent(f"job {job.token}", culprits.told(problem)), permanent=False)

        self.carriers.lend(missing, lent)

    def publish(self, object: Object, then: Then) -> None:
        self.carriers.publish(object, then)

    def follow(self, token: int, jobs: list[Job]) -> bool:
        if self._queue.find(token) is None or token in self._followers:
            return False
        self._followers[token] = jobs
        return True

    def count_change(self) -> None:
        for station in self._stations.values():
            station.say(Changed())

    def is_short(self, function: str) -> bool:
        return self._estimates.expected(function) < LONG

    def has_started(self, token: int) -> bool:
        return token in self._began

    def started(self, token: int) -> float | None:
        return self._began.get(token)

    def lingering(self) -> set[Object]:
        return set()

    def running(self) -> list[int]:
        return list(self._began)

    def is_queued(self, token: int) -> bool:
        return self._queue.find(token) is not None or token in self._held

    def lacks_room(self, token: int) -> bool:
        return self._singles.lacks_room(token)

    def exceeds(self, token: int) -> bool:
        return self._singles.exceeds(token)

    def withdraw(self, token: int) -> None:
        """A node that has the job is asked to take it back: only there it is known whether it has started."""
        station = self._holders.get(token)
        if station is None:
            self.stop(token)
        else:
            self._stopped.add(token)
            station.say(Withdraw(token))

    def stop(self, token: int, *, now: bool = False) -> None:
        station = self._holders.get(token)
        if station is not None:
            self._stopped.add(token)
            station.say(Stop(token, now))
        elif self._singles.stop(token):
            self._due.append(Ended(token, started=False))
        elif self._queue.remove(token) or self._held.pop(token, None) is not None:
            self._due.append(Ended(token, started=False))
            self._due += [Ended(job.token, started=False) for job in self._followers.pop(token, ())]

    def statistics(self) -> Statistics:
        return Statistics(
            workers=sum(station.workers for station in self._stations.values()),
            starting=sum(max(0, station.size - station.workers) for station in self._stations.values()),
            queued=len(self._queue) + len(self._held) + self._singles.waiting,
            taken=len(self._holders),
            dispatched=self._dispatched,
            returned=self._returned,
            deaths=self._deaths,
        )

    def halt(self) -> None:
        """As on one host, as soon as a node has been notified. One that cannot be reached may start what it has, until
        its lease ends: the message that would renew it says the same."""
        self._halted = self._singles.halted = True
        self._cluster.halt()

    def turn(self) -> float | None:
        if self._failure is not None:
            raise self._failure
        while self._due:
            self._report(self._due.popleft())
        if self._queue and not self.paused and not self._halted:
            self._fill()
        stations = list(self._stations.values())
        if not self.paused:
            balance.recall(stations)
        balance.resize(
            stations,
            self._most,
            is_queued=bool(self._queue and not self.paused),
            wanted_elsewhere=self._singles.may_fit,
        )
        for station in self._stations.values():
            station.flush()
        self._collect()
        return 0 if self._due else LOOK if self._holders or self.shelf.size else balance.IDLE

    def close(self) -> None:
        self._closed = True
        self.carriers.close()
        self._cluster.close()
        self._inbox.close()
        self._away.close()
        if self._server is not None:
            self._server.close()
        self.shelf.close()

    @property
    def _slots(self) -> int:
        """How many jobs can run at a time, as far as is known."""
        return int(sum([station.cpus for station in self._stations.values()]))

    # -- dispatch ------------------------------------------------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        if job.needy or job.resources or job.placement:
            self._singles.add(job)
        else:
            self._queue.add(job)

    def _fill(self) -> None:
        stations = list(self._stations.values())
        if not stations:
            return
        now = time.monotonic()
        loads = {station.node: [len(station.jobs), station.seconds] for station in stations}
        given: dict[str, list[Job]] = {}
        for job in self._queue:
            expected = self._estimates.expected(job.function)
            able = [station for station in stations if balance.admits(station, loads[station.node], expected, now)]
            if not able:
                if expected >= LONG:
                    continue
                break
            station = min(able, key=lambda station: self._rank(job, station, int(loads[station.node][0]), now))
            given.setdefault(station.node, []).append(job)
            load = loads[station.node]
            load[0] += 1
            load[1] += 0.0 if job.shares else expected
        for node, jobs in given.items():
            self._give(self._stations[node], jobs)

    def _rank(self, job: Job, station: Station, jobs: int, now: float) -> tuple[int, int, float]:
        """The lower, the better suits it a station that has so many jobs. What was returned has waited enough."""
        waits = job.token in self._queue.returned and jobs - len(station.alone) >= station.workers
        return waits and 1 + station.is_held_up(now), -self._bytes_at(job, station), jobs / station.cpus

    def _give(self, station: Station, jobs: list[Job]) -> None:
        followers = [(job, self._followers.pop(job.token)) for job in jobs if job.token in self._followers]
        station.give(jobs, self._shipped, sys.path)
        for job in jobs:
            self._queue.take(job)
            self._note_given(station, job)
        for job, behind in followers:
            station.learn(behind, self._shipped)
            station.say(Follow(job.token, behind))
            for follower in behind:
                self._note_given(station, follower)

    def _give_alone(self, station: Station, job: Job, alone: Alone) -> Any:
        """Announces the worker of a job. Returns the call."""
        station.give([], self._shipped, sys.path)
        station.learn([job], self._shipped)
        station.say(alone)
        station.alone.add(job.token)
        self._note_given(station, job)
        return station.flush()

    def _refuse(self, job: Job, problem: OnceflowError, *, permanent: bool = True) -> None:
        """It cannot run, or never will."""
        failure = failures.dump(problem, "the engine")
        self._due.append(Raised(job.token, failure, permanent, 0.0, 0.0, 0, here=True))

    def _note_given(self, station: Station, job: Job) -> None:
        station.jobs[job.token] = (job, 0.0 if job.shares else self._estimates.expected(job.function))
        station.used = time.monotonic()
        station.has_none = False
        self._holders[job.token] = station
        self.reservations.release(job.token)
        self._dispatched += 1

    def _bytes_at(self, job: Job, station: Station) -> int:
        """How much of what it reads was made there."""
        return sum(
            [
                part.size
                for part in read_by(job)
                if isinstance(part, Live) and self.shelf.homes.get(part.number) == station.node
            ]
        )

    def _collect(self) -> None:
        freed = self.shelf.collect_there()
        self.shelf.closed()
        if freed and self._cluster.store is not None:
            self._cluster.store.drop(freed)

    # -- actors --------------------------------------------------------------------------------------------------------

    def has(self, token: int) -> bool:
        """Whether a job has not been reported."""
        return token in self._holders

    def post(self, action: Callable[[], None]) -> None:
        """Have something done in the loop's thread. From any thread."""
        self._inbox.post(action)

    def any_agent(self) -> Any:
        """One that can ask this process what its `__main__` has. From any thread."""
        return self._cluster.any_agent()

    def end_actors(self, names: list[str]) -> None:
        if self._cluster.store is not None:
            self._cluster.store.end_actors(names)

    # -- what is heard -------------------------------------------------------------------------------------------------

    def _joined(self, station: Station) -> None:
        self._stations[station.node] = station
        self._singles.joined()

    def _failed(self, problem: BaseException) -> None:
        if isinstance(problem, OnceflowError):  # it says best what to do
            self._failure = problem
        else:
            self._failure = WorkersUnavailable(str(problem))
            self._failure.__cause__ = problem

    def _lengthen(self, seconds: float) -> None:
        """From any thread."""
        if not self._closed:
            self._away.lengthen(time.clock_gettime(time.CLOCK_BOOTTIME) + seconds)

    def _lost_station(self, station: Station) -> None:
        """The outcomes of its jobs are unknown until it is certain that they no longer run."""
        self._stations.pop(station.node, None)
        wait = max(0.0, station.over - time.monotonic())
        timer = threading.Timer(wait, lambda: self._inbox.post(lambda: self._ended_with(station)))
        timer.daemon = True
        timer.start()

    def _ended_with(self, station: Station) -> None:
        for token in list(station.jobs):
            self._take(token)
            self._report(Died((token,), 0, None))

    def _heard(self, station: Station, said: list[FromAgent]) -> None:
        for message in said:
            match message:
                case Done():
                    self._done(station, message)
                case Reported(raised, lost, died, ended):
                    if died is not None:
                        for token in died.tokens:
                            self._take(token)
                            self._report(Died((token,), died.worker, died.status, died.blame))
                    else:
                        report = raised or lost or ended
                        assert report is not None
                        self._take(report.token)
                        self._report(report)
                case Said(pieces):
                    if self._printed is not None:
                        self._printed(pieces)
                case Moved(progress):
                    self._progressed(progress)
                case Began(jobs):
                    self._began.update({token: started for token, started in jobs if token in self._holders})
                case Gone(numbers):
                    self.miss(numbers)
                case Read(number, token, name):
                    self._variable(token, name, lambda value, number=number: station.say(Told(number, value)))  # type: ignore[misc]
                case Wanted(number, name):
                    define_here(name, lambda value, number=number: station.say(Told(number, value)))  # type: ignore[misc]
                case Death(pid, status):
                    self._deaths += 1
                    self._died(pid, status)
                case Made(token, name, kind, cpus, memory, idle):
                    self.made_actor(token, name, idle)
                    if self._cluster.grows and (lacking := self._singles.lacking({CPUS: cpus, MEMORY: memory})):
                        log.warning("actor %s waits: no node of the cluster has %s", kind, lacking)
                case Crowd(workers, awaited):
                    station.count(workers, awaited)
                case Returned(tokens):
                    station.recalled = False
                    station.has_none = station.has_none and not tokens
                    self._take_back(tokens)

    def _take_back(self, tokens: list[int]) -> None:
        """A station does not have these any more, and has not started them."""
        for token in tokens:
            is_stopped = token in self._stopped
            job = self._take(token)
            if job is None:
                continue
            if is_stopped:
                self._report(Ended(token, started=False))
            else:
                self._queue.returned[token] = job
                self._returned += 1

    def miss(self, numbers: list[int]) -> None:
        """What Ray has lost. Of what was published there is still what is here."""
        found = [object for number in numbers if (object := self.shelf.known.get(number)) is not None]
        for object in found:
            if object.place is not None:
                object.live = None
        lost = [object for object in found if object.place is None and not object.lost]
        if lost:
            self._lost(lost)

    def _done(self, station: Station, done: Done) -> None:
        job = self._take(done.token)
        if job is not None and not job.shares:
            self._estimates.learn(job.function, done.ended - done.started)
        self._report(
            Finished(
                done.token,
                [self._shelve(part, station) for part in done.parts],
                done.started,
                done.ended,
                done.worker,
                done.graph,
                done.annotations,
                [
                    HeldRef(
                        ref.holders,
                        ref.origin,
                        None if ref.content is None else self._shelve(ref.content, station),  # type: ignore[arg-type]
                        ref.actor,
                    )
                    for ref in done.refs
                ],
                done.writes,
            )
        )

    def _shelve(self, part: bytes | Live, station: Station) -> bytes | Object:
        return part if isinstance(part, bytes) else self.shelf.add_there(part, station.node)

    def _take(self, token: int) -> Job | None:
        """A job that is about to be reported."""
        self._began.pop(token, None)
        self._singles.forget(token)
        self._stopped.discard(token)
        station = self._holders.pop(token, None)
        if station is None:
            return None
        station.used = time.monotonic()
        station.alone.discard(token)
        return station.jobs.pop(token)[0]
