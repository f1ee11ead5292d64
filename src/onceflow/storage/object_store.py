"""Blobs in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure, or memory.

There is no rename there and none is needed: a put is all or nothing. A blob is put under its final name on the
condition that nothing has it (`If-None-Match: *`). That matters when an answer is lost: a retry gets the answer that
the name is taken, looks, and finds the blob that it has put itself. (It has to look: S3 answers the same when two
requests meet and neither has left anything.) The name has run, epoch, engine, attempt, size and checksum in it, so
other writers can only put the same bytes there. Large blobs are put in parts, several at a time, read where they are;
they appear when the last part is there. That has no condition, and does without: the bytes are the same.

Large ones are read in ranges, several at a time, into the memory that they are wanted in.

What fails in passing (an error of the server, a connection that was cut, a time-out) is tried again, with growing
pauses, until patience is at an end. Then it is an error that names the blob; nothing counts that the journal does not
name, and it names nothing that was not answered.

Parts of a blob that was never finished are invisible and have no owner. They are taken back if the writer lives, and
are for the store's own rules to remove if it was killed (`docs/how-to/object-stores.md`).
"""

from __future__ import annotations

import itertools
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from onceflow.errors import StorageDamaged, StorageError
from onceflow.storage import checksums, names
from onceflow.storage import obstore_errors as errors
from onceflow.storage.blobs import Author, Counts, File, Statistics, check_content, damaged, file_name, parse
from onceflow.values.buffers import Buffer, flat

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from obstore.store import ObjectStore as Store

T = TypeVar("T")

LARGE = 16 * 1024 * 1024
"""Bytes. Blobs of so many or more are written in parts, and read in ranges."""

PART = 8 * 1024 * 1024
"""Bytes of one."""

MOST_PARTS = 10_000
"""That a store takes for one blob."""

AT_ONCE = 4
"""Parts of one blob that are under way at the same time."""

READERS = 8
"""Threads that read ranges."""

PATIENCE = 60.0
"""Seconds for which something that fails in passing is tried again, about."""


