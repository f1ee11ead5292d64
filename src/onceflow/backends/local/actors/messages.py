"""Messages between an attempt and an actor.

An attempt connects to the actor's address, a Unix socket in the abstract namespace with a name that cannot be guessed,
and identifies itself. Then each call is one packet, and so is its answer, in the same order. What is too large for a
packet is in memory whose descriptor comes with it; the receiver maps it, and may write to what it has mapped: no other
process has it.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Sequence

import msgspec

from onceflow.backends.local.messages import Receiver, encode
from onceflow.data import memory, packets
from onceflow.values import packed_outputs
from onceflow.values.buffers import Buffer
from onceflow.values.packed_outputs import Packed

INLINE = 64 * 1024
"""Bytes of the largest value that stands in a packet."""

AWAKE = 100e-6
"""Seconds for which a process asks again and again whether something has come before it sleeps. On an idle machine it
takes as long to be woken, twice for each call."""

AT_ONCE = 512
"""Pieces that are written with one system call. The kernel takes 1024."""


class Hello(msgspec.Struct, tag=1, array_like=True, gc=False):
    """From an attempt: its identity, whether the actor is its alone from now on, and its job."""

    holder: str
    exclusive: bool
    token: int


class Make(msgspec.Struct, tag=2, array_like=True, gc=False):
    """From the attempt that makes the actor: a packed (class, args, kwargs)."""

    body: bytes
    size: int = 0


class Call(msgspec.Struct, tag=3, array_like=True, gc=False):
    """From an attempt: a packed (args, kwargs) for a method."""

    method: str
    body: bytes
    size: int = 0
    """Bytes, if the body comes beside the packet."""


class Keep(msgspec.Struct, tag=4, array_like=True, gc=False):
    """From an attempt: ask for what has to be saved."""


class Look(msgspec.Struct, tag=5, array_like=True, gc=False):
    """From an attempt: ask for `Statistics`."""


class Answer(msgspec.Struct, tag=6, array_like=True, gc=False):
    """From an actor, to each of the others. To `Hello` and `Make` the body is what can be called (`Kind`)."""

    body: bytes
    size: int = 0
    failure: bytes | None = None
    """What was raised (`values.failures`)."""


ToActor = Hello | Make | Call | Keep | Look


def listen(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(_address(name))
    listener.listen(128)
    return listener


def connect(name: str) -> socket.socket:
    """Raises `OSError` if no process listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(_address(name))
        check_user(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_user(connection: socket.socket) -> None:
    """Raises `PermissionError` if the other end belongs to another user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.geteuid():
        raise PermissionError("the other end belongs to another user")


def _address(name: str) -> str:
    return f"\0onceflow-actor-{name}"


def send(connection: socket.socket, message: Make | Call | Answer, packed: Packed, flags: int = 0) -> None:
    """The message with this body. Raises `BlockingIOError`, and has sent nothing, if it is not to wait and would have
    to; and `OSError` if there is no room for what is large."""
    if packed.size <= INLINE:
        message.body = packed.joined()
        connection.send(encode(message), flags)
        return
    message.size = packed.size
    descriptor = written(packed)
    try:
        connection.sendmsg([encode(message)], [packets.beside((descriptor,))], flags)
    finally:
        os.close(descriptor)


def written(packed: Packed) -> int:
    """A descriptor of memory with nothing else in it."""
    with memory.sealed_file("onceflow-actor") as descriptor:
        pieces: list[Buffer] = list(packed.pieces)
        for first in range(0, len(pieces), AT_ONCE):
            _write(descriptor, pieces[first : first + AT_ONCE])
    return descriptor


def _write(descriptor: int, pieces: Sequence[Buffer]) -> None:
    views = [memoryview(piece).cast("B") for piece in pieces if memoryview(piece).nbytes]
    while views:
        count = os.writev(descriptor, views)
        while views and count >= views[0].nbytes:
            count -= views.pop(0).nbytes
        if count:
            views[0] = views[0][count:]


def unpack(body: bytes, size: int, descriptors: Sequence[int]) -> object:
    """The value of a message. It may be changed: no other process has it."""
    if not size:
        return packed_outputs.unpack(body, ours=True)
    return packed_outputs.unpack(mapped(descriptors[0], size), ours=True)


def mapped(descriptor: int, size: int) -> memoryview:
    """What is written to it changes nothing for others. Closes the descriptor."""
    try:
        return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY))
    finally:
        os.close(descriptor)


def ready(poll: select.poll) -> list[tuple[int, int]]:
    """What `poll` gives, as soon as that is something."""
    until = time.perf_counter() + AWAKE
    while not (found := poll.poll(0)):
        if time.perf_counter() > until:
            return poll.poll()
        os.sched_yield()
    return found


def receiver(connection: socket.socket) -> Receiver[ToActor]:
    """In the actor's process."""
    return Receiver(connection, ToActor)


def answers(connection: socket.socket) -> Receiver[Answer]:
    """In the attempt's process."""
    return Receiver(connection, Answer)
