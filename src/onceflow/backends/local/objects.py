"""Large values in a worker: outputs that it leaves in shared memory, inputs that it maps.

All threads of the worker use it. A worker speaks to the pool in two ways, through its lane and its side, and what is
sent one way may overtake what is sent the other. So each way announces by itself, for every segment that it mentions,
which descriptor that is.

An output whose memory has no other references is not written at all, but kept as it is (`live_outputs`): a job that
runs here builds its input upon the same memory. It is written when another process needs it.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Sequence
from socket import socket
from typing import Any

from onceflow.backends.local.job_runner import failed
from onceflow.backends.local.live_outputs import LiveValues
from onceflow.backends.local.messages import DESCRIPTORS, Batch, Job, Outcome, Outcomes, Unused, send
from onceflow.backends.local.refs import JobActors, MadeRef
from onceflow.data.arena import Arena
from onceflow.data.mapping import Segments
from onceflow.data.places import Live, Place
from onceflow.errors import OutputNotSent
from onceflow.values import culprits
from onceflow.values.packed_outputs import SMALL, Packed, unpack
from onceflow.values.refs import Ref

TRIM = 1.0
"""Seconds between two looks at memory that is not used any more."""


class Objects:
    def __init__(self) -> None:
        self._arena = Arena(int.from_bytes(os.urandom(5), "big") >> 2 << 24)  # unique numbers
        self._segments = Segments()
        self._lock = threading.Lock()
        self._own: dict[int, int] = {}
        """Segments of this worker's, and their descriptors."""
        self._told: dict[socket, set[int]] = {}
        """Which segments were announced to the pool, each way."""
        self._messages = itertools.count(1)
        self._trimmed = time.monotonic()
        self.live = LiveValues(self._put)
        self._adopted_numbers = itertools.count(int.from_bytes(os.urandom(5), "big") >> 2 << 24)  # unique
        self._adopted: set[int] = set()
        """Segments that others have filled, each with one object."""
        self._dropped: list[int] = []
        """Those of them that have ended since the last report."""

    def open_actors(self, job: Job) -> JobActors:
        """For a job that has actors."""
        from onceflow.backends.local.actors.connections import SocketActors  # most workers never need it

        return SocketActors(job.task, str(job.context.get("attempt", "")), job.token, self.adopt)

    def adopt(self, descriptor: int, size: int) -> Place:
        """Memory that another process has filled is this one's from now on."""
        with self._lock:
            segment = next(self._adopted_numbers)
            self._own[segment] = descriptor
            self._adopted.add(segment)
            self._segments.add(segment, os.dup(descriptor))
        return Place(segment, 0, size)

    def _free_place(self, place: Place) -> None:
        if place.segment not in self._adopted:
            self._arena.free(place)
            return
        with self._lock:
            self._adopted.discard(place.segment)
            self._dropped.append(place.segment)
            self._segments.forget([place.segment])
            os.close(self._own.pop(place.segment))
            for told in self._told.values():
                told.discard(place.segment)

    def leave(self, packed: Packed) -> bytes | Place:
        """Puts a value where others find it. Raises `OSError` if there is no room for it."""
        return packed.joined() if packed.size <= SMALL else self._put(packed)

    def offer(self, packed: Packed) -> bytes | Place | Live:
        """The same for a job of the lane, for which `settle` is called when it is over: perhaps the value can stay
        where it is."""
        if packed.size <= SMALL:
            return packed.joined()
        return self.live.offer(packed) or self._put(packed)

    def settle(self, job: Job, outcome: Outcome) -> Outcome:
        """Decides which of the values that were offered can stay. Nothing of the job is left on the stack."""
        try:
            self.live.settle(outcome)
        except OSError as error:
            size = sum([part.size for part in outcome.parts if not isinstance(part, bytes)])
            for part in outcome.parts:
                if isinstance(part, Live):
                    self.live.drop(part)
                elif isinstance(part, Place):
                    self._arena.free(part)
            return failed(job, outcome.started, OutputNotSent(job.task, size, culprits.told(error)))
        return outcome

    def _put(self, packed: Packed) -> Place:
        place = self._arena.put(packed.pieces)
        with self._lock:
            for segment, descriptor in self._arena.new():
                self._own[segment] = descriptor
                self._segments.add(segment, os.dup(descriptor))
        return place

    def load(self, part: bytes | Place | Live, refs: Sequence[Any] = ()) -> Any:
        found = self.live.get(part) if isinstance(part, Live) else part
        return found.unpack(refs) if isinstance(found, Packed) else unpack(self.view(found), refs)

    def view(self, part: bytes | Place | Live) -> bytes | memoryview:
        """Its bytes; of a live value the first of them."""
        found = self.live.get(part) if isinstance(part, Live) else part
        if isinstance(found, Packed):
            return bytes(found.pieces[0])
        return found if isinstance(found, bytes) else self._segments.map(found)

    def peek(self, part: bytes | Place | Live) -> bytes | memoryview:
        """As `refs.Contents` has it."""
        return self.view(part)

    def put(self, packed: Packed) -> Ref[Any]:
        """A ref to a value that a job has made."""
        return MadeRef(self.leave(packed), self.load, self._free)

    def _free(self, part: bytes | Place | Live) -> None:
        if isinstance(part, Live):
            self.live.drop(part)
        elif isinstance(part, Place):
            self._free_place(part)

    @property
    def has_spare(self) -> bool:
        """Whether there is memory that is kept for outputs to come."""
        return self._arena.statistics().spare > 0

    def learn(self, message: Batch | Unused, descriptors: Iterable[int]) -> None:
        """Takes note of what the pool says about segments."""
        for segment, descriptor in zip(message.segments, descriptors, strict=True):
            self._segments.add(segment, descriptor)
        for freed in message.freed:
            if isinstance(freed, Live):
                self.live.drop(freed)
            else:
                self._free_place(freed)
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
        mentioned |= {published.place.segment for published in message.published if published.place is not None}
        with self._lock:
            told = self._told.setdefault(way, set())
            new = list(mentioned - told)
            message.number = next(self._messages)
            message.lingering = list(self._segments.lingering())
            message.closed = message.closed + self._trim() + self._dropped  # it may be tried for the second time
            self._dropped = []
            for first in range(0, max(0, len(new) - DESCRIPTORS), DESCRIPTORS):
                some = new[first : first + DESCRIPTORS]
                send(way, Outcomes([], some), self._descriptors(some))
            message.segments = new[-(len(new) % DESCRIPTORS or len(new)) :] if len(new) > DESCRIPTORS else new
            send(way, message, self._descriptors(message.segments))
            told.update(new)

    def _descriptors(self, segments: Sequence[int]) -> tuple[int, ...]:
        return tuple([self._own[segment] for segment in segments])

    def _trim(self) -> list[int]:
        """Gives back memory now and then. Returns the segments that were closed."""
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
