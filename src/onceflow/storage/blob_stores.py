"""All blobs of a home: those in its own folder, and those in the object store that was configured, if any.

What is written goes to the chosen place. References to it are whole URLs: so they are distinct from references to the
own folder, and both can be read whatever is chosen later. In the chosen place each journal has a folder of its own: two
that share a bucket never meet, and neither takes the other's blobs for orphans.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from onceflow.errors import StorageError
from onceflow.storage import blob_urls
from onceflow.storage.blobs import Author, Blobs, File, Statistics
from onceflow.storage.object_store import ObjectStoreBlobs
from onceflow.values.buffers import Buffer

REST = 60.0
"""Seconds in which nothing is discarded after that has failed."""

LAST_WAIT = 5.0
"""Seconds for what has yet to be discarded in the end."""

logger = logging.getLogger(__name__)


class Stores:
    """Thread-safe. `chosen` is a URL without the folder of the journal, `journal` the identity of that. `appear` makes
    sure that engines elsewhere, which use the same place, know that this one is alive. `trusted_owners` are users whose
    files are trusted."""

    def __init__(
        self,
        folder: Path,
        chosen: str | None = None,
        journal: str = "",
        appear: Callable[[], None] = lambda: None,
        trusted_owners: Collection[int] = (),
    ) -> None:
        self.target = str(folder) if chosen is None else blob_urls.below(chosen, journal)
        """Where blobs are written, as `open_store` takes it."""
        self._own = Blobs(folder, trusted_owners=trusted_owners)
        self._chosen: Blobs | ObjectStoreBlobs | None = None
        if chosen is not None:
            self._chosen = open_store(self.target, trusted_owners)
        self._url = blob_urls.without_options(self.target) + "/"
        self._appear = appear
        self._discarding = Discarding(self.delete)

    def write(self, author: Author, name: str, buffers: Sequence[Buffer]) -> str:
        """Writes the buffers one after the other. Returns the reference once the blob is durable."""
        self.announce()
        return (self._chosen or self._own).write(author, name, buffers)

    def announce(self) -> None:
        """Something will be written. It must not be taken for an orphan while its author lives, so that must be known
        before."""
        if self._chosen is not None:
            self._appear()

    @property
    def any_far(self) -> bool:
        """Whether there may be blobs that are no files."""
        return isinstance(self._chosen, ObjectStoreBlobs)

    def may_have_some(self) -> bool:
        """Whether it is worth looking for blobs."""
        return self._chosen is not None or bool(self._own.folders())

    def is_near(self, reference: str) -> bool:
        """Whether it is a file, which can be opened at once."""
        return isinstance(self._of(reference), Blobs)

    def open(self, reference: str) -> BinaryIO:
        """One that is near. Its content is not looked at."""
        store = self._of(reference)
        assert isinstance(store, Blobs)
        return store.open(reference)

    def open_checked(self, reference: str) -> BinaryIO:
        """One that is near. Reads it once."""
        store = self._of(reference)
        assert isinstance(store, Blobs)
        return store.open_checked(reference)

    def check(self, reference: str) -> int:
        """Reads it once. How many bytes it has."""
        return self._of(reference).check(reference)

    def read(self, reference: str) -> bytes:
        return self._of(reference).read(reference)

    def map(self, reference: str) -> memoryview:
        """The blob's bytes. They may be written to, which no other process sees, and stay readable even if the blob is
        deleted meanwhile."""
        return self._of(reference).map(reference)

    def delete(self, reference: str) -> None:
        """Deleting what is not there is harmless."""
        self._of(reference).delete(reference)

    def discard(self, reference: str) -> None:
        """Deletes it without a wait and without a complaint, in a thread if it is far. What is not deleted is an
        orphan."""
        if self.is_near(reference):
            self.delete(reference)
        else:
            self._discarding.add(reference)

    def delete_run(self, run: str) -> None:
        """Deletes all blobs of a run. The journal must have forgotten the run before."""
        for store in self._all():
            store.delete_run(run)

    def folders(self) -> list[str]:
        """The runs that have blobs."""
        return list(dict.fromkeys([run for store in self._all() for run in store.folders()]))

    def files(self, run: str) -> Iterator[File]:
        for store in self._all():
            yield from store.files(run)

    def by_run(self) -> Iterator[tuple[str, list[File]]]:
        """All files. A run may come more than once."""
        for store in self._all():
            yield from store.by_run()

    def remove_folder(self, run: str) -> None:
        """If it is empty."""
        for store in self._all():
            store.remove_folder(run)

    def statistics(self) -> Statistics:
        return (self._chosen or self._own).statistics()

    def note_written(self, size: int) -> None:
        """Another process has written one on behalf of this."""
        (self._chosen or self._own).note_written(size)

    def probe(self) -> None:
        """Tries whether the chosen place can be used. Raises what goes wrong."""
        if self._chosen is not None and not isinstance(self._chosen, Blobs):
            self._chosen.probe()

    def close(self) -> None:
        """Waits for what was discarded."""
        self._discarding.close()

    def _all(self) -> list[Blobs | ObjectStoreBlobs]:
        return [self._own] if self._chosen is None else [self._own, self._chosen]

    def _of(self, reference: str) -> Blobs | ObjectStoreBlobs:
        if "://" not in reference:
            return self._own
        if self._chosen is None or not reference.startswith(self._url):
            here = "no other place is chosen for blobs" if self._chosen is None else f"blobs are kept at {self._url}"
            raise StorageError(reference, f"a saved value is there, but {here} (the setting `blobs`)")
        return self._chosen


class Discarding:
    """Deletes in a thread. After a failure it does nothing for a while: whatever is left is an orphan."""

    def __init__(self, delete: Callable[[str], None]) -> None:
        self._delete = delete
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """None at the end."""
        self._thread: threading.Thread | None = None
        self._resting = 0.0
        """Until this time, by the monotonic clock."""

    def add(self, reference: str) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="onceflow discarder", daemon=True)
                self._thread.start()
        self._waiting.put(reference)

    def close(self) -> None:
        """Waits until all is done, but not for long."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(LAST_WAIT)

    def _work(self) -> None:
        while (reference := self._waiting.get()) is not None:
            if time.monotonic() >= self._resting:
                self._discard(reference)

    def _discard(self, reference: str) -> None:
        try:
            self._delete(reference)
        except StorageError as error:
            self._resting = time.monotonic() + REST
            logger.info("a value that is needed no longer was not deleted: %s", error)


def open_store(target: str, trusted_owners: Collection[int] = ()) -> Blobs | ObjectStoreBlobs:
    """What blobs are written to: a folder by its path, or a place by its URL."""
    if "://" not in target:
        return Blobs(Path(target), trusted_owners=trusted_owners)
    if target.startswith("file:"):
        return blob_urls.open_folder(target, trusted_owners)
    return blob_urls.open_object_store(target)
