"""The agent of a node: a Ray actor that is the pool of its node.

One thread runs the loop of a local pool, whose workers are Ray actors. Ray calls the methods here in threads of its
own: what they bring is posted to the loop, and what the loop has to say waits until it is fetched. Calls may
overtake each other, so each has a number.

Nothing here runs user code. So this process has the timer of the kernel that kills it when the engine has renewed
nothing for too long (`worker_deadline.Deadline`), also if it is stopped or gets no processor time; its workers die with
it (`worker_startup`), and the `reaper` kills what those had started. Until the first renewal nothing starts.

Renewals and halts take effect in the thread that Ray calls them in, whatever the loop does.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from onceflow.backends.local.messages import RefOut, Spawn
from onceflow.backends.local.pool import Pool
from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Printed, Raised, Report
from onceflow.backends.local.worker_deadline import Deadline
from onceflow.backends.ray import messages, reaper
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
    Return,
    Returned,
    Said,
    Size,
    Start,
    Stop,
    ToAgent,
    Told,
    Wanted,
    Withdraw,
)
from onceflow.backends.ray.store import Store
from onceflow.backends.ray.worker import RayWorker
from onceflow.backends.ray.worker_startup import RayStarter
from onceflow.data.objects import HeldRef, Object
from onceflow.data.places import Live

LOOK = 0.02
"""Seconds between two looks at which jobs have begun, while there are any."""

SOON = 0.05
"""Seconds for which a job runs before that is reported: most are over by then."""


GROUPS = {"beat": 1}
"""Of an agent's methods, beside all others: renewals and halts do not wait for a thread that others have."""


class AgentSettings(msgspec.Struct):
    capture: bool
    log_level: int
    environment: dict[str, str]
    preload: list[str]
    silence: float
    """Seconds after which everything stops if nothing is heard from the engine."""


