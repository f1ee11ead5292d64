"""The porter's process: a loop that decides, and threads for slow work.

Only the loop touches the tables. A thread is given a view of an object's memory and a place to write it to; what has to
be noted then, it hands back to the loop.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import traceback
from functools import partial
from pathlib import Path
from typing import NoReturn

from onceflow.data import memory
from onceflow.data.mapping import Segments
from onceflow.data.packets import Incoming, Outgoing
from onceflow.data.places import Place, whole_pages
from onceflow.data.porter.messages import (
    Count,
    Counted,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Free,
    Hello,
    Keep,
    Load,
    Refused,
    Reply,
    Request,
    Save,
    Saved,
    Spill,
    Spilled,
)
from onceflow.data.porter.spill_file import SpillFile
from onceflow.data.porter.startup import Start
from onceflow.data.porter.threads import Crew, Done
from onceflow.errors import StorageDamaged, StorageError
from onceflow.storage import checksums, failures
from onceflow.storage.blob_stores import open_store
from onceflow.storage.blobs import Blobs

RESERVED = 32
"""Descriptors that are left for its own work."""

MEMORY = Path("shared memory")
"""What errors say instead of a path."""

CONGESTED = 5
"""Milliseconds until an engine that had too much in its socket is tried again."""


def run(connection: socket.socket, start: Start, engine: int | None = None) -> NoReturn:
    """Everything a porter does, until the engine closes the other end or ends (`engine` is a pidfd of it). Does not
    return: threads that wait for the disk are left as they are."""
    try:
        _Porter(connection, start, engine).serve()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


class _Object:
    """Something that is kept."""

    __slots__ = ("checksum", "number", "place", "spilled")

    def __init__(self, number: int, place: Place) -> None:
        self.number = number
        self.place = place
        self.spilled = False
        self.checksum = 0
        """If it is spilled."""


class _Porter:
    def __init__(self, connection: socket.socket, start: Start, engine: int | None) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._incoming: Incoming[Request] = Incoming(connection, Request)
        self._outgoing = Outgoing(connection)
        self._engine = engine
        self._start = start
        self._highest = memory.raise_descriptor_limit() - RESERVED
        """The highest descriptor that may be kept. The system gives out the lowest ones first."""
        self._blobs = open_store(start.blobs)
        self._crew = Crew(far=not isinstance(self._blobs, Blobs))
        self._objects: dict[int, _Object] = {}
        self._descriptors: dict[int, int] = {}
        """Segment → descriptor."""
        self._doomed: list[int] = []
        """Descriptors that are closed as soon as everything is sent: some may be under way."""
        self._closing = 0
        """Descriptors that are being closed. The last one of a segment takes a while."""
        self._segments = Segments()
        """Those that were needed here."""
        self._loads = itertools.count(start.base + 1)
        """Numbers for the segments of blobs that are brought into memory."""
        self._spill: SpillFile | None = None
        self._saving: dict[int, int] = {}
        """Number of the request → bytes."""

    def serve(self) -> None:
        self._outgoing.add(Hello(os.getpid()), os.pidfd_open(os.getpid()))
        poll = select.poll()
        poll.register(self._crew.bell, select.POLLIN)
        if self._engine is not None:
            poll.register(self._engine, select.POLLIN)
        poll.register(self._connection, select.POLLIN)
        while True:
            try:
                sent = self._outgoing.send()
            except (BrokenPipeError, ConnectionResetError):
                return
            if sent and self._doomed:
                self._close_doomed()
            for descriptor, _ in poll.poll(None if sent else CONGESTED):
                if descriptor == self._crew.bell:
                    for done in self._crew.take():
                        done()
                elif descriptor == self._engine or not self._listen():
                    return

    def _close_doomed(self) -> None:
        doomed, self._doomed = self._doomed, []
        self._closing += len(doomed)

        def work() -> Done:
            for descriptor in doomed:
                os.close(descriptor)
            return lambda: self._closed(len(doomed))

        self._crew.add(0, work)

    def _closed(self, count: int) -> None:
        self._closing -= count

    def _listen(self) -> bool:
        """Whether a client is still connected."""
        received = self._incoming.receive()
        if received is None:
            return False
        for request, descriptor in received:
            self._handle(request, descriptor)
        return True

    def _handle(self, request: Request, descriptor: int | None) -> None:
        match request:
            case Keep(number, place):
                self._keep(number, place, descriptor)
            case Fetch(number, wanted):
                if (found := self._find(number, wanted)) is not None:
                    descriptor = self._descriptors[found.place.segment]
                    self._outgoing.add(Fetched(number, found.place), descriptor, lent=True)
            case Save():
                self._save(request)
            case Spill(number, wanted):
                self._move(number, wanted)
            case Load():
                self._load(request)
            case Free(objects):
                for freed in objects:
                    found = self._objects.pop(freed, None)
                    if found is not None and found.spilled:
                        self._spill_file().free(found.place)
            case Forget(segments):
                segments = [segment for segment in segments if segment != self._start.base]  # that is the porter's own
                self._segments.forget(segments)
                self._doomed += [self._descriptors.pop(segment) for segment in segments if segment in self._descriptors]
            case Count(number):
                self._reply(self._count(number))

    def _keep(self, number: int, place: Place, descriptor: int | None) -> None:
        if descriptor is not None:
            if place.segment in self._descriptors or descriptor > self._highest:
                os.close(descriptor)
            else:
                self._descriptors[place.segment] = descriptor
        if place.segment in self._descriptors:
            self._objects[number] = _Object(number, place)
        else:
            self._reply(Refused(number))

    def _save(self, request: Save) -> None:
        found = self._find(request.number, request.object)
        if found is None:
            return
        view = self._view(request.number, found.place)
        if view is None:
            return
        self._saving[request.number] = found.place.size

        def work() -> Done:
            reply: Reply
            try:
                if request.checksum not in (None, checksums.of_bytes([view])):
                    raise StorageDamaged(
                        self._start.spill, f"{request.name} was moved to disk, and is not what was written"
                    )
                reply = Saved(request.number, self._blobs.write(request.author, request.name, [view]))
            except StorageError as error:
                reply = _failed(request.number, error)
            return lambda: self._saved(request.number, reply)

        self._crew.add(found.place.size, work)

    def _saved(self, number: int, reply: Reply) -> None:
        del self._saving[number]
        self._reply(reply)

    def _load(self, request: Load) -> None:
        blobs = self._blobs
        assert not isinstance(blobs, Blobs)
        segment = next(self._loads)

        def work() -> Done:
            try:
                size = blobs.size(request.reference)
                descriptor = memory.filled("onceflow blob", size, partial(blobs.fill, request.reference))
            except StorageError as error:
                reply = _failed(request.number, error)
                return lambda: self._reply(reply)
            except OSError as error:
                reply = _failed(request.number, failures.from_system(error, MEMORY))
                return lambda: self._reply(reply)
            return lambda: self._outgoing.add(Fetched(request.number, Place(segment, 0, size)), descriptor)

        self._crew.add(0, work)

    def _move(self, number: int, wanted: int) -> None:
        found = self._find(number, wanted)
        if found is None:
            return
        if found.spilled:
            self._reply(Spilled(number, found.place, found.checksum))
            return
        folder = Path(self._start.spill)
        try:
            with failures.told(folder):
                file = self._spill_file()
        except StorageError as error:
            self._reply(_failed(number, error))
            return
        place = found.place
        view = self._view(number, Place(place.segment, place.offset, whole_pages(place.size)))
        if view is None:
            return
        target = file.reserve(place.size)

        def work() -> Done:
            checksum = checksums.of_bytes([view[: place.size]])
            try:
                with failures.told(folder):
                    file.write(target, view)
            except StorageError as error:
                reply = _failed(number, error)
                return lambda: self._not_moved(target, reply)
            return lambda: self._moved(number, found, target, checksum)

        self._crew.add(place.size, work)

    def _moved(self, number: int, moved: _Object, target: Place, checksum: int) -> None:
        if self._objects.get(moved.number) is not moved:
            self._not_moved(target, _no_such(number, moved.number))
        elif moved.spilled:  # it was asked for twice
            self._not_moved(target, Spilled(number, moved.place, moved.checksum))
        else:
            moved.place = target
            moved.spilled = True
            moved.checksum = checksum
            self._reply(Spilled(number, target, checksum))

    def _not_moved(self, target: Place, reply: Reply) -> None:
        self._spill_file().free(target)
        self._reply(reply)

    def _spill_file(self) -> SpillFile:
        if self._spill is None:
            self._spill = SpillFile(Path(self._start.spill), self._start.base)
            self._descriptors[self._spill.segment] = self._spill.readable
        return self._spill

    def _find(self, number: int, wanted: int) -> _Object | None:
        """The object. If there is none, that is the reply."""
        found = self._objects.get(wanted)
        if found is not None and found.place.segment in self._descriptors:
            return found
        self._reply(_no_such(number, wanted))
        return None

    def _view(self, number: int, place: Place) -> memoryview | None:
        """Its bytes. If they cannot be mapped, that is the reply."""
        try:
            if place.segment not in self._segments:
                self._segments.add(place.segment, os.dup(self._descriptors[place.segment]))
            return self._segments.map(place)
        except OSError as error:
            self._reply(_failed(number, failures.from_system(error, MEMORY)))
            return None

    def _count(self, number: int) -> Counted:
        there = [found.place.size for found in self._objects.values() if not found.spilled]
        spilled = [found.place.size for found in self._objects.values() if found.spilled]
        return Counted(
            number,
            objects=len(there),
            size=sum(there),
            spilled=len(spilled),
            spilled_size=sum(spilled),
            saving=len(self._saving),
            saving_size=sum(self._saving.values()),
            segments=len(self._descriptors) + len(self._doomed) + self._closing,
        )

    def _reply(self, reply: Reply) -> None:
        self._outgoing.add(reply)


def _failed(number: int, error: StorageError) -> Failed:
    run, task = (error.run, error.task) if isinstance(error, StorageDamaged) else (None, None)
    return Failed(number, error.path, error.reason, type(error).__name__, run, task)


def _no_such(number: int, wanted: int) -> Failed:
    return Failed(number, str(MEMORY), f"the porter does not keep object {wanted}")
