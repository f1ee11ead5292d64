"""The memory of a worker for the objects that it makes.

Small objects share slabs, because each segment needs a descriptor; a large one has a segment of its own, and so have
medium ones as long as there are few. Memory that is fresh is dear: the kernel has to find each page, and to map it on
first use. So a segment of its own is first written with `pwrite`, which maps nothing and takes half as long as the same
in a slab; and what is freed is used again, through a mapping that was made before the segment was sealed, in a quarter
of the time. (It is mapped page by page when it is used again for the first time. To do so in the background before has
been tried: it slows down the tasks that run meanwhile.)

Only the engine knows whether an object is still needed, and read: it says so (`free`). From then on this memory may
have other contents at any moment. Unused memory is given back by closing whole segments (`trim`), in the
background (`background`), because that is dear as well.

Others hear of segments through `new` and `closed`.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Iterable, Sequence

import msgspec

from onceflow.data import memory
from onceflow.data.background import Chores
from onceflow.data.memory import Writable
from onceflow.data.places import Place, whole_pages
from onceflow.data.regions import Regions
from onceflow.values.buffers import Buffer, flat, write_all

LARGE = 2 * 1024 * 1024
"""Bytes from which on an object has a segment of its own."""

SLAB = 16 * 1024 * 1024
"""Bytes of a segment that objects share."""

MEDIUM = 512 * 1024
"""Bytes from which on an object has a segment of its own if there are few."""

FEW = 32
"""Segments."""

GROWTH = 256 * 1024
"""Bytes by which the mapped part of a slab grows."""

STEP = 4 * 1024 * 1024
"""Bytes that are copied at once. Between two steps other threads have their turn."""

SPARE = 256 * 1024 * 1024
"""Bytes of freed memory that are kept for later objects."""

IDLE = 5.0
"""Seconds after which spare memory is given back."""

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})


class NoRoom(OSError):
    """Raised when there is no memory for an object, or no descriptor for another segment. When others have been freed
    (spilled to disk, say), trying again may help."""


class Statistics(msgspec.Struct, frozen=True):
    segments: int
    objects: int
    used: int
    """Bytes of objects, in whole pages."""
    spare: int
    """Bytes that are kept for later objects."""


class _Segment:
    """One that is mapped here."""

    __slots__ = ("held", "mapped", "memory", "number", "regions", "seen")

    def __init__(self, number: int, memory: Writable, held: int) -> None:
        self.number = number
        self.memory = memory
        self.held = held
        """Up to this offset there is memory behind it."""
        self.mapped = 0
        """Up to this offset it can be written without a page fault."""
        self.regions = Regions(memory.size)
        self.seen: float | None = None
        """Since when it has been seen empty."""


class Arena:
    """Makes and frees objects. Thread-safe.

    Segments are numbered from `base` on. Of the memory that is freed, `spare` bytes are kept, or what was freed last if
    that is more.
    """

    def __init__(self, base: int, *, spare: int = SPARE) -> None:
        self._spare = spare
        self._numbers = itertools.count(base)
        self._lock = threading.Lock()
        self._slabs: dict[int, _Segment] = {}
        self._own: dict[int, _Segment] = {}
        """Segments of one object each."""
        self._free: dict[int, _Segment] = {}
        """Segments for one object that have none, the oldest first."""
        self._new: dict[int, int] = {}
        self._closed: list[int] = []
        self._objects = 0
        self._chores = Chores()
        """They close segments."""

    def put(self, pieces: Sequence[Buffer]) -> Place:
        """Writes the pieces one after the other. They are visible to every process that maps the place. Raises
        `NoRoom`."""
        views = [view for piece in pieces if (view := flat(piece)).nbytes]
        size = sum([view.nbytes for view in views])
        try:
            place = self._put_apart(views, size) if self._is_apart(size) else self._put_in_slab(views, size)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise NoRoom(error.errno, f"no room for an object of {size} bytes: {error.strerror}") from error
            raise
        with self._lock:
            self._objects += 1
        return place

    def free(self, place: Place) -> None:
        """This object has no readers left, now or later: its memory may be reused."""
        with self._lock:
            slab = self._slabs.get(place.segment)
            if slab is not None:
                slab.regions.give(place.offset, place.size)
            else:
                self._free[place.segment] = self._own.pop(place.segment)
            self._objects -= 1

    def new(self) -> list[tuple[int, int]]:
        """Segments that were made since the last time, and their descriptors, which the caller has to close."""
        with self._lock:
            new, self._new = self._new, {}
        return list(new.items())

    def closed(self) -> list[int]:
        """Segments that were given back since the last time. Their memory is free when all have closed them."""
        with self._lock:
            closed, self._closed = self._closed, []
        return closed

    def trim(self, now: float) -> None:
        """Gives back what is beyond the limit, and what has not been used for a while. `now` is in seconds."""
        with self._lock:
            empty = [*[slab for slab in self._slabs.values() if not slab.regions.taken], *self._free.values()]
            let_go: list[_Segment] = []
            kept: list[_Segment] = []
            for segment in empty:
                if segment.seen is None:
                    segment.seen = now
                (let_go if now - segment.seen >= IDLE else kept).append(segment)
            excess = sum([segment.held for segment in kept]) - self._spare
            for segment in kept[:-1]:
                if excess > 0:
                    excess -= segment.held
                    let_go.append(segment)
            self._give_back(let_go)

    def statistics(self) -> Statistics:
        with self._lock:
            slabs = self._slabs.values()
            used = sum([segment.held for segment in self._own.values()]) + sum([slab.regions.taken for slab in slabs])
            there = [*slabs, *self._own.values(), *self._free.values()]
            held = sum([segment.held for segment in there])
            return Statistics(len(there), self._objects, used, held - used)

    def close(self) -> None:
        """Gives back everything. Processes that have mapped objects keep them."""
        with self._lock:
            self._give_back([*self._slabs.values(), *self._own.values(), *self._free.values()])
        self._chores.wait()

    def _is_apart(self, size: int) -> bool:
        """Whether an object gets a segment of its own."""
        return size >= LARGE or (size >= MEDIUM and len(self._own) + len(self._free) < FEW)

    def _put_in_slab(self, views: list[memoryview], size: int) -> Place:
        with self._lock:
            for slab in self._slabs.values():
                offset = slab.regions.take(size)
                if offset is not None:
                    break
            else:
                slab = self._make_slab()
                offset = slab.regions.take(size)
                assert offset is not None
            slab.seen = None
        try:
            _prepare(slab, (offset + size + GROWTH - 1) // GROWTH * GROWTH)
        except OSError:
            with self._lock:
                slab.regions.give(offset, size)
            raise
        _fill(slab.memory, offset, views)
        return Place(slab.number, offset, size)

    def _make_slab(self) -> _Segment:
        with memory.sealed_file("onceflow-slab") as descriptor:
            os.ftruncate(descriptor, SLAB)
            mapped = Writable(descriptor, SLAB)
        slab = _Segment(next(self._numbers), mapped, 0)
        self._slabs[slab.number] = slab
        self._new[slab.number] = descriptor
        return slab

    def _put_apart(self, views: list[memoryview], size: int) -> Place:
        with self._lock:
            segment = self._fitting(size)
            if segment is None:  # what was only kept because it was freed last would stand in the way
                self._give_back([kept for kept in self._free.values() if kept.held > self._spare])
            else:
                del self._free[segment.number]
                self._own[segment.number] = segment
                segment.seen = None
        if segment is None:
            return Place(self._make_own(views, size).number, 0, size)
        try:
            _prepare(segment, whole_pages(size))
        except OSError:
            with self._lock:
                self._free[segment.number] = self._own.pop(segment.number)
            raise
        _fill(segment.memory, 0, views)
        return Place(segment.number, 0, size)

    def _fitting(self, size: int) -> _Segment | None:
        """The smallest one that is free and large enough, but for one of which more than half would be wasted. Among
        equals the one that was freed last: it may still be in the processor's cache."""
        free = reversed(self._free.values())
        fitting = [segment for segment in free if segment.memory.size >= size and segment.held <= 2 * size]
        return min(fitting, key=lambda segment: segment.held, default=None)

    def _make_own(self, views: list[memoryview], size: int) -> _Segment:
        room = whole_pages(size + size // 8)  # for one that is a little larger; what is not written takes no memory
        with memory.sealed_file("onceflow-object") as descriptor:
            os.ftruncate(descriptor, room)
            write_all(descriptor, views)
            mapped = Writable(descriptor, room)
        segment = _Segment(next(self._numbers), mapped, whole_pages(size))
        with self._lock:
            self._own[segment.number] = segment
            self._new[segment.number] = descriptor
        return segment

    def _give_back(self, segments: Iterable[_Segment]) -> None:
        for segment in list(segments):
            for kind in (self._slabs, self._own, self._free):
                kind.pop(segment.number, None)
            descriptor = self._new.pop(segment.number, None)
            if descriptor is None:
                self._closed.append(segment.number)
            else:
                os.close(descriptor)
            self._chores.add(segment.memory.close)


def _prepare(segment: _Segment, end: int) -> None:
    """Maps it up to there. Another thread may do the same meanwhile, which is harmless."""
    start = segment.mapped
    if start < end:
        segment.memory.populate(start, end - start)
        segment.held = max(end, segment.held)
        segment.mapped = max(end, segment.mapped)


def _fill(memory: Writable, offset: int, views: list[memoryview]) -> None:
    for view in views:
        for start in range(0, view.nbytes, STEP):
            step = view[start : start + STEP]
            memory.view[offset : offset + step.nbytes] = step
            offset += step.nbytes