class ObjectStoreBlobs:
    """Thread-safe. `url` is what errors, and references in the journal, call the place: they start with it."""

    def __init__(self, store: Store, url: str, *, patience: float = PATIENCE, conditional: bool = True) -> None:
        self._store = store
        self.url = url
        self._patience = patience
        self._conditional = conditional
        self._counts = Counts()
        self._lock = threading.Lock()
        self._readers: ThreadPoolExecutor | None = None

    def write(self, author: Author, name: str, buffers: Sequence[Buffer]) -> str:
        """Writes the buffers one after the other. Returns the reference once the blob is durable."""
        views = [view for buffer in buffers if (view := flat(buffer)).nbytes]
        size = sum(view.nbytes for view in views)
        path = f"{names.check_run(author.run)}/{file_name(author, size, checksums.of_bytes(views), name)}"
        what = f"{name} of run {author.run} cannot be saved"
        if size >= LARGE:
            self._put_in_parts(path, what, views, size)
        else:
            self._put(path, what, views[0] if len(views) == 1 else b"".join(views), size)
        self._counts.wrote(size)
        return f"{self.url}/{path}"

    def read(self, reference: str) -> bytes:
        return bytes(self.map(reference))

    def map(self, reference: str) -> memoryview:
        """The blob's bytes, in memory of this process."""
        size = self.size(reference)
        view = memoryview(mmap.mmap(-1, size) if size else bytearray())
        self.fill(reference, view)
        return view

    def check(self, reference: str) -> int:
        """Reads it once. How many bytes it has."""
        return self.map(reference).nbytes

    def size(self, reference: str) -> int:
        """Bytes of it, as its reference says."""
        file = parse(reference)
        if file is None or file.checksum is None:
            raise StorageDamaged(reference, "this is not the name of a saved value")
        return file.size

    def fill(self, reference: str, view: memoryview) -> None:
        """Reads the blob into this memory, which has its size."""
        size = self.size(reference)
        path = self._path(reference)
        first = min(size, PART if size >= LARGE else LARGE)
        view[:first] = self._get_beginning(reference, path, first, size)
        starts = range(first, size, PART)
        if starts:

            def get(start: int) -> None:
                end = min(start + PART, size)
                view[start:end] = self._get_range(reference, path, start, end)

            reads = [self._threads().submit(get, start) for start in starts]
            for read in reads:
                read.exception()  # no thread may write to the memory any more when this returns, or raises
            for read in reads:
                read.result()
        check_content(reference, reference, checksums.of_bytes([view]))
        self._counts.read(size)

    def delete(self, reference: str) -> None:
        """Deleting what is not there is harmless."""
        self._delete([self._path(reference)])

    def delete_run(self, run: str) -> None:
        """Deletes all blobs of a run. The journal must have forgotten the run before."""
        self._delete([self._path(file.reference) for file in self.files(run)])

    def folders(self) -> list[str]:
        """The runs that have blobs here."""
        import obstore

        def look() -> list[str]:
            return list(obstore.list_with_delimiter(self._store)["common_prefixes"])

        return [folder for folder in self._try("its runs cannot be listed", self.url, look) if names.is_plain(folder)]

    def files(self, run: str) -> Iterator[File]:
        import obstore

        folder = names.check_run(run)

        def look() -> list[str]:
            return [found["path"] for chunk in obstore.list(self._store, folder) for found in chunk]

        for path in self._try(f"the values of run {run} cannot be listed", f"{self.url}/{folder}", look):
            file = parse(f"{self.url}/{path}")
            if file is not None:
                yield file

    def by_run(self) -> Iterator[tuple[str, list[File]]]:
        """All files. A run may come more than once. It takes one request for a thousand files, however few each run
        has."""
        import obstore

        try:
            paths = (found["path"] for chunk in obstore.list(self._store) for found in chunk)
            for folder, group in itertools.groupby(paths, lambda path: path.partition("/")[0]):
                files = [parse(f"{self.url}/{path}") for path in group]
                if names.is_plain(folder):
                    yield folder, [file for file in files if file is not None]
        except obstore.exceptions.BaseError as error:
            raise errors.storage_error(error, self.url, "its objects cannot be listed") from error

    def remove_folder(self, run: str) -> None:
        """There are none."""

    def statistics(self) -> Statistics:
        return self._counts.statistics()

    def note_written(self, size: int) -> None:
        """Another process has written one on behalf of this."""
        self._counts.wrote(size)

    def probe(self) -> None:
        """Does once everything that is done here, with a few bytes. Raises what goes wrong."""
        import obstore

        path = f"probe-{os.urandom(8).hex()}"
        url, what = f"{self.url}/{path}", "a small object was to be put, read and deleted for a try"
        self._put(path, what, b"probe", 5)
        try:
            if self._conditional:
                self._try_condition(path, url, what)
            self._try(what, url, lambda: obstore.get(self._store, path).bytes())
            self.folders()
        finally:
            self._delete([path])

    # -- requests ------------------------------------------------------------------------------------------------------

    def _put(self, path: str, what: str, content: bytes | memoryview, size: int) -> None:
        import obstore

        url = f"{self.url}/{path}"

        def put() -> None:
            try:
                mode = "create" if self._conditional else "overwrite"
                obstore.put(self._store, path, content, mode=mode, use_multipart=False)  # type: ignore[arg-type]
            except obstore.exceptions.AlreadyExistsError as error:
                found = self._size_of(path)
                if found is None:
                    raise errors.Passing("two requests met, and neither left anything") from error
                if found != size:
                    raise StorageDamaged(url, f"{what}: something else of {found} bytes is there") from None

        self._try(what, url, put)

    def _put_in_parts(self, path: str, what: str, views: Sequence[memoryview], size: int) -> None:
        import obstore

        part = max(PART, -(-size // MOST_PARTS))
        tries = 0

        def put() -> None:
            nonlocal tries
            tries += 1
            if tries > 1 and self._size_of(path) == size:  # only the answer was lost
                return
            content = views[0] if len(views) == 1 else _pieces(views, part)
            obstore.put(self._store, path, content, use_multipart=True, chunk_size=part, max_concurrency=AT_ONCE)

        self._try(what, f"{self.url}/{path}", put)

    def _size_of(self, path: str) -> int | None:
        import obstore

        try:
            return obstore.head(self._store, path)["size"]
        except FileNotFoundError:
            return None

    def _get_beginning(self, reference: str, path: str, length: int, size: int) -> memoryview:
        """The first bytes. Raises if it is not of this size."""
        import obstore

        def get() -> tuple[int, memoryview]:
            if not length:
                return obstore.head(self._store, path)["size"], memoryview(b"")
            found = obstore.get(self._store, path, options={"range": (0, length)})
            return found.meta["size"], memoryview(found.bytes())

        found, content = self._try_reading(reference, get)
        if found != size:
            raise damaged(reference, reference, f"a saved value has {found} bytes instead of {size}")
        return self._whole(reference, content, length)

    def _get_range(self, reference: str, path: str, start: int, end: int) -> memoryview:
        import obstore

        def get() -> memoryview:
            return memoryview(obstore.get_range(self._store, path, start=start, end=end))

        return self._whole(reference, self._try_reading(reference, get), end - start)

    def _whole(self, reference: str, content: memoryview, length: int) -> memoryview:
        if content.nbytes != length:
            raise damaged(reference, reference, f"{content.nbytes} bytes of a saved value came instead of {length}")
        return content

    def _try_reading(self, reference: str, get: Callable[[], T]) -> T:
        try:
            return self._try("a saved value cannot be read", reference, get)
        except FileNotFoundError as error:
            if errors.is_about_the_bucket(error):
                raise errors.storage_error(error, reference, "a saved value cannot be read") from error
            raise damaged(reference, reference, "a saved value is missing") from None

    def _delete(self, paths: list[str]) -> None:
        import obstore

        def delete() -> None:
            try:
                obstore.delete(self._store, paths)
            except FileNotFoundError as error:
                if errors.is_about_the_bucket(error):
                    raise
                if len(paths) > 1:  # another process deletes the same
                    for path in paths:
                        self._delete([path])

        if paths:
            self._try("values that are needed no longer cannot be deleted", f"{self.url}/{paths[0]}", delete)

    def _try_condition(self, path: str, url: str, what: str) -> None:
        import obstore

        def put() -> bool:
            try:
                obstore.put(self._store, path, b"probe", mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                return True
            return False

        if not self._try(what, url, put):
            raise StorageError(url, "the store overwrites what it was told not to; it needs conditional puts")

    def _try(self, what: str, url: str, action: Callable[[], T]) -> T:
        return errors.retry(action, url, what, self._patience)

    def _path(self, reference: str) -> str:
        return names.in_folder(reference, self.url + "/")

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._readers is None:
                from concurrent.futures import ThreadPoolExecutor  # seldom needed

                self._readers = ThreadPoolExecutor(READERS, "onceflow reader")
            return self._readers


def _pieces(views: Sequence[memoryview], length: int) -> Iterator[memoryview]:
    for view in views:
        for start in range(0, view.nbytes, length):
            yield view[start : start + length]
