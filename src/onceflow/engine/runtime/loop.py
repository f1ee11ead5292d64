"""The engine's thread: one selector, an inbox that other threads post to, and timers.

Whatever happens inside the engine happens in this thread, one thing after the other, so nothing in it needs a lock.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

Action = Callable[[], object]

LONGEST_SLEEP = 86_400.0
"""Seconds. Operating systems do not sleep for more than 2^31 milliseconds at a time."""


class Posting(Protocol):
    """What can be asked of a loop."""

    def post(self, action: Action) -> None:
        """Have something done soon. From any thread."""

    def later(self, seconds: float, action: Action) -> None:
        """Have something done after some time. From inside the loop."""

    def stop(self) -> None:
        """End the loop after what was posted before, and wait for that."""


class Loop:
    """Runs from `start` until `stop`."""

    def __init__(self, name: str) -> None:
        self.selector = selectors.DefaultSelector()
        self._inbox: deque[Action] = deque()
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._asleep = False
        self._stopping = False
        self._over = False
        self._closing = threading.Lock()
        """Held while the bell is rung or closed: its number may be another file's afterwards."""
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.selector.register(self._bell, selectors.EVENT_READ, self._heard_bell)
        self._name = name

    def start(self, turn: Callable[[], float | None], ended: Callable[[BaseException | None], None]) -> None:
        """`turn` is called before every wait and says when it wants to be called again at the latest; `ended` is called
        last of all, with what ended the loop against its will, if anything did."""
        self._thread = threading.Thread(target=self._run, args=(turn, ended), name=self._name, daemon=True)
        self._thread.start()

    def post(self, action: Action) -> None:
        """Have something done soon. From any thread. After the end of the loop it is done at once: a post in the last
        moment is not lost."""
        self._inbox.append(action)
        if self._asleep:
            self._asleep = False
            with self._closing:
                if not self._over:
                    os.eventfd_write(self._bell, 1)
        if self._over:
            self._work_off_rest()

    def later(self, seconds: float, action: Action) -> None:
        """Have something done after some time. From the loop's own thread."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), action))

    def stop(self) -> None:
        """End the loop after what was posted before, and wait for that. From any other thread."""
        self.post(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        self._stopping = True

    def _heard_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def _run(self, turn: Callable[[], float | None], ended: Callable[[BaseException | None], None]) -> None:
        failure: BaseException | None = None
        try:
            while not self._stopping:
                self._work_off(turn)
        except BaseException as error:
            failure = error
        try:
            ended(failure)
        finally:
            self.selector.close()
            with self._closing:
                self._over = True
                os.close(self._bell)
            self._work_off_rest()

    def _work_off_rest(self) -> None:
        while self._inbox:
            try:
                action = self._inbox.popleft()
            except IndexError:  # another thread was quicker
                return
            action()

    def _work_off(self, turn: Callable[[], float | None]) -> None:
        inbox = self._inbox
        for _ in range(len(inbox)):
            inbox.popleft()()
        if self._stopping:
            return
        if self._timers:
            self._ring_timers()
        timeout = turn()
        if self._timers:
            due = max(0.0, self._timers[0][0] - time.monotonic())
            timeout = due if timeout is None else min(timeout, due)
        if timeout is not None and timeout > LONGEST_SLEEP:
            timeout = LONGEST_SLEEP
        # A post after this line rings the bell; a post before it is seen by the next one.
        self._asleep = True
        if inbox:
            timeout = 0
        for key, _ in self.selector.select(timeout):
            key.data()
        self._asleep = False

    def _ring_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
