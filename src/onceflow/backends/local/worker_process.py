"""The worker process: its main thread runs the jobs of the lane, another thread serves the side.

What the two threads share is the deque of jobs that have not started (each is taken out by one of them), the list of
outcomes that have not been sent (taken whole), and the table of functions. Each of these operations is one step under
the interpreter lock.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from onceflow.backends.local.concurrent import Shared
from onceflow.backends.local.job_runner import Functions, feed, large, skipped, without_output
from onceflow.backends.local.messages import (
    CALLER,
    HALTED,
    HURRY,
    Batch,
    Cancel,
    Definition,
    Host,
    Interrupt,
    Job,
    Outcome,
    Outcomes,
    Publish,
    Published,
    Read,
    Recall,
    Receiver,
    Returned,
    Spawn,
    Told,
    ToWorker,
    Unused,
    Wanted,
    send,
)
from onceflow.backends.local.objects import Objects
from onceflow.backends.local.output_sender import Channel, Streams
from onceflow.backends.local.progress import Reporter
from onceflow.backends.local.refs import actors
from onceflow.backends.local.reports import Stream
from onceflow.backends.local.stop_injection import MainThread
from onceflow.backends.local.variables import CHANGES, Variables
from onceflow.errors import InvalidRef
from onceflow.values import context, sealed_bytes, secret_masks
from onceflow.values.actors import options_of
from onceflow.values.functions import Main
from onceflow.values.packed_outputs import Packed
from onceflow.values.refs import Ref

FLUSH = 0.001
"""Seconds after which outcomes are sent although more jobs wait. Without more jobs they are sent at once."""

FLUSH_BYTES = 32 * 1024

LEAVING = 0.5
"""Seconds that a process may take to leave."""

LOOK = 2.5
"""Seconds between two looks at memory that is kept for large outputs to come."""


def run(
    lane: socket.socket,
    side: socket.socket,
    channel: socket.socket,
    page: int,
    pipes: dict[int, Stream],
    wish: Spawn,
    objects: Objects | None = None,
    leave: Callable[[], NoReturn] | None = None,
) -> None:
    """Everything a worker does. Does not return. `pipes` are the reading ends of what are its descriptors 1 and 2, if
    they are captured, and the streams they belong to. Large values are in shared memory, unless `objects` says
    otherwise. `leave` ends a process that has nothing to do, if there is more to it than that."""
    worker = _Worker(lane, side, channel, page, pipes, wish, objects or Objects(), leave or _leave)
    if not wish.capture:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a program without a terminal may have closed them
                stream.reconfigure(line_buffering=True)  # a killed worker loses what is buffered
    context.connect(worker)
    if "ONCEFLOW_HOME" in os.environ:  # the engine says where it keeps its runs
        sealed_bytes.work_for(os.environ["ONCEFLOW_HOME"])
    sys.modules["__main__"] = worker.main
    threading.Thread(target=worker.serve_side, name="onceflow-side", daemon=True).start()
    worker.serve_lane()


class _Worker:
    hosts_fibers = True

    def __init__(
        self,
        lane: socket.socket,
        side: socket.socket,
        channel: socket.socket,
        page: int,
        pipes: dict[int, Stream],
        wish: Spawn,
        objects: Objects,
        leave: Callable[[], NoReturn],
    ) -> None:
        self._leave = leave
        self._lane: Receiver[Batch] = Receiver(lane, Batch)
        self._rest_of_lane: Receiver[Batch] = Receiver(lane, Batch)
        """The side's own receiver, to give back what the main thread has not received yet."""
        self._side: Receiver[ToWorker] = Receiver(side, ToWorker)
        self._mark = memoryview(mmap.mmap(page, 0)).cast("Q")
        os.close(page)
        self._channel = Channel(channel, self._mark[1:], pipes)
        self._streams = Streams(self._channel, wish.log_level) if wish.capture else None
        if wish.capture or wish.progress:
            secret_masks.listeners.append(self._channel.hide)
        self._progress = Reporter(self._channel.send) if wish.progress else None
        self._waiting: deque[tuple[int, Job]] = deque()
        """Jobs that have not started, each with its place in the lane."""
        self._outcomes: deque[Outcome] = deque()
        self._answers: dict[str, threading.Event] = {}
        self._definitions: dict[str, bytes | None] = {}
        self._variables = Variables(self._send)
        self.main = Main(self._ask)
        self._functions = Functions(self.main)
        self._objects = objects
        self._main_thread = MainThread(self._functions, self._objects)
        self._shared = Shared(self._functions, self._objects, self._end_job, self._send_outcomes)
        self._is_copy = False
        """Whether this is a child that user code forked. It must not go on as if it were the worker."""
        os.register_at_fork(after_in_child=self._become_copy)

    def serve_lane(self) -> None:
        channel, talks = self._channel, self._streams is not None or self._progress is not None
        waiting, functions, mark, run = self._waiting, self._functions, self._mark, self._main_thread.run
        objects = self._objects
        outcome: Outcome | None = None
        while True:
            received = self._lane.receive()
            if received is None:
                self._leave()
            batch, descriptors = received
            functions.add(batch)
            objects.learn(batch, descriptors)
            waiting.extend(enumerate(batch.jobs, batch.first))
            sent = time.monotonic()
            size = 0
            while waiting:
                try:
                    place, job = waiting.popleft()
                except IndexError:  # the side was quicker
                    break
                if mark[HALTED] or (job.follows and not feed(job, outcome)):
                    outcome = skipped(job)
                    self._outcomes.append(outcome)
                    continue
                mark[2] = time.time_ns()
                mark[0] = place
                channel.lane = job.token
                if job.is_async:
                    self._shared.run_alone(job, self._main_thread.has_told)
                    channel.lane = 0
                    continue
                outcome = run(job)
                if self._is_copy:
                    os._exit(0)
                if objects.live.offered:
                    outcome = objects.settle(job, outcome)
                if talks:
                    self._end_job(job.token)
                channel.lane = 0
                if outcome.cancelled:
                    _flush_streams()  # the worker is about to be killed
                self._outcomes.append(outcome)
                size += sum([len(part) for part in outcome.parts if isinstance(part, bytes)])
                if size > FLUSH_BYTES or time.monotonic() - sent > FLUSH:
                    self._flush(self._lane.connection)
                    sent = time.monotonic()
                    size = 0
            self._flush(self._lane.connection)

    def _become_copy(self) -> None:
        self._is_copy = True
        self._channel.become_copy()

    def _end_job(self, token: int) -> None:
        """Sends what there is left to say before the outcome of a job. From any thread."""
        if self._streams is not None:
            self._streams.end(token)
        if self._progress is not None:
            self._progress.end(token)

    def progress(self, token: int, done: float, total: float | None, note: str) -> None:
        """As `Link` has it."""
        is_alone = context.ALONE in (context.running.get() or ())
        if self._progress is not None and not self._is_copy and not is_alone:
            self._progress.tell(token, done, total, note)

    def is_hurried(self) -> bool:
        """As `Link` has it."""
        mark = self._mark
        return mark[HURRY] == mark[0]

    def now(self) -> float:
        """As `Link` has it."""
        return time.time()

    def put(self, packed: Packed) -> Ref[Any]:
        """As `Link` has it."""
        return self._objects.put(packed)

    def variable(self, token: int, name: str) -> bytes | None:
        """As `Link` has it."""
        if context.ALONE in (context.running.get() or ()):  # it has none, or it would be elsewhere
            return None
        return self._variables.read(token, name, self._mark[CHANGES])

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """As `Link` has it."""
        token = context.job_token.get()
        running = context.running.get() or {}
        if context.ALONE in running:  # its job would be unknown
            context.note_lost(token)
            raise InvalidRef("an actor cannot be made by what may have to run again elsewhere")
        if token not in actors:
            job = Job(token, "", str(running.get("task", "")), b"", context=dict(running))
            actors[token] = self._objects.open_actors(job)
        return actors[token].create(kind, args, kwargs)

    def ask_for_host(self, name: str, token: int, kind: type, listener: socket.socket | None) -> None:
        """As `AsksForHosts` has it."""
        cpus, memory, idle = options_of(kind)
        try:
            send(
                self._side.connection,
                Host(name, token, kind.__qualname__, cpus, memory, idle),
                () if listener is None else (listener.fileno(),),
            )
        except (BrokenPipeError, ConnectionResetError):
            _leave()

    def speak_for(self, token: int) -> None:
        """As `actors.process.Speaks` has it."""
        if self._streams is not None:
            self._streams.end(self._channel.lane)
            self._channel.lane = self._mark[CALLER] = token

    def is_told(self, token: int) -> bool:
        """As `Link` has it."""
        return self._main_thread.has_told(token) or self._shared.has_told(token)

    def serve_side(self) -> None:
        try:
            self._serve_side()
        except BaseException:
            traceback.print_exc()
            os._exit(70)  # without this thread the worker would be deaf

    def _serve_side(self) -> None:
        arrival = select.poll()
        arrival.register(self._side.connection, select.POLLIN)
        while True:
            if self._objects.has_spare and not arrival.poll(LOOK * 1000):
                self._send_outcomes([])  # memory that is not used any more is given back on this occasion
                continue
            received = self._side.receive()
            if received is None:
                if not self._channel.lane:
                    time.sleep(LEAVING)  # the main thread learns it, too
                _leave()
            message, descriptors = received
            match message:
                case Batch():
                    self._functions.add(message)
                    self._objects.learn(message, descriptors)
                    if self._mark[HALTED]:
                        self._send_outcomes([skipped(job) for job in message.jobs])
                        continue
                    for job in message.jobs:
                        self._shared.start(job)
                case Recall(number):
                    self._give_back(number)
                case Cancel(token):
                    self._shared.cancel(token)
                case Interrupt(token):
                    self._main_thread.stop(token)
                    self._shared.cancel(token)  # if it is there: an async job that runs in the lane
                case Unused():
                    self._objects.learn(message, descriptors)
                case Publish(number):
                    self._objects.live.publish(number, self._tell_of)
                case Told():
                    self._variables.answer(message)
                case Definition(name, payload):
                    self._definitions[name] = payload
                    answered = self._answers.pop(name, None)
                    if answered is not None:  # else it was asked for twice
                        answered.set()

    def _give_back(self, number: int) -> None:
        """First takes what has not started, then sends what has ended: so if a job that the pool asks for is not among
        those given back, the outcomes of all jobs before it have been sent, and no job after it will start."""
        returned: list[int] = []
        while self._waiting:
            try:
                returned.append(self._waiting.pop()[1].token)
            except IndexError:  # the main thread was quicker
                break
        returned.reverse()  # they will be given to other workers in this order
        while True:
            try:
                received = self._rest_of_lane.receive(int(socket.MSG_DONTWAIT))
            except BlockingIOError:
                break
            if received is None:
                _leave()
            batch, descriptors = received
            self._functions.add(batch)
            self._objects.learn(batch, descriptors)
            returned += [job.token for job in batch.jobs]
        self._flush(self._side.connection)
        self._send(Returned(number, returned))

    def _flush(self, connection: socket.socket) -> None:
        taken = []
        while self._outcomes:
            try:
                taken.append(self._outcomes.popleft())
            except IndexError:  # the other thread was quicker
                break
        if taken:
            self._send_outcomes(taken, connection)

    def _send_outcomes(self, outcomes: list[Outcome], connection: socket.socket | None = None) -> None:
        way = connection or self._side.connection
        message = Outcomes(outcomes)
        try:
            try:
                self._objects.send(way, message)
            except (BrokenPipeError, ConnectionResetError):
                raise
            except (OSError, MemoryError) as error:  # there is no room for a large graph
                message.outcomes = [without_output(outcome, error) for outcome in outcomes]
                self._objects.send(way, message)
        except (BrokenPipeError, ConnectionResetError):
            _leave()
        if large:
            for outcome in outcomes:
                large.pop(outcome.token, None)

    def _tell_of(self, published: Published) -> None:
        try:
            self._objects.send(self._side.connection, Outcomes([], published=[published]))
        except (BrokenPipeError, ConnectionResetError):
            _leave()

    def _send(self, message: Read | Returned | Wanted) -> None:
        try:
            send(self._side.connection, message)
        except (BrokenPipeError, ConnectionResetError):
            _leave()

    def _ask(self, name: str) -> bytes | None:
        """What the caller's `__main__` has under this name. Called by whichever thread loads something."""
        answered = self._answers.setdefault(name, threading.Event())
        self._send(
            Wanted(name)
        )  # even if another job has registered before: that one may have been stopped before it asked
        answered.wait()
        return self._definitions[name]


def _leave() -> NoReturn:
    """The engine is gone, or has closed this worker. Nothing that still runs here is waited for."""
    _flush_streams()
    os._exit(0)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # it is no longer read, or user code closed it
                stream.flush()
