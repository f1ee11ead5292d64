"""Task variables in a worker: requested from the engine, and cached until one may have changed.

How often anything was committed to any variable stands in the page that worker and engine share, and the engine counts
there before it starts what is to see it. So as long as the count is the same, what was read last is what is committed,
and reading it again costs no message. Tasks that look at a flag all the time may do so.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from onceflow.backends.local.messages import Read, Told
from onceflow.errors import Stopped
from onceflow.values import context

CHANGES = 3
"""The place of the count in the page."""

MOST_REMEMBERED = 1000


class Variables:
    """Thread-safe. `send` brings a question to the engine, whose answer comes to `answer` in another thread."""

    def __init__(self, send: Callable[[Read], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[threading.Event, list[Told]]] = {}
        self._remembered: dict[tuple[str, str], tuple[int, bytes | None]] = {}
        """(run, name) → the count when it was asked for, and the packed value."""

    def read(self, token: int, name: str, changes: int) -> bytes | None:
        """What is committed in the run of this job. `changes` is the count now."""
        running = context.running.get()
        assert running is not None
        key = (running["run"], name)
        known = self._remembered.get(key)
        if known is not None and known[0] == changes:
            return known[1]
        value = self._ask(token, name)
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = (changes, value)
        return value

    def answer(self, told: Told) -> None:
        asked = self._asked.get(told.number)
        if asked is not None:  # else the job that asked was stopped
            asked[1].append(told)
            asked[0].set()

    def _ask(self, token: int, name: str) -> bytes | None:
        number = next(self._numbers)
        answered, answers = self._asked[number] = (threading.Event(), [])
        try:
            self._send(Read(number, token, name))
            answered.wait()
        finally:
            del self._asked[number]
        if not answers[0].known:
            raise Stopped  # the engine does not wait for this job any more
        return answers[0].value
