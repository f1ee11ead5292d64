"""Fair turns between processes that write to the same file.

SQLite lets writers fight for its lock: whoever asks at the right moment wins, and a process that commits without pause
can starve another one for good. So writers queue with two locks. Take *next* (there is one place at the head of the
queue), take *turn*, release *next*, write, release *turn*. Whoever has just written finds the head of the queue taken
by someone who waits, and comes after it. No two writers ever meet at SQLite's own lock.

Both are `flock`s: the kernel wakes the waiting, and releases what a killed process held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from onceflow.storage import forks, private_files


class Turns:
    """Two lock files, `<path>-next` and `<path>-turn`. For one thread at a time."""

    def __init__(self, path: Path) -> None:
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
    def take(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        started = time.perf_counter()
        following, turn = self._descriptors
        fcntl.flock(following, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(following, fcntl.LOCK_UN)
        self.seconds_waited += time.perf_counter() - started

    def try_to_acquire(self) -> bool:
        """Without waiting. False if somebody else has the turn, or waits for it."""
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
