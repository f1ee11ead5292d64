"""High-water marks: how much of the journal was durable, noted outside of it.

SQLite takes the first frame of its write-ahead log that does not match for the end of the log. That is right after a
crash, when the frame was never finished; but it also forgets commits that had been answered, without a word, if the log
was damaged or cut later. So after each commit the numbers of entries of the runs concerned are noted here, and a run
that has fewer is damaged.

The file is a table of slots, mapped into memory, so a mark costs no system call. It is never synced: what reaches the
disk was written after the commit had reached it, so a mark may be too low after a loss of power, and is never too high.
(Commits that need not survive that, with `durability="process"`, are not marked.) Several runs may have the same
slot; then the last one has it, and the others do without. A slot that does not match its checksum says nothing.

The writer changes it while it holds the turn, so nobody else writes. A reader compares a mark with what it reads
*afterwards*: a mark that is noted meanwhile may be about a later commit.

An older copy of the journal that was put back has fewer entries than its marks say. Delete the marks with it.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from zlib import crc32

SLOTS = 4096

_HEAD = struct.Struct("<16sQ4xI")
"""The identity of the journal, the number of the run that was created last."""
_SLOT = struct.Struct("<QII")
"""The number of a run, how many entries it has."""

SIZE = _HEAD.size + SLOTS * _SLOT.size


class Marks:
    """Those of the journal at this path. The caller holds the turn."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            missing = SIZE - os.fstat(descriptor).st_size
            if missing > 0:  # written out, because memory that has no room on the disk cannot be written to
                os.pwrite(descriptor, bytes(missing), SIZE - missing)
            self._memory = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)

    @property
    def identity(self) -> str:
        """Of the journal that they are about."""
        return bytes(self._memory[:16]).rstrip(b"\0").decode("ascii", "replace")

    def reset(self, identity: str) -> None:
        """They are about this journal from now on, and nothing is known of it."""
        self._memory[:] = identity.encode()[:16].ljust(16, b"\0") + bytes(SIZE - 16)
        self._note_last(0)

    @property
    def last(self) -> int:
        """The number of the run that was created last; 0 if it is not known."""
        _, number, checksum = _HEAD.unpack_from(self._memory)
        return number if checksum == crc32(self._memory[:24]) else 0

    def entries(self, number: int) -> int:
        """How many entries the run with this number has, at least."""
        offset = _offset(number)
        its, entries, checksum = _SLOT.unpack_from(self._memory, offset)
        return int(entries) if its == number and checksum == _checksum(number, entries) else 0

    def created(self, number: int) -> None:
        """A run was created, and that is durable."""
        if number > self.last:
            self._note_last(number)

    def appended(self, number: int, entries: int) -> None:
        """A run has so many entries, and that is durable."""
        _SLOT.pack_into(self._memory, _offset(number), number, entries, _checksum(number, entries))

    def forget(self, number: int) -> None:
        """A run is about to be deleted. Its number may be given to another one."""
        offset = _offset(number)
        if _SLOT.unpack_from(self._memory, offset)[0] == number:
            self._memory[offset : offset + _SLOT.size] = bytes(_SLOT.size)
        if number >= self.last:
            self._note_last(0)

    def close(self) -> None:
        self._memory.close()

    def _note_last(self, number: int) -> None:
        head = struct.pack("<16sQ", self._memory[:16], number)
        self._memory[: _HEAD.size] = head + bytes(4) + crc32(head).to_bytes(4, "little")


def path_of(journal: Path) -> Path:
    return Path(f"{journal}-marks")


def _checksum(number: int, entries: int) -> int:
    """Of a slot, which is written with each commit. Never 0, as in one that is empty."""
    return (number * 0x9E3779B1 ^ entries * 0x85EBCA6B) & 0xFFFFFFFF | 1


def _offset(number: int) -> int:
    return _HEAD.size + number % SLOTS * _SLOT.size
