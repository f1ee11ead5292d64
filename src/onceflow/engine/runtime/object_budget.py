"""Large values without readers: they are saved, and spilled to disk when memory is needed.

A porter does both (`data.porter`). It is started when it is first needed, works on what it is lent, and holds nothing
that is not held here as well: an object that was moved to disk is in a file that this process has open, too. So if the
porter dies, nothing is lost; the next one does what was left undone.

**Memory.** Objects may take so many bytes, and so many descriptors, and each may wait for so long. Beyond that, those
that were not used for the longest time are moved to disk, unless an attempt reads them just now.

**Back-pressure.** If saving falls behind, no attempts are started until it has caught up: each would only make more to
be saved.
"""

from __future__ import annotations

import itertools
import logging
import os
import selectors
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from onceflow.data.porter.messages import Failed, Fetched, Saved, Spilled
from onceflow.data.porter.startup import Start
from onceflow.errors import StorageError

if TYPE_CHECKING:
    from onceflow.data.objects import Object
    from onceflow.data.porter.client import Open, Porter
    from onceflow.engine.runtime.pool_executor import Workers
    from onceflow.storage.blobs import Author

logger = logging.getLogger(__name__)

LOOK = 0.2
"""Seconds between two looks at what is there."""

MOST_SEGMENTS = 300
"""Descriptors that objects may take in this process, which has other uses for them."""

BEHIND = 256 * 1024 * 1024
"""Bytes that wait for being saved when attempts begin to wait for that; or a part of the memory for objects, if that is
more."""

MOST_TRIES = 10
"""Porters that may die while they do the same before it is given up."""

SEGMENTS = 1 << 61
"""The number of the first segment that a porter makes. Those of workers are smaller."""

Then = Callable[[str | StorageError], None]


class ObjectStatistics(msgspec.Struct, frozen=True):
    """Large values that an engine knows. In bytes."""

    memory: int
    """Of those that are in memory now."""
    moved: int
    """Of those that were moved to disk because memory was wanted."""
    saving: int
    """Of those that are being saved, or wait for it."""


