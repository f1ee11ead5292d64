"""The reader's side of shared memory: known segments, and the views of them in use.

A sealed segment is mapped as a whole, once, and needs no descriptor from then on. It stays mapped when an object in it
is no longer read: the next one that comes to lie in the same memory is there without a single page fault (which for
100 MB would take as long as adding up its numbers). Of a file that grows, each object is mapped by itself.

An object's memory may be used again only when it has no readers, and a view may outlive the call that read it: a
user's function keeps an array in a global variable, or returns a slice of its input. So what is read is counted until
the last view of it is gone (`lingering`, `dropped`).

The interpreter drops the last view wherever it likes, also within this very class, so what happens then cannot wait for
the lock. It is noted; the holder of the lock handles it when done; if the lock is free, it is handled at once.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from onceflow.data import memory
from onceflow.data.background import Chores
from onceflow.data.memory import Room
from onceflow.data.places import Place, whole_pages

Spot = tuple[int, int]
"""Segment and offset: an object, as long as its memory is not used again."""


class Statistics(msgspec.Struct, frozen=True):
    segments: int
    """That are known."""
    mapped: int
    """Bytes of address space."""
    views: int
    """Objects that are read."""


class _Mapping:
    """Something that is mapped here."""

    __slots__ = ("address", "kept", "size", "views")

    def __init__(self, address: int, size: int, *, kept: bool) -> None:
        self.address = address
        self.size = size
        self.kept = kept
        """It stays mapped, even without readers."""
        self.views = 0


class _Watch(weakref.ref[Room]):
    __slots__ = ("mapping", "segments", "spot")
    segments: Segments
    mapping: _Mapping
    spot: Spot


_watches: dict[int, _Watch] = {}
"""By their ids: a weak reference has the hash of what it refers to, and a room has none."""


class Segments:
    """Thread-safe. Views stay valid whatever becomes of this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mappings: dict[int, _Mapping] = {}
        """Segments that are mapped as a whole."""
        self._files: dict[int, int] = {}
        """Descriptors of the other ones."""
        self._gone: deque[_Watch] = deque()
        """Those whose views are gone and that have not been seen to."""
        self._read: Counter[Spot] = Counter()
        self._dropped: list[Spot] = []
        self._mapped = 0
        self._chores = Chores()

    def add(self, segment: int, descriptor: int) -> None:
        """The descriptor belongs to this object from now on. A segment that is known already stays as it is."""
        with self._lock:
            if segment not in self and not memory.is_sealed(descriptor):
                self._files[segment] = descriptor
                return
            try:
                if segment not in self:
                    size = os.fstat(descriptor).st_size
                    self._mappings[segment] = self._map(descriptor, 0, size, kept=True)
            finally:
                os.close(descriptor)
        self._settle()

    def __contains__(self, segment: int) -> bool:
        return segment in self._mappings or segment in self._files

    def forget(self, segments: Iterable[int]) -> None:
        """Unknown segments are ignored. Segments without readers are unmapped in the background."""
        unused = []
        with self._lock:
            for segment in segments:
                mapping = self._mappings.pop(segment, None)
                if mapping is not None:
                    mapping.kept = False
                    if not mapping.views:
                        unused.append(mapping)
                        self._mapped -= mapping.size
                elif segment in self._files:
                    os.close(self._files.pop(segment))
        if unused:
            self._chores.add(functools.partial(_unmap, unused))
        self._settle()

    def map(self, place: Place) -> memoryview:
        """The object's bytes, read-only and without a copy. Raises `KeyError` if its segment is not known."""
        if not place.size:
            return memoryview(b"")
        with self._lock:
            mapping = self._mappings.get(place.segment)
            if mapping is not None:
                if place.offset + place.size > mapping.size:
                    raise ValueError(f"{place} is not within its segment of {mapping.size} bytes")
                room = memory.room(mapping.address + place.offset, place.size)
            else:
                size = whole_pages(place.size)
                mapping = self._map(self._files[place.segment], place.offset, size, kept=False)
                memory.read_ahead(mapping.address, size)
                room = memory.room(mapping.address, place.size)
            watch = _Watch(room, _note)
            watch.segments = self
            watch.mapping = mapping
            watch.spot = (place.segment, place.offset)
            _watches[id(watch)] = watch
            mapping.views += 1
            self._read[watch.spot] += 1
            view = memory.view(room, place.size)
        self._settle()
        return view

    def lingering(self) -> set[Spot]:
        """What is read now."""
        self._settle()
        with self._lock:
            return set(self._read)

    def dropped(self) -> list[Spot]:
        """What has ceased to be read since the last time this was asked."""
        self._settle()
        with self._lock:
            dropped, self._dropped = self._dropped, []
            return [spot for spot in dropped if spot not in self._read]

    def statistics(self) -> Statistics:
        self._settle()
        with self._lock:
            return Statistics(len(self._mappings) + len(self._files), self._mapped, len(self._read))

    def close(self) -> None:
        """Forgets all segments."""
        self.forget([*self._mappings, *self._files])
        self._chores.wait()

    def _map(self, descriptor: int, offset: int, size: int, *, kept: bool) -> _Mapping:
        mapping = _Mapping(memory.map_readable(descriptor, offset, size), size, kept=kept)
        self._mapped += size
        return mapping

    def _settle(self) -> None:
        while self._gone and self._lock.acquire(blocking=False):
            try:
                while self._gone:
                    self._see_to(self._gone.popleft())
            finally:
                self._lock.release()

    def _see_to(self, watch: _Watch) -> None:
        del _watches[id(watch)]
        watch.mapping.views -= 1
        if not watch.mapping.views and not watch.mapping.kept:
            self._mapped -= watch.mapping.size
            _unmap([watch.mapping])
        self._read[watch.spot] -= 1
        if not self._read[watch.spot]:
            del self._read[watch.spot]
            self._dropped.append(watch.spot)


def _unmap(mappings: Iterable[_Mapping]) -> None:
    for mapping in mappings:
        memory.unmap(mapping.address, mapping.size)


def _note(watch: weakref.ref[Room]) -> None:
    """The last view of something is gone."""
    assert isinstance(watch, _Watch)
    watch.segments._gone.append(watch)
    watch.segments._settle()
