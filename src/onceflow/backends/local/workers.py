"""The pool's side of one worker: its sockets, its jobs, and the functions that it has."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence

from onceflow.backends.local.forkserver_client import Starter
from onceflow.backends.local.messages import (
    CALLER,
    DESCRIPTORS,
    HALTED,
    HURRY,
    Batch,
    Cancel,
    Definition,
    FromWorker,
    Interrupt,
    Job,
    Publish,
    Recall,
    Receiver,
    Told,
    ToWorker,
    Unused,
    close,
    send,
)
from onceflow.backends.local.output_receiver import Capture
from onceflow.backends.local.reports import STANDARD
from onceflow.backends.local.send_ahead import Load
from onceflow.backends.local.variables import CHANGES
from onceflow.data.objects import Object, Shelf
from onceflow.data.places import Live, Place
from onceflow.values.functions import Shipped

MUCH = 1024 * 1024
"""Bytes of memory that a worker is notified of at once when it may be reused."""


class Given:
    """A job that a worker has."""

    __slots__ = ("expected", "given", "job", "place")

    def __init__(self, job: Job, place: int, expected: float, given: float = 0.0) -> None:
        self.job = job
        self.place = place
        """In the lane, counting from 1. 0 for jobs that share."""
        self.expected = expected
        self.given = given
        """When a job that shares was given, in seconds since the epoch."""


class Worker:
    """A worker as the pool sees it. Sending to one that has died does nothing: its death is about to be noticed."""

    def __init__(self, pid: int, server: Starter, descriptors: Sequence[int], host: str = "") -> None:
        lane, side, channel, self.pidfd, page, *pipes = descriptors
        self.pid = pid
        self.host = host
        """The actor that it is for, if it is for one: then it gets no other job."""
        self.server = server
        self.lane: Receiver[FromWorker] = Receiver(socket.socket(fileno=lane), FromWorker)
        self.side: Receiver[FromWorker] = Receiver(socket.socket(fileno=side), FromWorker)
        for connection in self.connections:
            connection.setblocking(False)
        self.capture = Capture(socket.socket(fileno=channel), dict(zip(pipes, STANDARD, strict=False)))
        self._page = mmap.mmap(page, 0)
        self._numbers = memoryview(self._page).cast("Q")
        os.close(page)
        self.queue: dict[int, Given] = {}
        """Token → job of the lane, in the order in which they were sent, until the worker reports the outcome."""
        self.shared: dict[int, Given] = {}
        """Token → job that shares the worker with others, likewise."""
        self.load = Load()
        self.stopping: dict[int, float] = {}
        """Jobs of the lane, or shared, that are to end, and when they are to be ended by force."""
        self.heard = 0.0
        """When it last reported an end in the lane, or the lane ceased to be empty."""
        self.recalls = 0
        """How often it was asked to give back what has not started."""
        self.recalled: float | None = None
        """When it was last asked; None once the lane was empty since."""
        self.answered = False
        """Whether it has answered that. From then on no further job of the lane starts."""
        self.owed: list[Cancel | Definition | Interrupt | Publish | Recall | Told | Unused] = []
        """Messages that wait until the worker reads its side."""
        self.killed = False
        self.broken = False
        """It died, or had to be killed because it could not be spoken to any more."""
        self.over = 0
        """The token of a job that was stopped: it has ended, and the worker is to be killed."""
        self.retired = False
        """It gets no more jobs and is closed when it has none."""
        self._places = 0
        self._path = server.path
        self._knows: dict[Receiver[FromWorker], set[str]] = {self.lane: set(), self.side: set()}
        self._segments: dict[Receiver[FromWorker], set[int]] = {self.lane: set(), self.side: set()}
        """Whose descriptors it was sent, each way."""
        self._freed: list[Place | Live] = []
        """Objects of its own that are no longer needed. It does not know yet."""
        self._forgotten: list[int] = []
        """Segments that it may forget. It does not know yet."""
        self.lingering: list[Object] = []
        """What it has mapped beyond the jobs that read it."""
        self._heard_number = 0

    @property
    def connections(self) -> tuple[socket.socket, socket.socket]:
        return self.lane.connection, self.side.connection

    @property
    def usable(self) -> bool:
        """Whether it may be given jobs that share it."""
        return not self.killed and not self.retired and not self.host

    @property
    def open(self) -> bool:
        """Whether it may be given jobs for its lane."""
        return self.recalled is None and not self.killed and not self.retired and not self.host

    @property
    def mark(self) -> int:
        """The place of the job that started last."""
        return self._numbers[0]

    @property
    def sent(self) -> int:
        """How many messages it has sent through its channel."""
        return self._numbers[1]

    @property
    def started(self) -> float:
        """When the job started whose place is the mark, in seconds since the epoch."""
        return self._numbers[2] / 1e9

    @property
    def running(self) -> list[int]:
        """The tokens of the jobs that it runs now."""
        mark = self.mark
        return [*[token for token, given in self.queue.items() if given.place == mark], *self.shared]

    @property
    def printing(self) -> int:
        """The token of the job that what is in the pipes now belongs to; 0 if unknown."""
        if caller := self._numbers[CALLER]:
            return caller
        mark = self.mark
        for token, given in self.queue.items():
            if given.place >= mark:
                return token if given.place == mark else 0
        return next(iter(self.shared)) if len(self.shared) == 1 and not self.queue else 0

    def give(
        self,
        given: list[tuple[Job, float]],
        shipped: dict[str, Shipped],
        path: list[str],
        shelf: Shelf,
        *,
        share: bool = False,
    ) -> bool:
        """Sends these jobs, each with its expected duration, and the functions and the segments they need. False, and
        none of the jobs was sent, if the worker lags behind or is gone."""
        way = self.side if share else self.lane
        knows = self._knows[way]
        unknown = {job.function: shipped[job.function] for job, _ in given if job.function not in knows}
        unknown |= {job.guard: shipped[job.guard] for job, _ in given if job.guard and job.guard not in knows}
        changed = path if path is not self._path and path != self._path else None
        first = 0 if share else self._places + 1
        batch = Batch(list(unknown.values()), [job for job, _ in given], first, changed)
        segments = self._unknown_segments(way, batch.jobs)
        descriptors: tuple[int, ...] = ()
        if segments:
            while len(segments) > DESCRIPTORS:
                some, segments = segments[:DESCRIPTORS], segments[DESCRIPTORS:]
                if not self._send(way, Batch([], [], segments=some), tuple(map(shelf.descriptor, some))):
                    return False
                self._segments[way].update(some)
            batch.segments = segments
            descriptors = tuple(map(shelf.descriptor, segments))
        batch.freed, batch.forgotten = self._freed, self._forgotten
        if not self._send(way, batch, descriptors):
            return False
        if segments:
            self._segments[way].update(segments)
        if self._freed or self._forgotten:
            self._freed, self._forgotten = [], []
        self._path = path
        knows.update(unknown)
        if share:
            now = time.time()
            self.shared.update({job.token: Given(job, 0, 0.0, now) for job, _ in given})
            return True
        for place, (job, expected) in enumerate(given, first):
            self.queue[job.token] = Given(job, place, expected)
            self.load.jobs += 1
            self.load.seconds += expected
        self._places += len(given)
        return True

    def _unknown_segments(self, way: Receiver[FromWorker], jobs: list[Job]) -> list[int]:
        known = self._segments[way]
        return list(
            {
                part.segment: None
                for job in jobs
                for part in (*job.inputs, *job.buffers, *[ref.content for ref in job.refs])
                if type(part) is Place and part.segment not in known
            }
        )

    def free(self, places: list[Place | Live]) -> None:
        """It may use this memory again. It is notified with what it is sent next, or at once if that is much."""
        self._freed += places
        if sum([place.size for place in self._freed]) >= MUCH:
            self._tell_unused()

    def forget(self, segments: list[int]) -> None:
        """No place in these will be mentioned any more. It is notified at once: their memory is free when all have
        forgotten them."""
        known = self._segments[self.lane] | self._segments[self.side]
        self._forgotten += [segment for segment in segments if segment in known]
        for told in self._segments.values():
            told.difference_update(segments)
        if self._forgotten:
            self._tell_unused()

    def _tell_unused(self) -> None:
        freed, forgotten = self._freed, self._forgotten
        self._freed, self._forgotten = [], []
        self.tell(Unused(freed, forgotten))

    def note_lingering(self, number: int, lingering: list[tuple[int, int]], shelf: Shelf) -> None:
        """What it says that it has mapped. Two messages may come in the wrong order."""
        if number > self._heard_number:
            self._heard_number = number
            if lingering or self.lingering:
                found = [shelf.find(segment, offset) for segment, offset in lingering]
                self.lingering = [object for object in found if object is not None]

    def has_nothing_but(self, token: int) -> bool:
        """Whether nothing else runs here, or can start, when this job has been stopped. The lane has given back what
        was behind it."""
        return self.shared.keys() <= {token} and (token in self.queue or not self.queue)

    def take(self, token: int) -> Given | None:
        """Removes a job that the worker no longer has."""
        given = self.queue.pop(token, None)
        if given is None:
            given = self.shared.pop(token, None)
        else:
            self.load.remove(given.expected)
            if not self.queue:
                self.recalled = None
                self.answered = False
        self.stopping.pop(token, None)
        return given

    def hurry(self) -> None:
        """Others wait for what runs in the lane: if it can be split, it should end, and leave the rest for later."""
        self._numbers[HURRY] = self._numbers[0]

    def was_hurried(self, given: Given) -> bool:
        """Whether a job of the lane was notified of that."""
        return self._numbers[HURRY] == given.place

    def halt(self) -> None:
        """It starts nothing more, not even what it was given. Takes effect at once, without a message. From any
        thread."""
        with contextlib.suppress(ValueError):  # it has ended, and its page is closed
            self._numbers[HALTED] = 1

    def count_change(self) -> None:
        """Something was committed to a task variable (`variables`)."""
        self._numbers[CHANGES] += 1

    def recall(self, now: float) -> None:
        self.recalls += 1
        self.recalled = now
        self.answered = False
        self.tell(Recall(self.recalls))

    def tell(self, message: Cancel | Definition | Interrupt | Publish | Recall | Told | Unused) -> None:
        """Sends this, if not now then when the worker has caught up (`catch_up`)."""
        self.owed.append(message)
        self.catch_up()

    def catch_up(self) -> None:
        while self.owed and self._send(self.side, self.owed[0]):
            del self.owed[0]

    def kill(self) -> None:
        self.killed = True
        with contextlib.suppress(ProcessLookupError):  # it has been reaped already
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def remaining(self) -> Iterator[tuple[FromWorker, tuple[int, ...]]]:
        """What it sent before it ended, with the descriptors that came with it."""
        for way in (self.lane, self.side):
            try:
                while way.connection.fileno() >= 0 and (received := way.receive()) is not None:
                    yield received
            except BlockingIOError:
                pass

    def disconnect(self) -> None:
        """An idle worker that finds its sockets closed leaves."""
        for connection in self.connections:
            close(connection)

    def close(self) -> None:
        self.disconnect()
        self.capture.close()
        self._numbers.release()
        self._page.close()
        os.close(self.pidfd)

    def _send(self, way: Receiver[FromWorker], message: ToWorker, descriptors: tuple[int, ...] = ()) -> bool:
        try:
            send(way.connection, message, descriptors)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return False
        return True
