"""News for other threads of the engine: another engine has rung, or a run has ended here."""

from __future__ import annotations

import threading


class News:
    """Thread-safe. A waiter passes the news it knows, so none are missed between two waits."""

    def __init__(self) -> None:
        self.number = 0
        """Of the latest news."""
        self._waiting = 0
        self._changed = threading.Condition()

    def ring(self) -> None:
        """There is news. From one thread at a time, or there is less of it."""
        self.number += 1
        if self._waiting:  # a thread about to wait checks the number once more
            with self._changed:
                self._changed.notify_all()

    def wait(self, known: int, seconds: float) -> None:
        """Returns when there is more than what is known, or after this time."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self.number != known, seconds)
            finally:
                self._waiting -= 1