class Agent:
    """A Ray actor, whose methods are called by several threads."""

    def __init__(self, keeper: Any, settings: bytes) -> None:
        self._keeper = keeper
        self._settings = msgspec.msgpack.decode(settings, type=AgentSettings)
        self._node = ray.get_runtime_context().get_node_id()
        self._worker_class = ray.remote(RayWorker)
        self._handles: dict[str, Any] = {}
        """Mark of a worker → its Ray actor, which ends when nothing refers to it."""
        self._selector = selectors.DefaultSelector()
        self._inbox = Inbox(self._selector)
        self._said = threading.Condition()
        self._outbox: list[FromAgent] = []
        self._early: dict[int, list[ToAgent]] = {}
        """What came before its turn."""
        self._next = 1
        self._questions: dict[int, Callable[[bytes | None], None]] = {}
        self._asked = 0
        self._store = Store(keeper)
        self._made_by: dict[int, list[int]] = {}
        """Process id of a worker → the numbers of values that Ray lets go with it."""
        self._relieving: set[int] = set()
        """Workers whose values are being copied."""
        self._told: set[int] = set()
        """Jobs of which is known that they have begun."""
        self._crowd = (-1, 0)
        """Workers, and those that were asked for, as was last reported."""
        self._deadline = Deadline()
        self._until = 0.0
        """What the deadline is set to; 0 before the first renewal."""
        self._renewing = threading.Lock()
        """Held while the deadline is moved."""
        self._over = False
        self._ended = threading.Event()
        self._starter: RayStarter | None = None
        self._pool = Pool(
            Path(),
            0,
            selector=self._selector,
            report=self._report,
            printed=self._printed,
            progressed=lambda told: self._say(Moved(told)),
            died=lambda pid, status: self._say(Death(pid, status)),
            missing=lambda numbers: self._say(Gone(numbers)),
            variable=self._ask_variable,
            define=self._ask_definition,
            capture=self._settings.capture,
            log_level=self._settings.log_level,
            asked_for_host=lambda wish, _: self._say(
                Made(wish.token, wish.name, wish.kind, wish.cpus, wish.memory, wish.idle)
            ),
            open_server=self._open_starter,
            relieve=self._relieve,
        )
        threading.Thread(target=self._run, name="onceflow agent", daemon=True).start()

    # -- what the engine calls, in threads of Ray's --------------------------------------------------------------------

    def about(self) -> tuple[str, int, float]:
        """Its door, its process id, and what its clock shows."""
        assert self._starter is not None
        return self._starter.door, os.getpid(), _clock()

    @ray.method(concurrency_group="beat")
    def beat(self, until: float, halted: bool) -> float:
        """The engine lives: workers may run until this moment. If `halted`, nothing starts any more, not even what
        workers have been given. Returns what the clock here shows."""
        if halted:
            self._pool.halt()
        with self._renewing:
            if until > self._until:  # else another one has overtaken this
                self._until = until
                self._deadline.set(until)
        self._inbox.post(self._work_off)
        return _clock()

    def tell(self, number: int, body: bytes) -> None:
        self._inbox.post(lambda: self._hear(number, messages.to_agent(body)))

    def hear(self) -> bytes:
        """What there is to say, as soon as there is something."""
        with self._said:
            while not self._outbox:
                self._said.wait()
            said, self._outbox = self._outbox, []
        return messages.encode(said)

    def define(self, name: str) -> bytes | None:
        """What the program's `__main__` has under this name."""
        answered = threading.Event()
        found: list[bytes | None] = []

        def tell(payload: bytes | None) -> None:
            found.append(payload)
            answered.set()

        self._inbox.post(lambda: self._ask_definition(name, tell))
        answered.wait()
        return found[0]

    def close(self) -> None:
        """Returns when nothing runs here any more."""
        self._inbox.post(self._stop)
        self._ended.wait()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over:
                timeout = self._turn()
                for key, _ in self._selector.select(timeout):
                    key.data()
        except BaseException:
            traceback.print_exc()
            os._exit(70)  # its workers notice
        self._pool.close()
        self._handles.clear()
        self._ended.set()

    def _turn(self) -> float | None:
        timeout = self._pool.turn()
        began = []
        now = time.time()
        running = self._pool.running()
        for token in running:
            started = self._pool.started(token)
            if token not in self._told and started is not None and now - started >= SOON:
                self._told.add(token)
                began.append((token, started))
        if began:
            self._say(Began(began))
        statistics = self._pool.statistics()
        if statistics.workers > self._pool.size:  # some came late
            self._pool.resize(self._pool.size)
        crowd = statistics.workers, statistics.starting
        if crowd != self._crowd:
            self._crowd = crowd
            self._say(Crowd(*crowd))
        if any(token not in self._told for token in running):
            timeout = LOOK if timeout is None else min(timeout, LOOK)
        return timeout

    def _stop(self) -> None:
        self._over = True

    def _hear(self, number: int, heard: list[ToAgent]) -> None:
        self._early[number] = heard
        self._work_off()

    def _work_off(self) -> None:
        while self._until and self._next in self._early:
            for message in self._early.pop(self._next):
                self._carry_out(message)
            self._next += 1

    def _carry_out(self, message: ToAgent) -> None:
        match message:
            case Start(functions, jobs, path):
                self._pool.know(functions, path)
                for job in jobs:
                    self._pool.start(job)
            case Follow(token, jobs):
                if not self._pool.follow(token, jobs):
                    for job in jobs:
                        self._report(Ended(job.token, started=False))
            case Alone(name, job):
                self._pool.host(name, job, -1)
            case Stop(token, now):
                self._pool.stop(token, now=now)
            case Withdraw(token):
                self._pool.withdraw(token)
            case Changed():
                self._pool.count_change()
            case Told(number, value):
                self._questions.pop(number)(value)
            case Renew():
                self._pool.renew()
            case Size(workers):
                self._pool.resize(workers)
            case Return(most):
                self._say(Returned(self._pool.surrender(most)))

    def _dismiss(self, mark: str) -> None:
        worker = self._handles.pop(mark, None)
        if worker is not None:  # else the engine has asked for it
            ray.kill(worker)

    def _relieve(self, worker: int) -> bool:
        """Whether nothing of value goes with a worker. If something does, it is copied first."""
        numbers = self._made_by.pop(worker, None)
        if numbers:
            self._relieving.add(worker)

            def relieve() -> None:
                self._store.take_over(numbers)
                self._inbox.post(lambda: self._relieving.discard(worker))

            threading.Thread(target=relieve, name="onceflow relief", daemon=True).start()
        return worker not in self._relieving

    def _stillborn(self, mark: str) -> None:
        """A worker has ended. Perhaps it has never come to the door."""
        self._handles.pop(mark, None)
        assert self._starter is not None
        self._starter.forget(mark)

    def _open_starter(self) -> RayStarter:
        wish = Spawn(self._settings.capture, self._settings.log_level, True)
        self._starter = RayStarter(self._ask_for_worker, self._dismiss, wish)
        self._reaper = reaper.start(self._starter.door)
        return self._starter

    def _ask_for_worker(self, door: str, mark: str) -> None:
        here = NodeAffinitySchedulingStrategy(self._node, soft=False)
        worker: Any = self._worker_class.options(num_cpus=1, scheduling_strategy=here).remote()
        settings = self._settings
        me = ray.get_runtime_context().current_actor
        serving = worker.serve.remote(door, "", mark, self._keeper, me, settings.environment, settings.preload)
        serving.future().add_done_callback(lambda _: self._inbox.post(lambda: self._stillborn(mark)))
        self._handles[mark] = worker

    # -- what the pool says --------------------------------------------------------------------------------------------

    def _say(self, message: FromAgent) -> None:
        with self._said:
            self._outbox.append(message)
            self._said.notify()

    def _report(self, report: Report) -> None:
        match report:
            case Finished():
                self._told.discard(report.token)
                said = _wire_finished(report)
                lives = [
                    part.number for part in (*said.parts, *[ref.content for ref in said.refs]) if isinstance(part, Live)
                ]
                if lives:
                    self._made_by.setdefault(report.worker, []).extend(lives)
                self._say(said)
            case Died(tokens):
                self._told.difference_update(tokens)
                self._say(Reported(died=report))
            case Raised():
                self._told.discard(report.token)
                self._say(Reported(raised=report))
            case MetLost():
                self._told.discard(report.token)
                self._say(Reported(lost=report))
            case Ended():
                self._told.discard(report.token)
                self._say(Reported(ended=report))

    def _printed(self, pieces: list[Printed]) -> None:
        self._say(Said(pieces))

    def _ask_variable(self, token: int, name: str, tell: Callable[[bytes | None], None]) -> None:
        self._say(Read(self._ask(tell), token, name))

    def _ask_definition(self, name: str, tell: Callable[[bytes | None], None]) -> None:
        self._say(Wanted(self._ask(tell), name))

    def _ask(self, tell: Callable[[bytes | None], None]) -> int:
        self._asked += 1
        self._questions[self._asked] = tell
        return self._asked


def _clock() -> float:
    """The one that goes on while the machine sleeps: a node that wakes after its lease ends everything at once."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _wire_finished(report: Finished) -> Done:
    return Done(
        report.token,
        [_wire(part) for part in report.parts],
        report.started,
        report.ended,
        report.worker,
        report.graph,
        report.annotations,
        [_wire_ref(ref) for ref in report.refs],
        list(report.writes),
    )


def _wire(part: bytes | Object) -> bytes | Live:
    if isinstance(part, bytes):
        return part
    assert part.live is not None
    return part.live


def _wire_ref(ref: HeldRef) -> RefOut:
    return RefOut(list(ref.holders), ref.origin, None if ref.content is None else _wire(ref.content), ref.actor)
