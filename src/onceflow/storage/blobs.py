"""Blobs: values too large for the journal, each a file in a folder. (`object_store` keeps them elsewhere.)

A blob is written under a temporary name in its final folder, synced, renamed, and the folder synced. Only then is its
reference handed out, for an entry of the journal to name; a blob that no entry names does not exist for readers. So
there are no half blobs, whatever happens when. It is never changed afterwards: readers may map it.

`<folder>/<run>/<epoch>.<engine>.<size>-<checksum>.<name>` is the file, and from `<run>` on it is the reference. Size
and checksum distinguish a blob that was damaged later, or exchanged, from a whole one: the journal, which has the
reference, vouches for the blob. Epoch and engine identify the writer, which is what `orphans` needs to know. A name
with three dots or more ends with the task whose value it is.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import msgspec

from onceflow.errors import StorageDamaged
from onceflow.storage import checksums, direct_io, failures, names, private_files
from onceflow.values import trust
from onceflow.values.buffers import Buffer, flat, write_all

TEMPORARY = "~"
"""Names of files that are being written start so."""

LONGEST_NAME = 120
"""Characters. File systems take 255 bytes, with everything that is put before the name."""

MOST_SYNCED = 10_000
"""Folders that are remembered. Forgetting costs one more sync a folder."""


class Author(msgspec.Struct, frozen=True):
    """The author of a blob: the engine that drives the run, in this epoch."""

    run: str
    epoch: int
    engine: str


class File(msgspec.Struct, frozen=True):
    """A file in the folder of a run: a blob, or what is left of one that was never finished."""

    reference: str
    epoch: int
    engine: str
    size: int
    """Bytes it should have."""
    checksum: int | None = None
    """Of its content; None for one that was never finished."""
    task: str | None = None
    """Whose value it is, as far as its name says so."""


class Statistics(msgspec.Struct, frozen=True):
    """What was written and read in this process."""

    written: int
    """Blobs."""
    written_bytes: int
    read: int
    """Blobs that were opened, as often as they were."""
    read_bytes: int


class Counts:
    """Makes up statistics. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0, 0, 0, 0]
        """As in `Statistics`."""

    def wrote(self, size: int) -> None:
        self._count(0, size)

    def read(self, size: int) -> None:
        self._count(2, size)

    def statistics(self) -> Statistics:
        return Statistics(*self._counts)

    def _count(self, place: int, size: int) -> None:
        with self._lock:
            self._counts[place] += 1
            self._counts[place + 1] += size


