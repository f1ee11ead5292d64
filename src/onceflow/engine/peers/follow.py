"""Following a run that another engine drives, for callers that wait for it here."""

from __future__ import annotations

import time

from onceflow.engine.handles import Completion
from onceflow.engine.peers import client
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place

REMAINDER = 1.0
"""Seconds in which the last events of a run that has ended have to arrive."""


class Following:
    """Passes events on to the listeners of a completion. Used by one thread."""

    def __init__(self, home: Place, completion: Completion) -> None:
        self._home = home
        self._completion = completion
        self._events: client.Events | None = None
        self._asked: str | None = None
        """The engine that was asked last."""

    def begin(self, row: RunRow) -> None:
        """Follow the engine that drives the run, if a listener wants its events and that has not happened yet."""
        if row.owner is None or row.owner == self._asked or not self._completion.feeds:
            return
        self.close()
        self._asked = row.owner
        try:
            self._events = client.Events(self._home.path, row.owner, row.id)
        except client.Elsewhere:
            self._asked = None  # it has ended, or another engine drives it now
        except client.NotAnswered as problem:
            self._completion.tell("unheard", detail=str(problem))

    def rest(self, seconds: float) -> None:
        """Waits that long, and listens meanwhile. No longer than until the run has ended there."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._events is None:
                time.sleep(left)
                return
            if not self._pass_on(left):
                self.close()
                return

    def finish(self) -> None:
        """The run has ended: the last events are on their way."""
        if self._events is not None:
            deadline = time.monotonic() + REMAINDER
            while self._pass_on(deadline - time.monotonic()) and time.monotonic() < deadline:
                pass
            self.close()

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _pass_on(self, seconds: float) -> bool:
        """Whether there may be more."""
        assert self._events is not None
        told = self._events.next(max(0.0, seconds))
        for event in told or ():
            self._completion.pass_on(event)
        return told is not None
