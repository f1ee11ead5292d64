"""Attempts that wait for saved values: until these have been checked, or fetched from a remote store.

A blob in the home directory is a file, and readers map it; before that it is read once, and compared with its
checksum. One in an object store is brought into shared memory, and checked there (`object_budget`). The loop waits for
neither: until then the attempt has not started. What several attempts read is brought once, and stays while one of them
holds it. If it is damaged, the run is interrupted, and no worker ever sees it.

What was moved to disk to make room is compared with its checksum in the same way. If that is damaged, it is a lost
object: it is made anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from onceflow.data.objects import Object
from onceflow.driver.actors import Version
from onceflow.driver.outputs import Blob, Part

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.work import Work
    from onceflow.errors import StorageError

Loaded = Callable[["Object | StorageError"], None]
Load = Callable[[str, Loaded], None]
Start = Callable[["Driver", "Work"], None]
Check = Callable[[Object, Callable[[bool], None]], None]
"""Calls back with whether an object that was moved to disk is whole."""


class Fetching:
    """Belongs to the engine's loop. `is_near` returns whether a blob can be read where it is, `load` brings one,
    checked, and `start` starts an attempt that has all it reads. `check` looks at objects that were moved to disk, and
    `lose` is called with those that are damaged."""

    def __init__(
        self,
        is_near: Callable[[str], bool],
        load: Load,
        start: Start,
        check: Check,
        lose: Callable[[list[Object]], None],
    ) -> None:
        self.is_near = is_near
        self._load = load
        self._start = start
        self._check = check
        self._lose = lose
        self._here: weakref.WeakValueDictionary[str, Object] = weakref.WeakValueDictionary()
        self._coming: dict[str, list[Loaded]] = {}
        """References that are being loaded, and what waits for them."""
        self.waiting: dict[tuple[Driver, int], Work] = {}
        """Attempts that wait."""

    def holds_back(self, driver: Driver, work: Work) -> bool:
        """Whether it waits for something. Then it is started later, with objects instead of blobs, or its driver is
        notified why not."""
        if work.refs is None and not work.inputs:
            return False
        parts = [part for part in _parts(work) if not isinstance(part, bytes)]
        if not parts:
            return False
        wanted = {part.reference for part in parts if isinstance(part, Blob)}
        on_disk = _on_disk(parts)
        if not wanted and not on_disk:
            return False
        seen: set[Object] = set()
        self.waiting[driver, work.attempt] = work
        objects: dict[str, Object] = {}

        def arrived(reference: str, found: Object | StorageError) -> None:
            if self.waiting.get((driver, work.attempt)) is not work or driver.over:
                self.waiting.pop((driver, work.attempt), None)
            elif isinstance(found, Object):
                objects[reference] = found
                start_if_all_are_here()
            else:
                del self.waiting[driver, work.attempt]
                driver.interrupt(found)

        def checked(object: Object, is_whole: bool) -> None:
            on_disk.discard(object)
            if not is_whole and not object.lost:
                self._lose([object])  # attempts that read it are answered as ended, when they are to be started
            if self.waiting.get((driver, work.attempt)) is work and not driver.over:
                start_if_all_are_here()
            else:
                self.waiting.pop((driver, work.attempt), None)

        def start_if_all_are_here() -> None:
            if len(objects) == len(wanted) and not on_disk:
                on_disk.update(_on_disk(parts) - seen)  # some may have been moved meanwhile
                if on_disk:
                    check()
                else:
                    del self.waiting[driver, work.attempt]
                    self._start(driver, _with(work, objects))

        def check() -> None:
            seen.update(on_disk)
            for object in list(on_disk):
                self._check(object, partial(checked, object))

        check()
        for reference in wanted:
            self._fetch(reference, partial(arrived, reference))
        return True

    def has(self, driver: Driver, attempt: int) -> bool:
        return (driver, attempt) in self.waiting

    def stop(self, driver: Driver, attempt: int) -> Work | None:
        """An attempt that waits need not start any more. None if it does not wait."""
        return self.waiting.pop((driver, attempt), None)

    def has_any_of(self, run: str) -> bool:
        """From any thread."""
        return any(driver.id == run for driver, _ in list(self.waiting))

    def here(self, reference: str) -> Object | None:
        """A blob that was brought and is still held."""
        found = self._here.get(reference)
        return None if found is None or found.lost else found

    def _fetch(self, reference: str, then: Loaded) -> None:
        found = self.here(reference)
        if found is not None:
            then(found)
        elif reference in self._coming:
            self._coming[reference].append(then)
        else:
            self._coming[reference] = [then]
            self._load(reference, partial(self._came, reference))

    def _came(self, reference: str, found: Object | StorageError) -> None:
        if isinstance(found, Object):
            self._here[reference] = found
        for then in self._coming.pop(reference):
            then(found)


def _parts(work: Work) -> list[Part]:
    """What it reads, and what the actors are restored from that do not live."""
    if work.refs is None:
        return work.inputs
    actors = [part for part in work.refs.contents if isinstance(part, Version)]
    restored = [actor.snapshot for actor in actors if actor.instance is None or actor.instance.dead]
    return [*work.inputs, *work.refs.contents, *[snapshot for snapshot in restored if snapshot is not None]]


def _on_disk(parts: Sequence[Part]) -> set[Object]:
    """Those that were moved to disk, and are there."""
    return {part for part in parts if isinstance(part, Object) and part.checksum is not None and not part.lost}


def _with(work: Work, objects: dict[str, Object]) -> Work:
    def exchanged(parts: list[Part]) -> list[Part]:
        return [objects.get(part.reference, part) if isinstance(part, Blob) else part for part in parts]

    refs = work.refs
    if refs is not None:
        refs = msgspec.structs.replace(refs, contents=exchanged(refs.contents))
    return msgspec.structs.replace(work, inputs=exchanged(work.inputs), refs=refs)
