"""Messages and descriptors between two processes, many in a packet, without ever waiting.

Both ends of a `SOCK_SEQPACKET` pair queue what the other one has no room for. So each of them goes on reading, and two
that have much to say to each other cannot block each other.

Messages are msgspec structs; a packet is a list of them. A message whose field `described` is true has a descriptor,
and the descriptors of a packet are in the order of these messages.
"""

from __future__ import annotations

import array
import errno
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

SIZE = 64 * 1024
"""Bytes of a packet, but for a single message that is larger."""

LARGEST = 192 * 1024
"""Bytes of the largest packet. The kernel's default limit for all unread packets of a socket is a little more."""

DESCRIPTORS = 128
"""How many a packet may carry. The kernel allows 253."""

CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)  # members of an enum are slow to combine
_INTEGER = array.array("i").itemsize

_encode = msgspec.msgpack.Encoder().encode


class Message(Protocol):
    @property
    def described(self) -> bool:
        """Whether a descriptor comes with it."""


T = TypeVar("T", bound=Message)


Ancillary = tuple[int, int, "bytes | array.array[int]"]
"""What is sent beside a packet, as the socket module has it."""


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def room_for(descriptors: int) -> int:
    """The bytes that so many of them need beside a packet."""
    return socket.CMSG_SPACE(descriptors * _INTEGER)


def beside(descriptors: Sequence[int]) -> Ancillary:
    """What sends them along."""
    return socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors)


def found_beside(ancillary: Iterable[Ancillary]) -> array.array[int]:
    """The descriptors that came along."""
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % _INTEGER])
    return descriptors


class Outgoing:
    """What is to be sent through a socket that does not block."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting: deque[tuple[bytes, int | None]] = deque()
        self._lent: set[int] = set()
        """Those of the descriptors that are not ours."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, message: Message, descriptor: int | None = None, *, lent: bool = False) -> None:
        """There must be a descriptor if the message says so. It belongs to this object from now on, unless it is only
        lent: then it must stay open until everything is sent."""
        if lent and descriptor is not None:
            self._lent.add(descriptor)
        self._waiting.append((_encode(message), descriptor))

    def send(self) -> bool:
        """Sends as much as the other side takes now. Whether that was all. Raises `BrokenPipeError` or
        `ConnectionResetError` if there is no other side any more."""
        while self._waiting:
            count, descriptors = self._fitting()
            body = b"".join([_header(count), *[self._waiting[place][0] for place in range(count)]])
            try:
                if descriptors:
                    self._connection.sendmsg([body], [beside(descriptors)])
                else:
                    self._connection.send(body)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # too many descriptors are in flight
                    return False
                raise
            for _ in range(count):
                self._waiting.popleft()
            self._close(descriptors)
        self._lent.clear()
        return True

    def close(self) -> None:
        """Forgets what was not sent."""
        self._close([descriptor for _, descriptor in self._waiting if descriptor is not None])
        self._waiting.clear()

    def _close(self, descriptors: Iterable[int]) -> None:
        for descriptor in descriptors:
            if descriptor not in self._lent:
                os.close(descriptor)

    def _fitting(self) -> tuple[int, list[int]]:
        """How many of the messages fit into the next packet, and their descriptors."""
        size = count = 0
        descriptors: list[int] = []
        for body, descriptor in self._waiting:
            size += len(body)
            if count and (size > SIZE or len(descriptors) == DESCRIPTORS):
                break
            if descriptor is not None:
                descriptors.append(descriptor)
            count += 1
        return count, descriptors


def _header(count: int) -> bytes:
    """That of a list of so many things, as msgpack has it."""
    return b"\xdd" + count.to_bytes(4, "big")


class Incoming(Generic[T]):
    """What comes through a socket that does not block. `kinds` is the union of its messages."""

    def __init__(self, connection: socket.socket, kinds: Any) -> None:
        self._connection = connection
        self._decode = msgspec.msgpack.Decoder(list[kinds]).decode
        self._buffer = bytearray(LARGEST)
        self._view = memoryview(self._buffer)

    def receive(self) -> list[tuple[T, int | None]] | None:
        """The next messages and their descriptors, which belong to the caller; none if there are none now. None if the
        other end is closed. A descriptor that should be there is not if this process may have no more of them."""
        try:
            size, ancillary = self._receive()
        except BlockingIOError:
            return []
        except ConnectionResetError:
            # The other end was closed with something unread in it. That is reported once, before what it had sent.
            size, ancillary = self._receive()
        if not size:
            return None
        descriptors = iter(found_beside(ancillary))
        messages: list[T] = self._decode(self._view[:size])
        return [(message, next(descriptors, None) if message.described else None) for message in messages]

    def _receive(self) -> tuple[int, list[tuple[int, int, bytes]]]:
        size, ancillary, _, _ = self._connection.recvmsg_into([self._buffer], room_for(DESCRIPTORS), CLOSE_ON_EXEC)
        return size, ancillary