class Blobs:
    """Thread-safe; any number of processes may use the same folder. References start with `prefix`. A blob of another
    user is not read (`StorageNotTrusted`), unless that is one of `trusted_owners`."""

    def __init__(self, folder: Path, prefix: str = "", trusted_owners: Collection[int] = ()) -> None:
        self._folder = folder
        self._prefix = prefix
        self._trusted_owners = trusted_owners
        self._synced: set[Path] = set()
        """Folders of runs whose own names are known to be durable."""
        self._counts = Counts()

    def write(self, author: Author, name: str, buffers: Sequence[Buffer]) -> str:
        """Writes the buffers one after the other. Returns the reference once the blob is durable."""
        views = [view for buffer in buffers if (view := flat(buffer)).nbytes]
        size = sum(view.nbytes for view in views)
        folder = self._folder_of(author.run)
        file = file_name(author, size, checksums.of_bytes(views), name)
        with failures.told(folder):
            temporary = folder / f"{TEMPORARY}{author.epoch}.{author.engine}.{size}.{os.urandom(8).hex()}"
            descriptor = self._create(temporary)
            try:
                try:
                    if len(views) == 1 and size >= direct_io.LEAST:
                        direct_io.write(descriptor, views[0])
                    else:
                        write_all(descriptor, views)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.rename(temporary, folder / file)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            _sync(folder)
        self._counts.wrote(size)
        return f"{self._prefix}{folder.name}/{file}"

    def open(self, reference: str) -> BinaryIO:
        """Its content is not looked at."""
        path = self._path(reference)
        with failures.told(path):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                raise damaged(reference, str(path), "a saved value is missing") from None
        try:
            trust.check_opened(file.fileno(), path, self._trusted_owners)
            found = os.fstat(file.fileno()).st_size
            check_size(reference, str(path), found)
        except BaseException:
            file.close()
            raise
        self._counts.read(found)
        return file

    def open_checked(self, reference: str) -> BinaryIO:
        """Reads it once. Lets other threads run meanwhile."""
        file = self.open(reference)
        try:
            path = self._path(reference)
            with failures.told(path):  # not mapped: a bad sector is an error then, and not the end of this process
                buffer = memoryview(bytearray(checksums.CHUNK))
                found = offset = 0
                while size := os.preadv(file.fileno(), [buffer], offset):
                    found = checksums.of_bytes([buffer[:size]], found)
                    offset += size
            check_content(reference, str(path), found)
        except BaseException:
            file.close()
            raise
        return file

    def check(self, reference: str) -> int:
        """Reads it once. How many bytes it has."""
        with self.open_checked(reference) as file:
            return os.fstat(file.fileno()).st_size

    def read(self, reference: str) -> bytes:
        path = self._path(reference)
        with self.open(reference) as file, failures.told(path):
            content = file.read()
        check_content(reference, str(path), checksums.of_bytes([memoryview(content)]))
        return content

    def map(self, reference: str) -> memoryview:
        """The blob's bytes without a copy. They may be written to, which no other process sees, and stay readable even
        if the blob is deleted meanwhile."""
        with self.open_checked(reference) as file, failures.told(self._path(reference)):
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

    def delete(self, reference: str) -> None:
        """Deleting what is not there is harmless."""
        path = self._path(reference)
        with failures.told(path):
            path.unlink(missing_ok=True)

    def delete_run(self, run: str) -> None:
        """Deletes all blobs of a run. The journal must have forgotten the run before."""
        import shutil  # slow to import, seldom needed

        folder = self._folder_of(run)
        self._synced.discard(folder)
        with failures.told(folder), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def folders(self) -> list[str]:
        """The runs that have files here."""
        with failures.told(self._folder):
            return [name for name in os.listdir(self._folder) if names.is_plain(name)]

    def files(self, run: str) -> Iterator[File]:
        folder = self._folder_of(run)
        with failures.told(folder):
            try:
                found = os.listdir(folder)
            except (FileNotFoundError, NotADirectoryError):
                return
        for name in found:
            file = parse(f"{self._prefix}{folder.name}/{name}")
            if file is not None:
                yield file

    def by_run(self) -> Iterator[tuple[str, list[File]]]:
        """All files. A run may come more than once."""
        for run in self.folders():
            yield run, list(self.files(run))

    def remove_folder(self, run: str) -> None:
        """If it is empty."""
        folder = self._folder_of(run)
        self._synced.discard(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def statistics(self) -> Statistics:
        return self._counts.statistics()

    def note_written(self, size: int) -> None:
        """Another process has written one on behalf of this."""
        self._counts.wrote(size)

    def _path(self, reference: str) -> Path:
        return self._folder / names.in_folder(reference, self._prefix)

    def _folder_of(self, run: str) -> Path:
        return self._folder / names.check_run(run)

    def _create(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        while True:
            if path.parent not in self._synced:
                private_files.make_folder(path.parent)
                _sync(self._folder)
                if len(self._synced) >= MOST_SYNCED:
                    self._synced.clear()
                self._synced.add(path.parent)
            try:
                return private_files.open_file(path, flags)
            except FileNotFoundError:
                # Another process removed the folder, which was empty.
                self._synced.discard(path.parent)
                if not self._folder.is_dir():
                    raise


def _sync(folder: Path) -> None:
    """Makes the names in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def as_bytes(buffer: Buffer) -> bytes:
    return bytes(flat(buffer))


def file_name(author: Author, size: int, checksum: int, name: str) -> str:
    return f"{author.epoch}.{author.engine}.{size}-{checksum:08x}.{_shortened(_quoted(name))}"


def check_size(reference: str, where: str, found: int) -> None:
    file = parse(reference)
    if file is None or file.checksum is None:
        raise StorageDamaged(where, "this is not the name of a saved value")
    if found != file.size:
        raise damaged(reference, where, f"a saved value has {found} bytes instead of {file.size}")


def check_content(reference: str, where: str, found: int) -> None:
    """Raises if its checksum is not this one."""
    file = parse(reference)
    if file is None or found != file.checksum:
        raise damaged(reference, where, "a saved value is not what was written")


def damaged(reference: str, where: str, reason: str) -> StorageDamaged:
    """With the run and the task that its name gives."""
    file = parse(reference)
    run = reference.rpartition("/")[0].rpartition("/")[2]
    return StorageDamaged(where, reason, run=run, task=None if file is None else file.task)


def _quoted(text: str) -> str:
    """A file's name for any text, readable as far as possible."""
    safe = quote(text, safe="").replace("~", "%7E")
    return "%2E" + safe[1:] if safe.startswith(".") else safe


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    import hashlib  # slow to import, seldom needed

    return f"{name[: LONGEST_NAME - 33]}-{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


def parse(reference: str) -> File | None:
    """None for a file that is not ours."""
    above, _, name = reference.rpartition("/")
    if not names.is_reference(f"{above.rpartition('/')[2]}/{name}"):
        return None
    epoch, engine, content, label = name.removeprefix(TEMPORARY).split(".", 3)
    size, _, checksum = content.partition("-")
    *_, task = unquote(label).split(".", 3) if label.count(".") >= 3 else ("",)
    return File(reference, int(epoch), engine, int(size), int(checksum, 16) if checksum else None, task or None)
