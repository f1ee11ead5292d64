"""High-water marks: how much of the journal was durable, noted outside of it.

SQLite takes the first frame of its write-ahead log that does not match for the end of the log. That is right after a
crash, when the frame was never finished; but it also forgets commits that had been answered, without a word, if the log
was damaged or cut later. So after each commit the numbers of entries of the runs concerned are noted here, and a run
that has fewer is damaged.

The file is a table of slots, mapped into memory, so a mark costs no system call. It is not synced: what reaches the
disk was written after the commit had reached it, so a mark may be too low after a loss of power, and is never too high.
(Commits that need not survive that, with `durability="process"`, are not marked.) Several runs may have the same
slot; then the last one has it, and the others do without. A slot that does not match its checksum says nothing.

The writer creates and changes it while it holds the turn, so no other process writes. Forgetting a run is the one
change that must not be lost, because its number may be given to another one: it is synced, before the run is deleted.

Readers take no turn. A reader compares a mark with what it reads *afterwards*: the mark was noted after its commit, so
whatever begins to read later sees that. If it sees less, the run may have been deleted in between; that is detected by
looking at the run, and for the last run of all by the number of times that anything was forgotten. Without a file, or
with that of another journal, there are no marks until the next write.

The file may be deleted, or replaced, while engines have it mapped. A mapping of a file that is not at its path any more
says nothing: runs may have been forgotten in the other one, and their numbers given away. So device and inode are
compared (`renew`) by the writer before it reads a mark or forgets a run, and in the first transaction after it has seen
that the home directory has changed; and by a reader before it believes that something is missing.

An older copy of the journal that was put back has fewer entries than its marks say. Delete the marks with it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import msgspec

from onceflow.storage import private_files

SLOTS = 4096

_HEAD = struct.Struct("<16sQII")
"""The identity of the journal, the number of the run that was created last, how often a run was forgotten."""
_CONTENT = struct.Struct("<16sQI")
"""The head without its checksum."""
_SLOT = struct.Struct("<QII")
"""The number of a run, how many entries it has."""

SIZE = _HEAD.size + SLOTS * _SLOT.size


class Last(msgspec.Struct, frozen=True):
    """The run that was created last."""

    number: int
    """Its number; 0 if it is not known."""
    forgotten: int
    """How often a run was forgotten. If that has not changed, no run has been deleted."""


class Marks:
    """Those of the journal at this path. `belong_to` comes first."""

    def __init__(self, path: Path) -> None:
        self._path = str(path_of(path))
        self._identity = b""
        self._memory: mmap.mmap | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of what is mapped."""
        self._noted = (b"", 0, 0)
        """The head as it was written here last, the number in it, and how often a run was forgotten."""
        with contextlib.suppress(FileNotFoundError):
            self._map(os.O_RDWR)

    def belong_to(self, identity: str) -> None:
        """The journal has this identity. What is noted about another one says nothing."""
        self._identity = identity.encode()[:16].ljust(16, b"\0")

    @property
    def are_ready(self) -> bool:
        """Whether they are there, and about this journal."""
        return self._memory is not None and self._memory[:16] == self._identity

    @property
    def last(self) -> Last:
        """Also of marks that are about another journal."""
        if self._memory is None:
            return Last(0, 0)
        head = self._memory[: _HEAD.size]
        _, number, forgotten, checksum = _HEAD.unpack(head)
        return Last(number, forgotten) if checksum == crc32(head[:-4]) else Last(0, 0)

    def entries(self, number: int) -> int:
        """How many entries the run with this number has, at least."""
        if not self.are_ready:
            return 0
        its, entries, checksum = _SLOT.unpack_from(self._mapped, _offset(number))
        return int(entries) if its == number and checksum == _checksum(number, entries) else 0

    @property
    def are_replaced(self) -> bool:
        """Whether something else is at the path than what is mapped."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return self._file is not None
        return self._file != (found.st_dev, found.st_ino)

    def renew(self) -> None:
        """Maps what is at the path now, if that is another file than the one that is mapped."""
        if self.are_replaced:
            self._memory = self._file = None  # not closed: another thread may be reading it
            with contextlib.suppress(FileNotFoundError):
                self._map(os.O_RDWR)

    def renew_to_write(self) -> None:
        """The same for the writer, which holds the turn: if there is none, or one about another journal, it begins
        anew."""
        self.renew()
        self.create()
        if not self.are_ready:
            self.reset()

    def create(self) -> None:
        """If they are not there. The caller holds the turn, as for all that follow."""
        if self._memory is None:
            self._map(os.O_RDWR | os.O_CREAT)

    def reset(self) -> None:
        """They are about this journal from now on, and nothing is known of it."""
        memory = self._mapped
        forgotten = self.last.forgotten + 1
        memory[16:] = bytes(SIZE - 16)
        memory[:16] = self._identity
        self._note_last(0, forgotten)

    def note(self, created: int, entries: Iterable[tuple[int, int]]) -> None:
        """It is durable now that the run with this number was created, perhaps after others (0: none was), and that
        runs, by their numbers, have so many entries. Called for each commit."""
        memory = self._memory
        assert memory is not None
        if created:
            head, last, forgotten = self._noted
            if memory[: _HEAD.size] != head:  # another process has written it since
                last, forgotten = self.last.number, self.last.forgotten
            if created > last:
                self._note_last(created, forgotten)
        for number, count in entries:
            _SLOT.pack_into(memory, _offset(number), number, count, _checksum(number, count))

    def forget(self, numbers: Iterable[int]) -> None:
        """Runs are about to be deleted. Their numbers may be given to others."""
        memory, last = self._mapped, self.last
        for number in numbers:
            offset = _offset(number)
            if _SLOT.unpack_from(memory, offset)[0] == number:
                memory[offset : offset + _SLOT.size] = bytes(_SLOT.size)
            if number >= last.number:
                last = Last(0, last.forgotten)
        self._note_last(last.number, last.forgotten + 1)
        memory.flush()

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    @property
    def _mapped(self) -> mmap.mmap:
        assert self._memory is not None
        return self._memory

    def _map(self, flags: int) -> None:
        """Its creator writes it out, because memory that has no room on the disk cannot be written to. One that
        is shorter was not finished, and is not there for readers."""
        descriptor = private_files.open_file(self._path, flags)
        try:
            missing = SIZE - os.fstat(descriptor).st_size
            if missing > 0 and not flags & os.O_CREAT:
                return
            if missing > 0:
                os.pwrite(descriptor, bytes(missing), SIZE - missing)
            found = os.fstat(descriptor)
            self._memory = mmap.mmap(descriptor, SIZE)
            self._file = (found.st_dev, found.st_ino)
        finally:
            os.close(descriptor)

    def _note_last(self, number: int, forgotten: int) -> None:
        memory = self._memory
        assert memory is not None
        forgotten &= 0xFFFFFFFF
        content = _CONTENT.pack(memory[:16], number, forgotten)
        head = content + crc32(content).to_bytes(4, "little")
        memory[: _HEAD.size] = head
        self._noted = (head, number, forgotten)


def path_of(journal: Path) -> Path:
    return Path(f"{journal}-marks")


def _checksum(number: int, entries: int) -> int:
    """Of a slot, which is written with each commit. Never 0, as in one that is empty."""
    return (number * 0x9E3779B1 ^ entries * 0x85EBCA6B) & 0xFFFFFFFF | 1


def _offset(number: int) -> int:
    return _HEAD.size + number % SLOTS * _SLOT.size
