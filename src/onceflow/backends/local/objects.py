"""Large values in a worker: outputs that it leaves in shared memory, inputs that it maps.

All threads of the worker use it. A worker speaks to the pool in two ways, through its lane and its side, and what is
sent one way may overtake what is sent the other. So each way tells by itself, of every segment that it mentions, which
descriptor that is.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Sequence
from socket import socket
from typing import Any

from onceflow.backends.local.messages import DESCRIPTORS, Batch, Outcomes, Unused, send
from onceflow.backends.local.refs import MadeRef
from onceflow.data.arena import Arena
from onceflow.data.mapping import Segments
from onceflow.data.places import Place
from onceflow.values.packing import SMALL, Packed, unpack
from onceflow.values.refs import Ref

TRIM = 1.0
"""Seconds between two looks at memory that is not used any more."""


class Objects:
    def __init__(self) -> None:
        self._arena = Arena(int.from_bytes(os.urandom(5), "big") >> 2 << 24)  # nobody else's numbers
        self._segments = Segments()
        self._lock = threading.Lock()
        self._own: dict[int, int] = {}
        """Segments of this worker's, and their descriptors."""
        self._told: dict[socket, set[int]] = {}
        """Which segments the pool has been told of, each way."""
        self._messages = itertools.count(1)
        self._trimmed = time.monotonic()

    def leave(self, packed: Packed) -> bytes | Place:
        """Puts a value where others find it. Raises `OSError` if there is no room for it."""
        if packed.size <= SMALL:
            return packed.joined()
        place = self._arena.put(packed.pieces)
        with self._lock:
            for segment, descriptor in self._arena.new():
                self._own[segment] = descriptor
                self._segments.add(segment, os.dup(descriptor))
        return place

    def load(self, part: bytes | Place, refs: Sequence[Any] = ()) -> Any:
        return unpack(self.view(part), refs)

    def view(self, part: bytes | Place) -> bytes | memoryview:
        return part if isinstance(part, bytes) else self._segments.map(part)

    def put(self, packed: Packed) -> Ref[Any]:
        """A ref to a value that a job has made."""
        return MadeRef(self.leave(packed), self.load, self._free)

    def _free(self, part: bytes | Place) -> None:
        if isinstance(part, Place):
            self._arena.free(part)

    def learn(self, message: Batch | Unused, descriptors: Iterable[int]) -> None:
        """Takes note of what the pool tells about segments."""
        for segment, descriptor in zip(message.segments, descriptors, strict=True):
            self._segments.add(segment, descriptor)
        for place in message.freed:
            self._arena.free(place)
        if message.forgotten:
            self._segments.forget(message.forgotten)

    def send(self, way: socket, message: Outcomes) -> None:
        """Sends outcomes together with all that the pool has to know about the objects in them. Raises what sending
        raises; it can be tried again then."""
        mentioned = {
            part.segment
            for outcome in message.outcomes
            for part in (*outcome.parts, *[ref.content for ref in outcome.refs])
            if isinstance(part, Place)
        }
        with self._lock:
            told = self._told.setdefault(way, set())
            new = list(mentioned - told)
            message.number = next(self._messages)
            message.lingering = list(self._segments.lingering())
            message.closed = self._trim()
            for first in range(0, max(0, len(new) - DESCRIPTORS), DESCRIPTORS):
                some = new[first : first + DESCRIPTORS]
                send(way, Outcomes([], some), self._descriptors(some))
            message.segments = new[-(len(new) % DESCRIPTORS or len(new)) :] if len(new) > DESCRIPTORS else new
            send(way, message, self._descriptors(message.segments))
            told.update(new)

    def _descriptors(self, segments: Sequence[int]) -> tuple[int, ...]:
        return tuple([self._own[segment] for segment in segments])

    def _trim(self) -> list[int]:
        """Gives back memory now and then. Returns the segments that are no more."""
        now = time.monotonic()
        if now - self._trimmed < TRIM:
            return []
        self._trimmed = now
        self._arena.trim(now)
        closed = self._arena.closed()
        self._segments.forget(closed)
        for segment in closed:
            os.close(self._own.pop(segment))
        for told in self._told.values():
            told.difference_update(closed)
        return closed
