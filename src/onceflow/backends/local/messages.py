"""Messages between pool and workers, and their encoding as packets.

Messages are msgspec structs. A packet is small enough to be sent in one piece; what is larger travels in a `memfd`
whose descriptor rides on an empty packet.

Large values do not travel in messages at all, but are left in shared memory: the message says in which place, and
carries the descriptor of its segment if the receiver does not have it yet (`onceflow.data`).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
from typing import Any, Generic, Literal, TypeVar

import msgspec

from onceflow.data import packets
from onceflow.data.places import Live, Place
from onceflow.values.functions import Shipped
from onceflow.values.handler_answers import Answer
from onceflow.values.variables import Step

T = TypeVar("T")

PACKET = 96 * 1024
"""Bytes of the largest packet. The kernel's default limit for all unread packets of a socket is about twice that."""

DESCRIPTORS = 120
"""How many a packet may carry. The kernel takes 253."""

HURRY = 4
"""Where in the page that pool and worker share it is said that others wait for a job of the lane: its place."""

CALLER = 5
"""Where in it an actor says for which job it works: its token."""

HALTED = 6
"""Where in it the pool says, with a 1, that the worker starts nothing more."""


class ActorIn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An actor that a job is given."""

    address: str
    exclusive: bool
    """Whether it is the job's alone."""


class RefIn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ref that a job is given."""

    id: str
    content: bytes | Place | Live
    """What it refers to."""
    inner: list[int] = []
    """For each number of a ref in that, its place among `Job.refs`, or -1."""
    actor: ActorIn | None = None
    """If it is an actor. There is no content then."""


class RefOut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ref in the output of a job."""

    holders: list[int]
    """The parts that hold it."""
    origin: int
    """Its place among `Job.refs`, if it came in with them; else -1."""
    content: bytes | Place | Live | None
    """What it refers to, if the job has made it. Of an actor: the snapshot that was taken, if the job is to be
    saved."""
    actor: str | None = None
    """The address, if it is an actor."""


class Job(msgspec.Struct, array_like=True, gc=False):
    """A call of a function. Of a job that was started, the pool reports the outcome exactly once."""

    token: int
    """Chosen by the caller that starts it; positive, unique in the life of a pool, larger than those of jobs that came
    before."""
    function: str
    """The hash of a function that was given to `Pool.ship`."""
    task: str
    """What errors call it."""
    arguments: bytes
    """The pickled pair (positional arguments, keyword arguments)."""
    inputs: list[bytes | Place | Live] = []
    """Packed values for the placeholders in `arguments` (`snapshot.load`) and for `holes`."""
    holes: list[tuple[int | str, int]] = []
    """(position or keyword, number of the input that goes there), as in `Template.holes`."""
    buffers: list[bytes | Place | Live] = []
    """The large buffers of `arguments`, in the snapshot's order."""
    parts: int = 1
    """With n > 1 the function must return a tuple of n, which are pickled apart."""
    is_async: bool = False
    """The function returns a coroutine. Many of them run at once in a worker."""
    threads: bool = False
    """It runs in a thread of its own, beside others in the same worker."""
    context: dict[str, str | int] = {}
    """What the function can learn about its attempt (`onceflow.values.context`)."""
    undo: bool = False
    """The function takes back what a call with these arguments did. It is called with the positional arguments, the
    keyword arguments, what the call returned, and the key; what it returns itself is of no interest."""
    has_output: bool = False
    """For an undo: whether the last of the inputs is what the call returned. Else it did not return."""
    retried: bytes | None = None
    """The pickled classes of errors that are worth another try; None if all are."""
    cpus: float | None = None
    """Cores that the job needs while it runs. None if not given: one in a lane, none if it shares."""
    memory: int = 0
    """Bytes that it needs while it runs."""
    resources: dict[str, float] = {}
    """What else it needs, of what a cluster has."""
    placement: str = ""
    """Where in a cluster, if that matters (`Settings.placement`)."""
    follows: int = 0
    """The token of the job right before it in the lane, on whose output it depends; 0 for almost all."""
    fed: list[tuple[int, int]] = []
    """(number of the input, part of that output)."""
    refs: list[RefIn] = []
    tables: dict[int, list[int]] = {}
    """Input → for each number of a ref in it, its place in `refs` (-1 if it is not in this part). An empty input stands
    for the first of them itself."""
    spans: list[int] = []
    """How many of `inputs` make up each value: several are a tuple. Empty if each is a value by itself."""
    keep: bool = False
    """Whether snapshots are to be taken of the actors in its output."""
    guard: str = ""
    """The hash of the guard to be asked if the function raises for the last time (`authoring.handler_guards`)."""
    failed: dict[int, int] = {}
    """How often what the guard answers for has failed before."""
    last: bool = False
    """Whatever it raises, it is not tried again unless the guard says so."""
    failure: bytes | None = None
    """The exception that it raised, or counts as having raised: the function is not called, only the guard is asked."""
    catch: int = 0
    """As in `Settings.catch`."""
    priority: int = 0
    """How much more often than others it is served (`fair_queue`)."""
    alone: bool = False
    """It does not share a worker, although it could: `driver.work.Work.alone`."""
    young: bool = False
    """It belongs to a run that has just begun, for which others that can be split may make room (`Worker.hurry`)."""

    @property
    def shares(self) -> bool:
        """Whether it runs beside others in its worker. The others run in a lane, one at a time."""
        return (self.is_async or self.threads) and not self.alone

    @property
    def needy(self) -> bool:
        """Whether it says what it needs."""
        return self.cpus is not None or self.memory != 0


