"""The worker's side of `current().progress`: not every step is worth a message, but the last one is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from onceflow.backends.local.messages import Progress

INTERVAL = 0.1
"""Seconds between two messages about the same job."""


class Reporter:
    """Sends the progress that jobs report. What comes too soon is kept back until it is time, or the job ends;
    what comes then takes its place."""

    def __init__(self, send: Callable[[Progress], None]) -> None:
        self._send = send
        self._due: dict[int, float] = {}
        """Token → when the next message may be sent."""
        self._kept: dict[int, Progress] = {}
        self._lock = threading.Lock()
        self._waker: threading.Event | None = None

    def tell(self, token: int, done: float, total: float | None, note: str) -> None:
        message = Progress(token, done, total, note)
        if self._is_too_soon(token):
            self._keep(message)
            return
        with self._lock:  # so that an older one, sent by another thread, does not come later
            if not self._is_too_soon(token):
                self._kept.pop(token, None)
                self._send(message)
                self._due[token] = time.monotonic() + INTERVAL
                return
        self._keep(message)

    def end(self, token: int) -> None:
        """Nothing is kept back of a job that ends."""
        if token in self._due:
            with self._lock:
                del self._due[token]
                kept = self._kept.pop(token, None)
                if kept is not None:
                    self._send(kept)

    def _is_too_soon(self, token: int) -> bool:
        return time.monotonic() < self._due.get(token, 0.0)

    def _keep(self, message: Progress) -> None:
        is_first = message.token not in self._kept
        self._kept[message.token] = message
        if self._waker is None:
            self._waker = threading.Event()
            threading.Thread(target=self._send_kept, name="onceflow-progress", daemon=True).start()
        if is_first:
            self._waker.set()

    def _send_kept(self) -> None:
        """In a thread of its own."""
        assert self._waker is not None
        while self._waker.wait():
            self._waker.clear()
            time.sleep(INTERVAL)
            for token in list(self._kept):
                with self._lock:
                    if self._is_too_soon(token):  # the job has reported something itself meanwhile
                        self._waker.set()
                        continue
                    kept = self._kept.pop(token, None)
                    if kept is not None and token in self._due:
                        self._send(kept)
                        self._due[token] = time.monotonic() + INTERVAL
