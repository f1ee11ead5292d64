"""Makes a memory engine look at schedules when its clock moves."""

from __future__ import annotations

from onceflow.engine.schedules.clock import Keeper, Runs
from onceflow.errors import RunInterrupted
from onceflow.storage.journal import Journal
from onceflow.testing.kit.clock import Clock


class Alarm:
    """Set to when something is due, and to nothing else: time may jump from one to the next."""

    def __init__(self, journal: Journal, runs: Runs, clock: Clock) -> None:
        self._keeper = Keeper(journal, runs, self.poke)
        self._clock = clock
        self._number = 0
        """Of the one that counts: an earlier one may still ring."""
        self._looking = self._poked = self._stopped = False

    def poke(self) -> None:
        if self._looking:  # it lets things happen, of which this may be one
            self._poked = True
        elif not self._stopped:
            self._set(0.0)

    def stop(self) -> None:
        self._stopped = True

    def _set(self, seconds: float) -> None:
        self._number += 1
        number = self._number
        self._clock.later(seconds, lambda: self._ring(number))

    def _ring(self, number: int) -> None:
        if number != self._number or self._looking or self._stopped:
            return
        self._looking, self._poked = True, False
        wait: float | None = 0.0
        try:
            wait = self._keeper.look()
        except RunInterrupted:
            """The engine died meanwhile. It looks again as the next one."""
        finally:
            self._looking = False
        if self._poked:
            wait = 0.0
        if wait is not None and not self._stopped:
            self._set(max(0.0, wait))