class Outcome(msgspec.Struct, array_like=True, gc=False):
    """The outcome of a job, as its worker reports it."""

    token: int
    started: float
    ended: float
    parts: list[bytes | Place | Live]
    """The output, packed; empty if it raised or was cancelled."""
    failure: bytes | None = None
    """The exception that it raised (`onceflow.values.failures`)."""
    permanent: bool = False
    cancelled: bool = False
    """It was asked to stop before it ended."""
    graph: bool = False
    """The only part is a graph that the function returned."""
    children: bool = False
    """For one that was cancelled: whether its worker had child processes then."""
    skipped: bool = False
    """It was not started, because what it follows left no output for it, what it reads is `gone`, or the worker was
    halted."""
    annotations: str | None = None
    """Its metadata (`values.metadata`), if it has returned."""
    refs: list[RefOut] = []
    """The refs in the output."""
    writes: list[Step] = []
    """Its writes to task variables, if it has returned."""
    lost: list[int] = []
    """Places among `Job.refs` of those that were lost when it asked for them: it does not count."""
    answer: Answer | None = None
    """What a handler says shall become of what it raised."""
    gone: list[int] = []
    """Numbers of live values that it was to read, and that are lost."""


class Batch(msgspec.Struct, tag=1, array_like=True):
    """To a worker: functions it does not know yet, and jobs. `first` is the place of the first job among all that were
    sent to this lane, counting from 1; the others follow. `path` is the caller's `sys.path`, if that has changed."""

    functions: list[Shipped]
    jobs: list[Job]
    first: int = 0
    path: list[str] | None = None
    segments: list[int] = []
    """Those whose descriptors come with this message, in their order."""
    freed: list[Place | Live] = []
    """Objects of this worker's that are no longer needed: their memory may be reused."""
    forgotten: list[int] = []
    """Segments in which no place will be mentioned any more."""


class Recall(msgspec.Struct, tag=2, array_like=True):
    """To a worker: give back what has not started, and report what has ended."""

    number: int


class Cancel(msgspec.Struct, tag=3, array_like=True):
    """To a worker: this job, which shares it with others, is to end."""

    token: int


class Definition(msgspec.Struct, tag=4, array_like=True):
    """To a worker: what the caller's `__main__` has under this name."""

    name: str
    payload: bytes | None


class Published(msgspec.Struct, array_like=True, gc=False):
    """The outcome of publishing a live object that other processes need."""

    number: int
    place: Place | None
    """None if there was no room for it."""
    problem: str = ""


class Outcomes(msgspec.Struct, tag=5, array_like=True):
    outcomes: list[Outcome]
    segments: list[int] = []
    """Those whose descriptors come with this message, in their order. The worker has made them."""
    closed: list[int] = []
    """Segments of this worker's into which nothing will be put any more."""
    number: int = 0
    """Grows with every message of this kind that reports lingering objects."""
    lingering: list[tuple[int, int]] = []
    """(segment, offset) of the objects that are mapped here, although no job has to read them any more, or because one
    still does."""
    published: list[Published] = []


class Returned(msgspec.Struct, tag=6, array_like=True):
    """From a worker: these jobs have not been started and will not be. The answer to the recall with this number."""

    number: int
    tokens: list[int]


class Wanted(msgspec.Struct, tag=7, array_like=True):
    """From a worker: it needs what the caller's `__main__` has under this name."""

    name: str


class Spawn(msgspec.Struct, tag=8, array_like=True):
    """To the fork server: start a worker. `capture`: what it prints and logs, from this level on, is for the pool.
    `progress`: the pool wants to know how far jobs are."""

    capture: bool = False
    log_level: int = 0
    progress: bool = False
    host: str = ""
    """The actor that it is for, if it is for one. The packet carries the socket where it listens."""


class Ready(msgspec.Struct, tag=9, array_like=True):
    """From the fork server: everything is loaded. `missing` are the modules to be preloaded that raised, and what."""

    missing: list[tuple[str, str]]


class Born(msgspec.Struct, tag=10, array_like=True):
    """From the fork server: a worker. The packet carries its lane, side, channel, pidfd and page, and the reading ends
    of its standard output and standard error if they are captured. `host` is as in `Spawn`."""

    pid: int
    host: str = ""


