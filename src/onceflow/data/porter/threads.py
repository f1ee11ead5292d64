"""The porter's threads: they copy and wait for the disk, both without the interpreter lock.

Some threads take only small pieces of work, so that these never wait for large ones. Each thread is started when there
is work and none that is idle could take it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable

SMALL = 4 * 1024 * 1024
"""Bytes. Work on less is small."""

SMALL_THREADS = 6
"""Mostly they wait for the disk, which serves several at once as fast as one."""

LARGE_THREADS = 2
"""They copy: more of them would only take turns."""

FAR_THREADS = (24, 4)
"""The same where they wait for a network instead, which is slower to answer and serves more at once."""

Done = Callable[[], None]
"""What is to be done in the loop when work is done."""


class Crew:
    """Used by one loop, which reads from `bell` and then calls `take`."""

    def __init__(self, *, far: bool = False) -> None:
        self._most = FAR_THREADS if far else (SMALL_THREADS, LARGE_THREADS)
        self.bell, self._ring = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(self._ring, False)
        self._done: deque[Done] = deque()
        self._change = threading.Condition()
        self._small: deque[Callable[[], Done]] = deque()
        self._large: deque[Callable[[], Done]] = deque()
        self._threads = [0, 0]
        """Those for small work, and those for any."""
        self._idle = [0, 0]

    def add(self, size: int, work: Callable[[], Done]) -> None:
        """`work` is called in a thread, and what it returns in the loop. So is what it raises raised there."""
        small = size < SMALL
        with self._change:
            (self._small if small else self._large).append(work)
            if small and self._idle[0] < len(self._small) and self._threads[0] < self._most[0]:
                self._start(0)
            elif not small and self._idle[1] < len(self._large) and self._threads[1] < self._most[1]:
                self._start(1)
            self._change.notify_all()

    def take(self) -> list[Done]:
        """What has been done since the last time."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 4096)
        return [self._done.popleft() for _ in range(len(self._done))]

    def _start(self, kind: int) -> None:
        self._threads[kind] += 1
        threading.Thread(target=self._serve, args=(kind,), daemon=True).start()

    def _serve(self, kind: int) -> None:
        while True:
            work = self._next(kind)
            try:
                done = work()
            except BaseException as error:
                done = functools.partial(_raise, error)
            del work  # and with it what it has mapped
            self._done.append(done)
            with contextlib.suppress(BlockingIOError):  # the bell rings already
                os.write(self._ring, b"\0")

    def _next(self, kind: int) -> Callable[[], Done]:
        with self._change:
            while True:
                if kind and self._large:
                    return self._large.popleft()
                if self._small:
                    return self._small.popleft()
                self._idle[kind] += 1
                self._change.wait()
                self._idle[kind] -= 1


def _raise(error: BaseException) -> None:
    raise error
