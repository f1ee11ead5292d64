"""Logs: lines that are appended, read while they grow, and lose their beginning when they become too many.

    logs/runs/<run>/<start>.jsonl         what the tasks of a run print and log
    logs/engines/<engine>/<start>.jsonl   what an engine did

A log is a folder of segments. Each is named by its start, which is the number of bytes that were written to the log
before it: so the name of the oldest one that is left says how much has been dropped, and a reader knows where it is
whatever happens to what it has read. When a segment is long enough the next one is begun, and when all of them together
are too long the oldest goes.

A log is worth less than a run. Nothing here is synced, errors are the system's own, and the writer decides what they
mean. A line that a crash or a full disk cut short is ended by the next writer, and cannot be parsed by readers. One
writer at a time appends to a log; should there be two for a moment, no line is lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from onceflow.storage import names, private_files

Record = TypeVar("Record")

LOGS = "logs"
"""The folder in the home directory."""

SUFFIX = ".jsonl"

SEGMENTS = 8
"""Number of parts of a log of maximum size. One part is dropped at a time."""

MOST_OPEN = 16
"""Files that a writer keeps open."""

ABANDONED = 3600.0
"""Seconds after which the log of a run that the journal does not know is an orphan. A task without effect may print
before its run is durable."""


def of_runs(home: Path) -> Path:
    """The folder with the logs of runs."""
    return home / LOGS / "runs"


def of_run(home: Path, run: str) -> Path:
    """The log of a run. Raises `StorageDamaged` if it can be no run."""
    return of_runs(home) / names.check_run(run)


def of_engines(home: Path) -> Path:
    """The folder with the logs of engines."""
    return home / LOGS / "engines"


class Writer:
    """Appends to the logs in a folder, each of which may have about `limit` bytes. Belongs to one thread."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._open: dict[str, _Tail] = {}

    def append(self, log: str, lines: bytes) -> None:
        """Raises `OSError`; a part of the lines may be there then."""
        tail = self._open.get(log)
        if tail is None:
            for folder in (self._folder.parent, self._folder):  # not the home directory, which may have been moved
                private_files.make_folder(folder)
            if len(self._open) >= MOST_OPEN:
                self.close_all()
            tail = self._open[log] = _Tail(self._folder / names.check_run(log))
        try:
            tail.write(lines, self._limit)
        except OSError:
            self.close(log)
            raise

    def close(self, log: str) -> None:
        """Lets go of its file. To append again is allowed."""
        tail = self._open.pop(log, None)
        if tail is not None:
            tail.close()

    def close_all(self) -> None:
        for log in list(self._open):
            self.close(log)


class _Tail:
    """The last segment of a log, open."""

    def __init__(self, folder: Path) -> None:
        private_files.make_folder(folder)
        self._folder = folder
        self._starts = deque(starts(folder))
        if not self._starts:
            self._starts.append(0)
        self._descriptor = -1
        self._size = 0
        self._open()

    def write(self, lines: bytes, limit: int) -> None:
        if self._size and self._size >= limit // SEGMENTS:
            self._starts.append(self._starts[-1] + self._size)
            self.close()
            self._open()
        view = memoryview(lines)
        while view:
            written = os.write(self._descriptor, view)
            self._size += written
            view = view[written:]
        while len(self._starts) > 1 and self._starts[-1] + self._size - self._starts[0] > limit:
            segment(self._folder, self._starts.popleft()).unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        path = segment(self._folder, self._starts[-1])
        self._descriptor = private_files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._size = os.fstat(self._descriptor).st_size
        if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
            self._size += os.write(self._descriptor, b"\n")


class Reader:
    """Reads a log from what is left of its beginning. Each call of `lines` goes on where the last one stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start = 0
        """Of the segment that is read."""
        self._at = 0
        """The place in it."""
        self.dropped = 0
        """Bytes that were dropped before they could be read."""

    def lines(self) -> Iterator[bytes]:
        """The complete lines that are there and have not been given yet."""
        for start in starts(self._folder):
            if start < self._start:
                continue
            if start > self._start:
                self.dropped += max(0, start - self._start - self._at)
                self._start, self._at = start, 0
            with contextlib.suppress(FileNotFoundError), segment(self._folder, start).open("rb") as file:
                file.seek(self._at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._at += len(line)
                    yield line

    def records(self, kind: type[Record]) -> Iterator[Record]:
        """The same, decoded. Lines that a crash or a full disk cut short are left out."""
        decode = msgspec.json.Decoder(kind).decode
        for line in self.lines():
            try:
                record = decode(line)
            except msgspec.DecodeError:
                continue
            yield record


def starts(folder: Path) -> list[int]:
    """Of the segments of a log, the oldest first. Of a log that is not there, none."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    return sorted([int(stem) for stem in stems if stem.isdecimal()])


def segment(folder: Path, start: int) -> Path:
    return folder / f"{start}{SUFFIX}"


def listed(folder: Path) -> list[str]:
    """The logs in a folder."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            return sorted(filter(names.is_plain, found))
    except (FileNotFoundError, NotADirectoryError):
        return []


def size(log: Path) -> int:
    """Bytes that a log takes."""
    total = 0
    for start in starts(log):
        with contextlib.suppress(FileNotFoundError):
            total += segment(log, start).stat().st_size
    return total


def changed(log: Path) -> float:
    """When it was last written to, in seconds since 1970; 0 for a log that is not there."""
    last = starts(log)[-1:]
    for path in (*[segment(log, start) for start in last], log):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return path.stat().st_mtime
    return 0.0


def delete(log: Path) -> None:
    """Deleting what is not there is harmless."""
    import shutil  # slow to import, seldom needed

    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(log)


def is_abandoned(log: Path) -> bool:
    """Whether it can be without an owner, if the journal does not know its run."""
    return time.time() - changed(log) > ABANDONED
