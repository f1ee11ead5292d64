"""The objects that an engine knows: large values, and which process may reuse their memory.

An *object* is kept as long as it has a holder in the engine's process: a run that may read it, an attempt that reads
it, a save, a user that waits for a result. Python counts the references, so objects need no explicit release: its last
holder lets it go, from whatever thread, and the next `collect` notifies its maker.

An object is *live* until a process other than its maker needs it: then it is published, and has a place from there on.

A *segment* is the memory or the file that an object is in. It is open here as long as there are objects in it, and as
long as its maker may put more into it.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from onceflow.data.background import Chores
from onceflow.data.places import Live, Place
from onceflow.storage import checksums


class Object:
    """A packed value (`values.packed_outputs`), in shared memory or in that of its maker."""

    __slots__ = ("__weakref__", "_shelf", "checksum", "freed", "live", "lost", "maker", "place", "size", "used")

    def __init__(self, shelf: Shelf, where: Place | Live, maker: int = 0) -> None:
        self._shelf = shelf
        self.place: Place | None = None
        """Where in shared memory it is, if it is there."""
        self.live: Live | None = None
        """Its number in its maker, if that keeps it in its own memory."""
        if isinstance(where, Live):
            self.live = where
        else:
            self.place = where
        self.maker = maker
        """The process id of the worker that made it live, or 0."""
        self.size = where.size
        """Bytes."""
        self.checksum: int | None = None
        """Of its bytes, if it was moved to disk: a reader compares them first."""
        self.lost = False
        """Whether it is gone, although it still has holders."""
        self.used = time.monotonic()
        """When it was last asked for."""
        self.freed: Callable[[], None] | None = None
        """Called when it is no longer needed, if set."""

    @property
    def where(self) -> Place | Live:
        """How it is named to a worker that is to read it. Of a live one only its maker knows."""
        found = self.place or self.live
        assert found is not None
        return found

    def map(self) -> memoryview:
        """Its bytes, without a copy. They may be written to: no other process sees that. It must have been
        published."""
        assert self.place is not None
        return self._shelf.map(self.place)

    def is_whole(self) -> bool:
        """Whether its bytes are those that were moved to disk, if they were. Reads all of them. From any thread."""
        return self.checksum is None or checksums.of_bytes([self.map()]) == self.checksum

    def __del__(self) -> None:
        self._shelf.let_go(self)


class HeldRef(msgspec.Struct, frozen=True, gc=False):
    """A ref in the output of an attempt."""

    holders: Sequence[int]
    """The parts that hold it."""
    origin: int
    """Its place among the refs that the attempt was given; -1 if it has made it."""
    content: bytes | Object | None
    """What it refers to, if the attempt has made it. Of an actor: the snapshot that was taken, if one was."""
    actor: Any = None
    """The actor that lives, if it is one."""


class Segment:
    """One that is open here."""

    __slots__ = ("descriptor", "maker", "objects", "on_disk")

    def __init__(self, descriptor: int, maker: int | None, *, on_disk: bool) -> None:
        self.descriptor = descriptor
        self.on_disk = on_disk
        self.maker = maker
        """The process id of the worker that may put more objects into it; None if none may."""
        self.objects = 0


class Shelf:
    """Belongs to one thread, which calls everything but what says otherwise, and looks now and then whether there is
    something to `collect`."""

    lives_here = True
    """Whether live objects take memory of this host."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self._objects: weakref.WeakValueDictionary[tuple[int, int], Object] = weakref.WeakValueDictionary()
        self._live: weakref.WeakValueDictionary[int, Object] = weakref.WeakValueDictionary()
        """Number → object that has no place yet."""
        self.dropped: deque[tuple[Place | None, Live | None, int, Callable[[], None] | None]] = deque()
        """Objects without holders, until the next `collect`."""
        self.closed_here: list[int] = []
        """Segments that were closed since the last query."""
        self._files = 0
        self._chores = Chores()
        self._mapping = threading.Lock()
        """Held while a descriptor is closed or duplicated, because others map objects, too."""
        self.size = 0
        """Bytes of all objects in memory."""
        self.segments = 0
        """How many are open here that are in memory."""
        self.on_closed: Callable[[list[int]], None] | None = None
        """Notified of the segments that were closed here."""

    def open(self, segment: int, descriptor: int, maker: int | None, *, on_disk: bool = False) -> None:
        """The descriptor belongs to the shelf from now on."""
        if segment in self._segments:
            os.close(descriptor)
        else:
            self._segments[segment] = Segment(descriptor, maker, on_disk=on_disk)
            self.segments += not on_disk

    def add(self, place: Place) -> Object:
        """An object that its maker has put there."""
        found = Object(self, place)
        segment = self._segments[place.segment]
        segment.objects += 1
        self._objects[place.segment, place.offset] = found
        if not segment.on_disk:
            self.size += place.size
        return found

    def add_live(self, live: Live, maker: int) -> Object:
        """An object that its maker has in its own memory."""
        found = self._live[live.number] = Object(self, live, maker)
        if self.lives_here:
            self.size += live.size
        return found

    def settle(self, object: Object, place: Place) -> None:
        """A live object was published."""
        assert object.live is not None
        del self._live[object.live.number]
        object.place = place
        self._segments[place.segment].objects += 1
        self._objects[place.segment, place.offset] = object
        if not self.lives_here:
            self.size += object.size

    def settle_in(self, object: Object, descriptor: int) -> None:
        """The same for a live object that was written to a segment of its own."""
        self._files += 1
        self.open(self._files, descriptor, None)
        self.settle(object, Place(self._files, 0, object.size))

    def find_live(self, number: int) -> Object | None:
        """One that has no place yet."""
        return self._live.get(number)

    def live_at(self, maker: int) -> list[Object]:
        """What only this worker has."""
        return [object for object in list(self._live.values()) if object.maker == maker]

    def add_file(self, descriptor: int, size: int) -> Object:
        """A file that has nothing but a packed value in it, and will not change."""
        self._files += 1
        self.open(self._files, descriptor, None, on_disk=True)
        return self.add(Place(self._files, 0, size))

    def add_memory(self, descriptor: int, size: int) -> Object:
        """The same for a segment in memory."""
        self._files += 1
        self.open(self._files, descriptor, None)
        return self.add(Place(self._files, 0, size))

    def move(
        self, object: Object, place: Place, descriptor: int, freed: Callable[[], None], checksum: int | None = None
    ) -> None:
        """It is in a file now, with this checksum, and its memory may be reused. `freed` is called when it is no longer
        needed. It must have no readers."""
        self.open(place.segment, descriptor, None, on_disk=True)
        assert object.place is not None
        self._objects.pop((object.place.segment, object.place.offset), None)
        self.dropped.append((object.place, object.live, object.maker, None))
        object.place, object.live, object.freed, object.checksum = place, None, freed, checksum
        self._segments[place.segment].objects += 1
        self._objects[place.segment, place.offset] = object

    def resting(self) -> list[Object]:
        """All that is in memory."""
        placed = [object for (number, _), object in list(self._objects.items()) if not self._segments[number].on_disk]
        return [*placed, *list(self._live.values())] if self.lives_here else placed

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

    def let_go(self, object: Object) -> None:
        """The object has no holders left. From any thread, at any moment: so without a lock."""
        self.dropped.append((object.place, object.live, object.maker, object.freed))

    def collect(self) -> dict[int, list[Place | Live]]:
        """What was let go: for each maker that may use the memory again, what that is. It may be gone."""
        freed: dict[int, list[Place | Live]] = {}
        while self.dropped:
            place, live, maker, when_freed = self.dropped.popleft()
            if when_freed is not None:
                when_freed()
            if live is not None:
                freed.setdefault(maker, []).append(live)
                if place is None and self.lives_here:
                    self.size -= live.size
            if place is None:
                continue
            segment = self._segments[place.segment]
            segment.objects -= 1
            if not segment.on_disk:
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
        """The segments that were closed since this was last asked: no process will be sent a place in them again."""
        found, self.closed_here = self.closed_here, []
        if found and self.on_closed is not None:
            self.on_closed(found)
        return found

    def close(self) -> None:
        """Objects that are still held cannot be mapped any more."""
        for number in list(self._segments):
            self._close(number)
        self._chores.wait()

    def _close(self, number: int) -> None:
        with self._mapping:
            segment = self._segments.pop(number)
        # The last process to close it gives the memory back, which takes milliseconds.
        self._chores.add(partial(os.close, segment.descriptor))
        self.segments -= not segment.on_disk
        self.closed_here.append(number)
