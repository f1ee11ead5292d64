"""Fair turns between processes that write to the same file.

SQLite lets writers fight for its lock: a writer that asks at the right moment wins, and a process that commits without
pause can starve another one for good. So writers queue with two locks. Take *next* (there is one place at the head of
the queue), take *turn*, release *next*, write, release *turn*. A writer that has just written finds the head of the
queue taken by a waiting writer, and comes after it. No two writers ever meet at SQLite's own lock.

Both are `flock`s: the kernel wakes the waiting, and releases what a killed process held. It does not release what a
stopped process holds, and a wait in the kernel cannot be called back; so a wait is watched from another thread
(`writer`), and only writers wait: reading takes no turn.

The files are for their owner alone, whatever the umask: a lock needs no more than the right to read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from onceflow.storage import forks, private_files
from onceflow.storage.lock_waits import LockWait

PAUSE = 0.01
"""Seconds between two attempts of `take`."""


class Turns:
    """Two lock files, `<path>-next` and `<path>-turn`. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptors: list[int] = []
        forks.watch(self)
        try:
            for part in ("next", "turn"):
                file = path.with_name(f"{path.name}-{part}")
                self._descriptors.append(private_files.open_file(file, os.O_RDWR | os.O_CREAT))
        except OSError:
            self.close()
            raise
        self.seconds_waited = 0.0

    @contextlib.contextmanager
    def take(self, limit: float) -> Iterator[None]:
        """For rare waits of at most so many seconds: polls. Raises
        `StorageBusy`."""
        wait = LockWait(self._path, limit)
        while not self.try_to_acquire():
            wait.check()
            time.sleep(PAUSE)
        wait.end()
        try:
            yield
        finally:
            self.release()

    def acquire(self, blocked: Callable[[], None]) -> None:
        """Waits as long as it takes. Calls `blocked` first if it has to wait at all."""
        started = time.perf_counter()
        following, turn = self._descriptors
        for descriptor in (following, turn):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                blocked()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.flock(following, fcntl.LOCK_UN)
        self.seconds_waited += time.perf_counter() - started

    def try_to_acquire(self) -> bool:
        """Without waiting. False if another writer has the turn, or waits for it."""
        following, turn = self._descriptors
        try:
            fcntl.flock(following, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(following, fcntl.LOCK_UN)
        return True

    def release(self) -> None:
        fcntl.flock(self._descriptors[1], fcntl.LOCK_UN)

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def leave_to_parent(self) -> None:
        self.close()