class Gone(msgspec.Struct, tag=11, array_like=True):
    """From the fork server: this worker has ended, with this exit status (negative: the signal; None if unknown) and
    was reaped."""

    pid: int
    status: int | None


class Interrupt(msgspec.Struct, tag=12, array_like=True):
    """To a worker: this job is to end, if it is the one that runs in the lane. What waits there has been recalled."""

    token: int


class Output(msgspec.Struct, tag=13, array_like=True, gc=False):
    """From a worker, through its channel: something was printed or logged by a job, or by none (0). `raw`: it was found
    in a pipe, and may begin and end anywhere in a line."""

    token: int
    stream: Literal["stdout", "stderr", "log"]
    data: bytes
    time: float
    level: int = 0
    logger: str = ""
    raw: bool = False


class Progress(msgspec.Struct, tag=14, array_like=True, gc=False):
    """From a worker, through its channel: how far a job is."""

    token: int
    done: int | float
    total: int | float | None
    note: str


class Hidden(msgspec.Struct, tag=15, array_like=True, gc=False):
    """From a worker, through its channel: texts that are masked from now on (`values.secret_masks`)."""

    texts: list[bytes]


class Unused(msgspec.Struct, tag=16, array_like=True):
    """To a worker: the same that a batch may say about memory."""

    freed: list[Place | Live]
    forgotten: list[int]
    segments: list[int] = []


class Publish(msgspec.Struct, tag=17, array_like=True):
    """To a worker: put what it has under this number where others find it."""

    number: int


class Read(msgspec.Struct, tag=18, array_like=True):
    """From a worker: a job asks for the value of a task variable. `number` identifies the question among those of the
    worker."""

    number: int
    token: int
    name: str


class Told(msgspec.Struct, tag=19, array_like=True):
    """To a worker: the packed value that it asked for, if there is one. `known`: the job has a run."""

    number: int
    value: bytes | None
    known: bool = True


class Host(msgspec.Struct, tag=20, array_like=True):
    """From a worker: this job makes an actor, which needs a process. The packet carries the socket where it listens."""

    name: str
    token: int
    kind: str
    """The name of its class."""
    cpus: float
    memory: int
    idle: float


ToWorker = Batch | Recall | Cancel | Definition | Interrupt | Publish | Told | Unused
FromWorker = Outcomes | Read | Returned | Wanted | Host
FromServer = Ready | Born | Gone
Beside = Output | Progress | Hidden

encode = msgspec.msgpack.Encoder().encode


def send(connection: socket.socket, message: Any, descriptors: tuple[int, ...] = ()) -> None:
    """Sends one packet, or raises (`BlockingIOError` if the receiver lags behind) and has sent nothing."""
    body = encode(message)
    if len(body) <= PACKET:
        if descriptors:
            connection.sendmsg([body], [packets.beside(descriptors)])
        else:
            connection.send(body)
        return
    memory = os.memfd_create("onceflow", os.MFD_CLOEXEC)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(memory, view) :]
        connection.sendmsg([b"\0"], [packets.beside((memory, *descriptors))])
    finally:
        os.close(memory)


class Receiver(Generic[T]):
    """Receives the messages of one socket. Not to be shared between threads."""

    __slots__ = ("_buffer", "_decode", "_view", "connection")

    def __init__(self, connection: socket.socket, kinds: Any) -> None:
        self.connection = connection
        self._decode = msgspec.msgpack.Decoder(kinds).decode
        self._buffer = bytearray(PACKET)
        self._view = memoryview(self._buffer)

    def receive(self, flags: int = 0) -> tuple[T, tuple[int, ...]] | None:
        """The next message and the descriptors that came with it; None if the other end is closed."""
        flags |= packets.CLOSE_ON_EXEC
        try:
            size, ancillary, _, _ = self.connection.recvmsg_into([self._buffer], _ANCILLARY, flags)
        except ConnectionResetError:
            # The other end was closed with something unread in it. That is reported once, before what it had sent.
            size, ancillary, _, _ = self.connection.recvmsg_into([self._buffer], _ANCILLARY, flags)
        if size == 0:
            return None
        if not ancillary:
            return self._decode(self._view[:size]), ()
        descriptors = packets.found_beside(ancillary)
        if size > 1:
            return self._decode(self._view[:size]), tuple(descriptors)
        memory, *rest = descriptors
        try:
            with mmap.mmap(memory, 0, prot=mmap.PROT_READ) as content:
                return self._decode(content), tuple(rest)
        finally:
            os.close(memory)


_ANCILLARY = packets.room_for(DESCRIPTORS + 1)


def close(connection: socket.socket) -> None:
    """Closes it so that the other end notices, even if a forked process still has it open."""
    with contextlib.suppress(OSError):  # the other end was quicker
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
