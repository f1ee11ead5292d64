"""Polling: waits for the status of a run that another process drives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from onceflow.storage import lock_holders, lock_waits
from onceflow.storage.locks import Engines

if TYPE_CHECKING:
    from onceflow.storage.journal import RunRow
    from onceflow.storage.run_stores import Place

FIRST, LAST = 0.005, 0.25
"""Seconds between two looks; twice as long each time."""


class StoppedDriver:
    """Says, once, that the run that is waited for is driven by a process that is stopped (Ctrl-Z)."""

    def __init__(self, home: Place) -> None:
        from onceflow.storage.home import ENGINES  # modules that only follow a log have no use for a home

        self._engines = Engines(home.path / ENGINES)
        self._next = time.monotonic() + lock_waits.TELL_AFTER
        self._told = False

    def look(self, row: RunRow) -> None:
        """For each look at the run. Seldom does anything."""
        if self._told or row.owner is None or time.monotonic() < self._next:
            return
        self._next += lock_waits.TELL_AFTER
        process = self._engines.process(row.owner)
        if process is not None and process.is_stopped:
            self._told = True
            lock_waits.warn(
                "waiting for run %s, which is driven by %s", row.name or row.id, lock_holders.tell([process])
            )


def looks(wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Never ends; waits before each look but the first."""
    pause = FIRST
    while True:
        yield
        wait(pause)
        pause = min(2 * pause, LAST)
