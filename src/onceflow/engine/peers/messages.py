"""Messages between engines about the runs that they drive.

A message is its length (four bytes, the highest first) and a msgpack map with the version of this language and a body.
A connection carries one request and what answers it: one message, or for `Follow` any number, until the run ends. An
engine that does not speak the requested version says so, and the asking engine does without the answer.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeVar

import msgspec

from onceflow.engine.handles import Event
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.task_info import TaskInfo

VERSION = 1

MOST_ASKED = 64 * 1024
"""Bytes of the longest request."""

MOST_ANSWERED = 64 * 1024 * 1024
"""Bytes of the longest answer."""

LENGTH = struct.Struct(">I")

T = TypeVar("T")


class Describe(msgspec.Struct, tag="describe", frozen=True):
    """Asks for the states of the tasks of this run. Answered by `Described`."""

    run: str


class Survey(msgspec.Struct, tag="survey", frozen=True):
    """How does this run get on? Answered by `Surveyed`."""

    run: str


class Follow(msgspec.Struct, tag="follow", frozen=True):
    """What happens to this run from now on? Answered by one `Told` after the other."""

    run: str


Request = Describe | Survey | Follow


class Described(msgspec.Struct, tag="described", frozen=True):
    tasks: list[TaskInfo]


class Surveyed(msgspec.Struct, tag="surveyed", frozen=True):
    overview: Overview


class Told(msgspec.Struct, tag="told", frozen=True):
    events: list[Event]


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """`elsewhere`: the run is not driven here (any more). `unable`: `text` says why."""

    why: Literal["elsewhere", "unable"]
    text: str = ""


Answer = Described | Surveyed | Told | Refused


class _Message(msgspec.Struct, frozen=True):
    version: int
    body: msgspec.Raw


class Malformed(Exception):
    """What came is no message, or one that is not understood."""


def encode(body: Request | Answer) -> bytes:
    message = msgspec.msgpack.encode(_Message(VERSION, msgspec.Raw(msgspec.msgpack.encode(body))))
    return LENGTH.pack(len(message)) + message


def take(received: bytearray, most: int) -> bytes | None:
    """The first message of what was received, which is removed there; None if it is not complete. Raises
    `Malformed`."""
    if len(received) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(received)
    if length > most:
        raise Malformed(f"a message of {length} bytes is too long")
    end = LENGTH.size + length
    if len(received) < end:
        return None
    message = bytes(received[LENGTH.size : end])
    del received[:end]
    return message


def decode(message: bytes, kind: type[T]) -> T:
    """Raises `Malformed`."""
    try:
        opened = msgspec.msgpack.decode(message, type=_Message)
        if opened.version != VERSION:
            raise Malformed(f"version {opened.version} is spoken there, and {VERSION} here")
        return msgspec.msgpack.decode(opened.body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(str(error)) from error
