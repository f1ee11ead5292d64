"""Background work that saves latency later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Chores:
    """Done one after the other, in a thread that is there only as long as there are some. Thread-safe."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def add(self, chore: Callable[[], None]) -> None:
        with self._change:
            self._waiting.append(chore)
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._work, name="onceflow chores", daemon=True).start()

    def wait(self) -> None:
        """Returns when all are done."""
        with self._change:
            self._change.wait_for(lambda: not self._busy)

    def _work(self) -> None:
        while True:
            with self._change:
                if not self._waiting:
                    self._busy = False
                    self._change.notify_all()
                    return
                chore = self._waiting.popleft()
            chore()
