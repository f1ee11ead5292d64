"""Spill file: holds objects evicted when the memory budget is exceeded.

It has no name, so nothing is left of it when its last process is gone, however that ends. Objects have regions of it; a
region that is free is used again, and its blocks are given back to the file system at once where that is possible.

It is written past the page cache where that is possible: moving objects to other memory would gain nothing, and copying
would take processor time from tasks.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from onceflow.data.places import Place, whole_pages
from onceflow.data.regions import Regions
from onceflow.storage import direct_io
from onceflow.storage.home import create_folder

_PUNCH_HOLE = 0x1 | 0x2
"""FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE."""

_library = ctypes.CDLL(None, use_errno=True)


class SpillFile:
    """A segment on disk. `write` may be called in several threads at once, the others in one."""

    def __init__(self, folder: Path, segment: int) -> None:
        create_folder(folder)
        self.segment = segment
        self._descriptor, self.readable = _open(folder)
        self._regions = Regions(0)
        self._end = 0

    def reserve(self, size: int) -> Place:
        offset = self._regions.take(size)
        if offset is None:
            self._regions.extend(self._end, whole_pages(size))
            self._end += whole_pages(size)
            offset = self._regions.take(size)
            assert offset is not None
        return Place(self.segment, offset, size)

    def write(self, place: Place, view: memoryview) -> None:
        """The file is not synced: it ends with its processes. Best with whole pages."""
        descriptor = _reopened(self._descriptor, os.O_WRONLY)
        try:
            direct_io.write(descriptor, view, place.offset)
        finally:
            os.close(descriptor)

    def free(self, place: Place) -> None:
        """This has no readers left."""
        self._regions.give(place.offset, place.size)
        if not self._regions.taken:
            os.ftruncate(self._descriptor, 0)
            self._regions = Regions(0)
            self._end = 0
        elif hasattr(_library, "fallocate"):
            offset, size = ctypes.c_int64(place.offset), ctypes.c_int64(whole_pages(place.size))
            _library.fallocate(self._descriptor, _PUNCH_HOLE, offset, size)  # where it cannot, the region stays


def _open(folder: Path) -> tuple[int, int]:
    """A file without a name, and another descriptor of it that can only read."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        descriptor = os.open(folder, flags | os.O_TMPFILE, 0o600)
    except (AttributeError, OSError):  # not every system can do that, nor every file system
        path = folder / os.urandom(8).hex()
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()
    return descriptor, _reopened(descriptor, os.O_RDONLY)


def _reopened(descriptor: int, flags: int) -> int:
    """Another one of the same file with flags of its own, where the system has a way to do so."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.dup(descriptor)
