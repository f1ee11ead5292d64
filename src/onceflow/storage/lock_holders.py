"""The processes that hold the locks of a journal, as a text for users: `process 4711 (python trips.py), which is
stopped (Ctrl-Z)`.

Linux lists all locks in /proc/locks, with the process that took each. It is read only when a lock has been waited for
for long; taking a lock costs nothing more. Where there is no such list, a holder is not known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from onceflow.values.texts import one_line

LOCKS = Path("/proc/locks")

LONGEST_COMMAND = 80
"""Characters."""

WAL_WRITE_LOCK = 120
"""The byte of the `-shm` file that SQLite locks to write: a shared lock on it keeps writers out as well."""

STATES = {
    "T": "stopped (Ctrl-Z)",
    "t": "stopped by a debugger",
    "D": "waiting for the disk",
    "Z": "dead",
    "R": "running",
    "S": "running",
}
"""What /proc/<process>/stat says, in words."""


class Holder(NamedTuple):
    process: int
    command: str
    state: str
    """For users; empty if unknown."""

    @property
    def is_stopped(self) -> bool:
        return self.state == STATES["T"]

    def __str__(self) -> str:
        told = f"process {self.process}" + (f" ({self.command})" if self.command else "")
        return told + (f", which is {self.state}" if self.state else "")


class _Lock(NamedTuple):
    kind: str
    """FLOCK or POSIX."""
    exclusive: bool
    process: int
    device: str
    inode: int
    first: int
    last: int | None
    """None: the end of the file."""


def of_turn(path: Path) -> list[Holder]:
    """The process that has the turn of this journal (`fair_lock`), or else the one at the head of the queue."""
    locks = _locks()
    for part in ("turn", "next"):
        found = [lock.process for lock in _on(Path(f"{path}-{part}"), locks) if lock.kind == "FLOCK"]
        if found:
            return _described(found)
    return []


def of_database(path: Path) -> list[Holder]:
    """The processes that keep others from reading or writing the SQLite file at this path."""
    locks = _locks()
    found = [lock for lock in _on(path, locks) if lock.exclusive]
    for lock in _on(Path(f"{path}-shm"), locks):
        end = WAL_WRITE_LOCK if lock.last is None else lock.last
        if lock.exclusive or lock.first <= WAL_WRITE_LOCK <= end:
            found.append(lock)
    return _described([lock.process for lock in found if lock.process != os.getpid()])


def are_others(path: Path) -> bool:
    """Whether other processes, as far as is known, have the SQLite file at this path open: each has a shared lock."""
    return any(lock.process != os.getpid() for lock in _on(path, _locks()))


def describe(process: int) -> Holder:
    return Holder(process, _command(process), STATES.get(_state(process), ""))


def tell(holders: Iterable[Holder]) -> str:
    """The processes, and what would make them release the lock."""
    found = list(holders)
    if not found:
        return "another process"
    told = " and ".join([str(holder) for holder in found])
    stopped = [str(holder.process) for holder in found if holder.is_stopped]
    if stopped:
        told += f"; `fg` in its terminal, or `kill -CONT {' '.join(stopped)}`, lets it go on"
    return told


def _described(processes: Iterable[int]) -> list[Holder]:
    """Without those that cannot be named because they are in another container."""
    return [describe(process) for process in dict.fromkeys(processes) if process > 0]


def _locks() -> list[_Lock]:
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return []
    return [lock for line in lines if (lock := _parsed(line)) is not None]


def _parsed(line: str) -> _Lock | None:
    """None for what is no lock, such as a process that waits for one."""
    try:
        _, kind, _, mode, process, file, first, last = line.split()
        major, minor, inode = file.split(":")
        end = None if last == "EOF" else int(last)
        return _Lock(kind, mode == "WRITE", int(process), f"{major}:{minor}", int(inode), int(first), end)
    except ValueError:
        return None


def _on(path: Path, locks: list[_Lock]) -> list[_Lock]:
    try:
        status = path.stat()
    except OSError:
        return []
    same = [lock for lock in locks if lock.inode == status.st_ino]
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    # Some file systems (btrfs) give a file another device than its locks; then the inode has to do.
    return [lock for lock in same if lock.device == device] or same


def _command(process: int) -> str:
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
    except OSError:
        return ""
    text = one_line(line.decode(errors="replace"))
    return text if len(text) <= LONGEST_COMMAND else text[: LONGEST_COMMAND - 1] + "…"


def _state(process: int) -> str:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]
