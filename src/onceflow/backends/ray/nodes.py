"""The agents of a cluster's nodes, as the engine sees them: one station for each node.

A *station* receives messages in batches, one call for all that has come together, and always has one call under way
that brings what it has to say. `Stations` looks now and then, in a thread of its own, which nodes there are, and lets
the agents know that the engine lives.

**Proof.** An agent that is ordered to run until a moment of its own clock, and hears nothing more, is killed then by
the kernel of its node, and all its workers with it. That moment is reckoned from what its clock showed in its last
answer: whenever that was, it was before the answer came here. So from `Station.over` on, by the clock here, nothing
runs there any more, whatever has become of the node. Clocks may differ in speed, and killing takes a while: for that
there is a reserve.

**Halt.** The message that lets an agent run on also says whether it may start anything. So one that has missed that it
may not is not renewed, either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from onceflow.backends.ray import messages
from onceflow.backends.ray.agent import GROUPS as AGENT_GROUPS
from onceflow.backends.ray.agent import Agent, AgentSettings
from onceflow.backends.ray.messages import FromAgent, Start, ToAgent
from onceflow.backends.ray.store import GROUPS, Keeper, Store, remote

if TYPE_CHECKING:
    from onceflow.backends.local.messages import Job
    from onceflow.backends.local.reports import Printed
    from onceflow.backends.ray.inbox import Inbox
    from onceflow.values.functions import Shipped

log = logging.getLogger(__name__)

BEATS = 5
"""In the time for which an agent may hear nothing."""

RESERVE = 0.2
"""Of that time: clocks may differ by some parts in a hundred, and workers take milliseconds to kill."""

CLOSING = 15.0
"""Seconds that an agent has to end everything when the engine is closed. Then Ray ends it."""

PATIENCE = 2.0
"""Seconds in which a worker that was asked of Ray is there, as a rule. Beyond that there seems to be no room for it."""

THREADS = 8
"""Of an agent, for the calls of the engine."""


class Station:
    """Belongs to the engine's loop, but for what says otherwise."""

    def __init__(self, node: str, cpus: int, agent: Any) -> None:
        self.node = node
        self.cpus = cpus
        """Workers that it may have."""
        self.agent = agent
        self.door = ""
        """Where workers on its node join it; empty until it has answered."""
        self.jobs: dict[int, tuple[Job, float]] = {}
        """Token → job that it has, and the seconds that is expected to take."""
        self.alone: set[int] = set()
        """Tokens of those that have workers of their own (`single_workers`)."""
        self.workers = 0
        """That it has now, without those."""
        self.awaited = 0
        """That it has asked Ray for, and has not got yet."""
        self._awaits = 0.0
        """Since when it has been waiting for the next one."""
        self.recalled = False
        """Whether it was asked to return jobs, and has not answered."""
        self.has_none = False
        """Whether workers have all its jobs: it was asked to return some, and unless it does so, is given others, or
        gets or loses a worker, there are none to return."""
        self.size = 0
        """That it was ordered to have."""
        self.used = time.monotonic()
        """When it last had a job."""
        self.lease = threading.Lock()
        """Held while one of the next three is read or written."""
        self.clock: float | None = None
        """The time of its clock in its last answer."""
        self.heard = 0.0
        """When that answer came, by the clock here."""
        self.over = 0.0
        """From then on nothing runs there, if it hears nothing more."""
        self.knows: set[str] = set()
        self.path: list[str] | None = None
        self._outbox: list[ToAgent] = []
        self._calls = 0

    def say(self, message: ToAgent) -> None:
        self._outbox.append(message)

    def give(self, jobs: list[Job], shipped: dict[str, Shipped], path: list[str]) -> None:
        self.learn(jobs, shipped)
        changed = None if path == self.path else path
        self.path = path
        self.say(Start([], jobs, changed))

    def learn(self, jobs: list[Job], shipped: dict[str, Shipped]) -> None:
        """Sends it the functions of these jobs that it does not know."""
        wanted = {hash for job in jobs for hash in (job.function, job.guard) if hash} - self.knows
        if wanted:
            self.knows |= wanted
            self.say(Start([shipped[hash] for hash in wanted], []))

    def flush(self) -> Any:
        """Sends what there is to say. Returns the call, if there was something."""
        if not self._outbox:
            return None
        self._calls += 1
        said, self._outbox = self._outbox, []
        return self.agent.tell.remote(self._calls, messages.encode(said))

    def count(self, workers: int, awaited: int) -> None:
        """It has so many now, and has asked for so many more."""
        if not self.awaited or workers > self.workers:
            self._awaits = time.monotonic()
        self.workers, self.awaited = workers, awaited
        self.has_none = False

    @property
    def shared(self) -> int:
        """How many jobs it has for the workers that take any."""
        return len(self.jobs) - len(self.alone)

    @property
    def room(self) -> int:
        """How many more jobs it may be given, however long they take, if Ray gives it what it counts on."""
        return max(0, self.cpus - len(self.jobs))

    @property
    def ready(self) -> int:
        """How many workers have nothing to do."""
        return max(0, self.workers - self.shared)

    def is_held_up(self, now: float) -> bool:
        """Whether there do not seem to be any workers but those that it has: other programs have the cpus."""
        return (self.awaited > 0 and now - self._awaits >= PATIENCE) or self._is_taken

    @property
    def _is_taken(self) -> bool:
        """Whether jobs that are alone have all of them."""
        if self.workers or not self.alone:
            return False
        alone = [self.jobs[token][0] for token in self.alone]
        return self.cpus - sum([1 if job.cpus is None else job.cpus for job in alone]) < 1

    @property
    def seconds(self) -> float:
        return sum([expected for _, expected in self.jobs.values()])


