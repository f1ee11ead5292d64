"""The objects that an engine knows: values in shared memory, and who may use that memory again.

An *object* is as long there as somebody in the engine's process holds it: a run that may read it, an attempt that
reads it, a save, a person who waits for a result. Python counts who does, so nobody has to say when an object is
needed no longer: its last holder lets it go, from whatever thread, and the next `collect` tells its maker.

A *segment* is the memory or the file that an object is in. It is open here as long as there are objects in it, and as
long as its maker may put more into it.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from onceflow.data.places import Place


class Object:
    """A packed value (`values.packing`) in shared memory."""

    __slots__ = ("__weakref__", "_shelf", "lost", "offset", "segment", "size")

    def __init__(self, shelf: Shelf, place: Place) -> None:
        self._shelf = shelf
        self.segment = place.segment
        self.offset = place.offset
        self.size = place.size
        """Bytes."""
        self.lost = False
        """Whether it is no more, although somebody holds it."""

    @property
    def place(self) -> Place:
        return Place(self.segment, self.offset, self.size)

    def map(self) -> memoryview:
        """Its bytes, without a copy. They may be written to: nobody else sees that."""
        return self._shelf.map(self.place)

    def __del__(self) -> None:
        self._shelf.let_go(self.place)


class HeldRef(msgspec.Struct, frozen=True, gc=False):
    """A ref in the output of an attempt."""

    holders: Sequence[int]
    """The parts that hold it."""
    origin: int
    """Its place among the refs that the attempt was given; -1 if it has made it."""
    content: bytes | Object | None
    """What it refers to, if the attempt has made it."""


class Segment:
    """One that is open here."""

    __slots__ = ("descriptor", "maker", "objects")

    def __init__(self, descriptor: int, maker: int | None) -> None:
        self.descriptor = descriptor
        self.maker = maker
        """The process id of the worker that may put more objects into it; None if nobody may."""
        self.objects = 0


class Shelf:
    """Belongs to one thread, which calls everything but what says otherwise, and looks now and then whether there is
    something to `collect`."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self._objects: weakref.WeakValueDictionary[tuple[int, int], Object] = weakref.WeakValueDictionary()
        self._let_go: deque[Place] = deque()
        self._closed: list[int] = []
        """Segments that were closed since somebody asked."""
        self._files = 0
        self._mapping = threading.Lock()
        """Held while a descriptor is closed or duplicated, because others map objects, too."""
        self.size = 0
        """Bytes of all objects."""

    def open(self, segment: int, descriptor: int, maker: int | None) -> None:
        """The descriptor belongs to the shelf from now on."""
        if segment in self._segments:
            os.close(descriptor)
        else:
            self._segments[segment] = Segment(descriptor, maker)

    def add(self, place: Place) -> Object:
        """An object that its maker has put there."""
        found = Object(self, place)
        self._segments[place.segment].objects += 1
        self._objects[place.segment, place.offset] = found
        self.size += place.size
        return found

    def add_file(self, descriptor: int, size: int) -> Object:
        """A file that has nothing but a packed value in it, and will not change."""
        self._files += 1
        self.open(self._files, descriptor, None)
        return self.add(Place(self._files, 0, size))

    def find(self, segment: int, offset: int) -> Object | None:
        return self._objects.get((segment, offset))

    def descriptor(self, segment: int) -> int:
        return self._segments[segment].descriptor

    def map(self, place: Place) -> memoryview:
        """From any thread."""
        with self._mapping:
            descriptor = os.dup(self._segments[place.segment].descriptor)
        try:
            return memoryview(mmap.mmap(descriptor, place.size, access=mmap.ACCESS_COPY, offset=place.offset))
        finally:
            os.close(descriptor)

    def let_go(self, place: Place) -> None:
        """Nobody holds the object any more. From any thread, at any moment: so without a lock."""
        self._let_go.append(place)

    def collect(self) -> dict[int, list[Place]]:
        """What was let go: for each maker that may use the memory again, what that is."""
        freed: dict[int, list[Place]] = {}
        while self._let_go:
            place = self._let_go.popleft()
            segment = self._segments[place.segment]
            segment.objects -= 1
            self.size -= place.size
            if segment.maker is not None:
                freed.setdefault(segment.maker, []).append(place)
            elif not segment.objects:
                self._close(place.segment)
        return freed

    def give_up(self, maker: int, segments: Iterable[int] | None = None) -> None:
        """Their maker will put nothing more into these segments; by default into any."""
        for number in list(self._segments) if segments is None else segments:
            segment = self._segments.get(number)
            if segment is not None and segment.maker == maker:
                segment.maker = None
                if not segment.objects:
                    self._close(number)

    def closed(self) -> list[int]:
        """The segments that were closed since this was last asked: nobody will be sent a place in them again."""
        found, self._closed = self._closed, []
        return found

    def close(self) -> None:
        """Objects that are still held cannot be mapped any more."""
        for number in list(self._segments):
            self._close(number)

    def _close(self, number: int) -> None:
        with self._mapping:
            os.close(self._segments.pop(number).descriptor)
        self._closed.append(number)
