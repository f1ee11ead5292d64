"""Messages of other threads to a selector loop."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable


class Inbox:
    """Wakes the loop when something is posted, and has it done there."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._posted: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        """Held while the bell is rung or closed: its number may be another file's afterwards."""
        self._bell: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        selector.register(self._bell, selectors.EVENT_READ, self._work_off)

    def post(self, action: Callable[[], None]) -> None:
        """From any thread. After the end nothing is done any more."""
        self._posted.append(action)
        with self._lock:
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)

    def _work_off(self) -> None:
        with contextlib.suppress(BlockingIOError):
            assert self._bell is not None
            os.eventfd_read(self._bell)
        while self._posted:
            self._posted.popleft()()

    def close(self) -> None:
        with self._lock:
            assert self._bell is not None
            self._selector.unregister(self._bell)
            os.close(self._bell)
            self._bell = None