class Stations:
    """`connect` says whether nodes may join the cluster. `looked` is called with the nodes and what each of them has,
    `heard`, `joined` and `lost` with what happens to stations, all in the loop's thread; `failed` that there is no
    cluster. `until` says when this engine has to have stopped everything, by the clock of `time.monotonic`, if others
    rely on that."""

    def __init__(
        self,
        connect: Callable[[], bool],
        inbox: Inbox,
        settings: AgentSettings,
        *,
        looked: Callable[[dict[str, dict[str, float]], bool], None],
        joined: Callable[[Station], None],
        heard: Callable[[Station, list[FromAgent]], None],
        lost: Callable[[Station], None],
        printed: Callable[[list[Printed]], None] | None,
        failed: Callable[[BaseException], None],
        beaten: Callable[[float], None],
        until: Callable[[], float | None],
    ) -> None:
        self._connect = connect
        self._inbox = inbox
        self._settings = settings
        self._looked = looked
        self._joined = joined
        self._heard = heard
        self._lost = lost
        self._printed = printed
        self._failed = failed
        self._beaten = beaten
        self._until = until
        self._all: dict[str, Station] = {}
        """Node → its station, dead ones excluded. Of the thread that looks after them."""
        self._alive: dict[str, dict[str, float]] = {}
        """Node → what it has. Likewise."""
        self.grows = True
        """Whether nodes may join."""
        self._closing = threading.Event()
        self._halted = False
        """Whether nodes start nothing more."""
        self.store: Store | None = None
        self._keeper: Any = None
        self._hearing: Any = None
        """A call that brings what actors print."""
        self._heard_of_actors: deque[bytes] = deque()
        self._thread = threading.Thread(target=self._look_after, name="onceflow ray", daemon=True)
        self._thread.start()

    @property
    def keeper(self) -> Any:
        return self._keeper

    def any_agent(self) -> Any:
        """From any thread."""
        return next(iter(self._all.values())).agent

    def halt(self) -> None:
        """Nodes start nothing more, not even what they have been given. They are notified at once, and again with every
        renewal. From any thread."""
        self._halted = True
        for station in self._there():
            try:
                self._renew([station])
            except Exception:  # others have to be notified, and the caller ends the engine
                log.exception("node %s cannot be told to start nothing more", station.node)

    def close(self) -> None:
        """Returns when nothing runs any more, or Ray has been asked to end it."""
        self._closing.set()
        self._thread.join()
        if not ray.is_initialized():  # everything has ended with the connection
            return
        stations = list(self._all.values())
        calls = [station.agent.close.remote() for station in stations]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=CLOSING)
        for station in stations:
            ray.kill(station.agent)
        if self._keeper is not None:
            self._hear_the_rest()
            ray.kill(self._keeper)

    def _hear_actors(self) -> None:
        """In the loop's thread, as what follows."""
        if self._printed is None or self._closing.is_set():
            return
        self._hearing = self._keeper.hear.remote().future()
        self._hearing.add_done_callback(self._note_actors)

    def _note_actors(self, future: Any) -> None:
        """In a thread of Ray's."""
        if future.exception() is None:  # else there is no keeper any more, and no actor
            self._heard_of_actors += future.result()
            self._inbox.post(self._show_actors)
            self._inbox.post(self._hear_actors)

    def _show_actors(self) -> None:
        assert self._printed is not None
        while self._heard_of_actors:
            self._printed(messages.printed(self._heard_of_actors.popleft()))

    def _hear_the_rest(self) -> None:
        if self._hearing is None:
            return
        self._keeper.hush.remote()
        wait([self._hearing], CLOSING)
        self._show_actors()

    # -- in a thread of its own ----------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        try:
            self.grows = self._connect()
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            keeper = remote(Keeper, GROUPS).options(
                num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here
            )
            self._keeper = keeper.remote(self._settings.log_level if self._settings.capture else None, self.grows)
            self._inbox.post(self._hear_actors)
            self.store = Store(self._keeper)
            while not self._closing.is_set():
                self._look()
                self._renew(self._there())
                self._closing.wait(self._settings.silence / BEATS)
        except BaseException as error:
            failure = error
            self._inbox.post(lambda: self._failed(failure))

    def _look(self) -> None:
        nodes: Any = ray.nodes
        alive = {node["NodeID"]: node["Resources"] for node in nodes() if node["Alive"]}
        if alive != self._alive:
            self._alive = alive
            self._inbox.post(lambda: self._looked(alive, self.grows))
        for node, resources in alive.items():
            cpus = int(resources.get("CPU", 0))
            if node not in self._all and cpus:
                self._open(node, cpus)

    def _open(self, node: str, cpus: int) -> None:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        agent = remote(Agent, AGENT_GROUPS).options(num_cpus=0, max_concurrency=THREADS, scheduling_strategy=there)
        station = Station(node, cpus, agent.remote(self._keeper, msgspec.msgpack.encode(self._settings)))
        self._all[node] = station
        self._when_done(station.agent.about.remote(), station, lambda about: self._came(station, *about))

    def _came(self, station: Station, door: str, pid: int, clock: float) -> None:
        """In the loop's thread, as all that follows."""
        self._note(station, clock)
        station.door = door
        self._renew([station])
        self._listen(station)
        self._joined(station)

    def _there(self) -> list[Station]:
        """Those whose agents have answered."""
        return [station for station in list(self._all.values()) if station.door]

    def _renew(self, stations: list[Station]) -> None:
        """From any thread. What is written down for an engine that takes over is never less than what nodes have been
        promised."""
        self._beaten(self._settings.silence * (1 + RESERVE))
        for station in stations:
            self._send_beat(station)

    def _send_beat(self, station: Station) -> None:
        """The answer is noted at once: a loop that is busy is no reason to stop anything."""

        def done(future: Any) -> None:
            problem = future.exception()
            if problem is None:
                self._note(station, future.result())
            else:
                self._inbox.post(lambda: self._fail(station, problem))

        end = self._until()
        with station.lease:
            assert station.clock is not None
            seconds = self._settings.silence if end is None else min(self._settings.silence, end - station.heard)
            station.over = max(station.over, station.heard + seconds * (1 + RESERVE))
            until = station.clock + seconds
        station.agent.beat.remote(until, self._halted).future().add_done_callback(done)

    def _note(self, station: Station, clock: float) -> None:
        with station.lease:
            if station.clock is None or clock > station.clock:
                station.clock, station.heard = clock, time.monotonic()

    def _listen(self, station: Station) -> None:
        def said(body: bytes) -> None:
            self._listen(station)
            self._heard(station, messages.from_agent(body))

        self._when_done(station.agent.hear.remote(), station, said)

    def _when_done(self, call: Any, station: Station, then: Callable[[Any], None]) -> None:
        def done(future: Any) -> None:
            problem = future.exception()
            if problem is None:
                self._inbox.post(lambda: then(future.result()))
            else:
                self._inbox.post(lambda: self._fail(station, problem))

        call.future().add_done_callback(done)

    def _fail(self, station: Station, problem: BaseException) -> None:
        """Its agent is dead, or cannot be reached."""
        if self._all.get(station.node) is station and not self._closing.is_set():
            log.warning("the agent on node %s is lost: %s", station.node, type(problem).__name__)
            del self._all[station.node]
            self._lost(station)
