"""Leases: when an engine on another host counts as alive or dead (design 2.6). Pure: the time is a parameter.

A lease is a promise in the database: until `expires`, by the database's own clock, no process takes the engine for
dead. The engine knows no clock but its own, which may go a little faster or slower and has another idea of the time. So
it counts from the moment at which it *asked*: whenever the database wrote the lease, that was later, and so the lease
ends later than the engine reckons. What remains is the rate of the clocks, and the time that stopping takes; for both a
part of the lease is kept in reserve.

Two clocks are compared nowhere.
"""

from __future__ import annotations

import msgspec

SECONDS = 10.0
"""That a lease lasts, by default."""

RENEWALS = 4
"""In the time of one lease, so that some may fail."""

RESERVE = 0.2
"""Of a lease. At that much before its end an engine that could not renew it has nothing running any more. Clocks may
differ by some parts in a hundred, and workers take milliseconds to kill."""


class Holding(msgspec.Struct):
    """A lease as its holder sees it, by its own clock: seconds that go on while the machine sleeps."""

    seconds: float
    asked: float | None = None
    """When it was last asked for, of those times at which it was granted."""

    def granted(self, asked: float) -> None:
        """What was asked for at this moment has been written."""
        if self.asked is None or asked > self.asked:
            self.asked = asked

    @property
    def renew_at(self) -> float:
        assert self.asked is not None
        return self.asked + self.seconds / RENEWALS

    @property
    def stop_at(self) -> float:
        """From then on nothing may run."""
        assert self.asked is not None
        return self.asked + self.seconds * (1 - RESERVE)