class Keeping:
    """Belongs to the engine's loop. `blobs` is where is saved, `budget` is in bytes, `patience` in seconds."""

    def __init__(
        self,
        workers: Workers,
        selector: selectors.BaseSelector,
        *,
        blobs: str,
        spill: Path,
        budget: int,
        patience: float,
    ) -> None:
        self._workers = workers
        self._pool = workers.pool
        self.shelf = workers.pool.shelf
        self._selector = selector
        self._folders = (blobs, str(spill))
        self._budget = budget
        self._patience = patience
        self.porter: Porter | None = None
        self._porters = 0
        """How many there have been."""
        self._numbers = itertools.count(1)
        self._open: dict[int, Callable[[], None]] = {}
        """Number under which the porter has an object → what to do if the porter dies before it has answered."""
        self._known: set[int] = set()
        """Segments that the porter has."""
        self._moving: set[Object] = set()
        """Objects on their way to disk."""
        self._looked = 0.0
        self._saving = self._moved = 0
        self.shelf.on_closed = self._forget

    def statistics(self) -> ObjectStatistics:
        return ObjectStatistics(self.shelf.size, self._moved, self._saving)

    @property
    def behind(self) -> bool:
        """Whether there is too much to be saved."""
        return self._saving > max(BEHIND, self._budget // 4)

    def save(self, object: Object, author: Author, name: str, then: Then) -> None:
        """Makes a blob of an object in shared memory, then calls `then` with its reference, or with why there is
        none."""
        self._note_saving(object.size)
        self._save(object, author, name, then, 1)

    def _note_saving(self, size: int) -> None:
        self._saving += size
        self._pool.paused = self.behind

    def _save(self, object: Object, author: Author, name: str, then: Then, tries: int) -> None:
        def done(reply: Saved | Failed, _: int | None) -> None:
            del self._open[number]
            porter.free([number])
            end(reply.reference if isinstance(reply, Saved) else reply.error())

        def end(result: str | StorageError) -> None:
            self._note_saving(-object.size)
            then(result)

        def again() -> None:
            if tries < MOST_TRIES:
                self._save(object, author, name, then, tries + 1)
            else:
                end(StorageError(self._folders[0], f"{tries} processes died while they saved {name}"))

        porter, number = self._lend(object, again)
        porter.save(number, author, name, done, object.checksum)

    def load(self, reference: str, then: Callable[[Object | StorageError], None], tries: int = 1) -> None:
        """Brings a blob that is no file into shared memory, then calls `then` with the object, or with why there is
        none."""

        def done(reply: Fetched | Failed, descriptor: int | None) -> None:
            del self._open[number]
            if isinstance(reply, Failed):
                then(reply.error())
            elif descriptor is None:
                then(StorageError(reference, "this process may have no more open files"))
            else:
                self.shelf.open(reply.place.segment, descriptor, None)
                then(self.shelf.add(reply.place))

        def again() -> None:
            if tries < MOST_TRIES:
                self.load(reference, then, tries + 1)
            else:
                then(StorageError(reference, f"{tries} processes died while they read it"))

        number = next(self._numbers)
        self._open[number] = again
        self._started().load(reference, done)

    def turn(self) -> float | None:
        """Moves what there is no room for, and sends what is wanted. Returns the seconds until it should be called
        again."""
        now = time.monotonic()
        if self.shelf.size > self._budget or self.shelf.segments > MOST_SEGMENTS or now - self._looked > LOOK:
            self._looked = now
            self._make_room(now)
        wait = None if self.porter is None else self.porter.turn()
        return wait if not self.shelf.size else LOOK if wait is None else min(wait, LOOK)

    def _make_room(self, now: float) -> None:
        moving = sum([object.size for object in self._moving])
        excess = self.shelf.size - moving - self._budget
        surplus = self.shelf.segments - len(self._moving) - MOST_SEGMENTS
        old = now - self._patience
        resting = [object for object in self.shelf.resting() if object not in self._moving]
        if excess <= 0 and surplus <= 0 and not any(object.used < old for object in resting):
            return
        busy = self._workers.objects_in_use()
        for object in sorted(resting, key=lambda object: object.used):
            if excess <= 0 and surplus <= 0 and object.used >= old:
                break
            if object not in busy:
                excess -= object.size
                surplus -= 1
                self._moving.add(object)
                if object.place is None:
                    self._workers.publish(object, partial(self._published, object))
                else:
                    self._move(object)

    def _published(self, object: Object, problem: OSError | None) -> None:
        if problem is None and not object.lost:
            self._move(object)
        else:
            self._moving.discard(object)

    def _move(self, object: Object) -> None:
        def done(reply: Spilled | Failed, _: int | None) -> None:
            if isinstance(reply, Spilled):
                porter.fetch(number, partial(fetched, reply.checksum))
            else:
                logger.warning("a large value stays in memory, because it cannot be moved to disk: %s", reply.error())
                object.used = time.monotonic()  # do not try again at once
                end()

        def fetched(checksum: int, reply: Fetched | Failed, descriptor: int | None) -> None:
            if isinstance(reply, Fetched) and descriptor is not None:
                if object in self._workers.objects_in_use() or object.lost:
                    os.close(descriptor)  # it is needed in memory after all
                    end()
                    return
                freed = partial(self._free, self._porters, number)
                self.shelf.move(object, reply.place, descriptor, freed, checksum)
                self._moved += object.size
                self._moving.discard(object)
                del self._open[number]
            else:
                end()

        def end() -> None:
            del self._open[number]
            porter.free([number])
            self._moving.discard(object)

        porter, number = self._lend(object, lambda: self._moving.discard(object))
        porter.spill(number, done)

    def _free(self, porter: int, number: int) -> None:
        """An object that was moved to disk is needed no longer."""
        if porter == self._porters and self.porter is not None:
            self.porter.free([number])

    def close(self) -> None:
        if self.porter is not None:
            self.porter.close()
            self.porter = None

    def _lend(self, object: Object, again: Callable[[], None]) -> tuple[Porter, int]:
        """Lets the porter have an object. Returns the number by which the porter knows it."""
        place = object.place
        assert place is not None
        porter = self._started()
        number = next(self._numbers)
        self._open[number] = again
        descriptor = None
        if place.segment not in self._known:
            self._known.add(place.segment)
            descriptor = os.dup(self.shelf.descriptor(place.segment))
        porter.keep(number, place, descriptor)
        return porter, number

    def _started(self) -> Porter:
        if self.porter is None:
            from onceflow.data.porter.client import Porter  # many engines never need one

            self._porters += 1
            start = Start(*self._folders, SEGMENTS + (self._porters << 32))
            self.porter = Porter(
                self._selector,
                lambda connection: self._pool.start_porter(start, connection),
                lost=self._died,
                refused=self._refused,
            )
        return self.porter

    def _died(self, _: Open) -> None:
        logger.warning("the porter died; another one does what it has left")
        self.porter = None
        self._known.clear()
        open, self._open = self._open, {}
        for again in open.values():
            again()

    def _refused(self, number: int) -> None:
        """It has no descriptor left: what is asked of it about this object fails, and that is reported there."""

    def _forget(self, segments: list[int]) -> None:
        """These are closed here."""
        known = [segment for segment in segments if segment in self._known]
        self._known.difference_update(known)
        if known and self.porter is not None:
            self.porter.forget(known)
