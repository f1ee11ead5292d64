"""Virtual time. It stands still while code runs, and jumps when every task waits."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

from onceflow.testing.kit.itself import Itself

Action = Callable[[], object]

START = 946_684_800.0
"""The first second of the year 2000, UTC: where time begins by default."""


class Waiting(Protocol):
    """Lets virtual time pass on behalf of a caller."""

    def wait(self, seconds: float) -> None: ...


class Clock(Itself):
    """The time of a memory engine.

        engine.clock.now                        # seconds since 1970
        engine.clock.advance(3600)              # an hour passes: what is due in it happens
        monkeypatch.setattr(time, "sleep", engine.clock.sleep)

    Delays of retries and timeouts are measured with it, and so is `asyncio.sleep` in async tasks.
    """

    def __init__(self, now: float = START) -> None:
        super().__init__()
        self._now = now
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._waiting: Waiting | None = None

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def time(self) -> float:
        """The same as `now`, to be put in the place of `time.time`."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass. What is due meanwhile happens: retries, timeouts, and all that follows from them."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        if self._waiting is None:
            self.jump(self._now + seconds)
        else:
            self._waiting.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """To be put in the place of `time.sleep`. In a task it makes the attempt last that long: if it runs out of time
        meanwhile, or is cancelled, `Stopped` is raised, as it would be in a worker."""
        self.advance(seconds)

    # -- for the engine ------------------------------------------------------------------------------------------------

    def attach(self, waiting: Waiting) -> None:
        """From now on it says what happens while time passes."""
        self._waiting = waiting

    def later(self, seconds: float, action: Action) -> None:
        heapq.heappush(self._timers, (self._now + seconds, next(self._numbers), action))

    def forget(self) -> None:
        """Forget everything that is due: the process that wanted it is dead."""
        self._timers.clear()

    @property
    def next_due(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def ring(self) -> None:
        """Jump to what is due next, and do it."""
        due, _, action = heapq.heappop(self._timers)
        self._now = max(self._now, due)
        action()

    def jump(self, to: float) -> None:
        """Run everything that is due until then, and nothing after it."""
        while self._timers and self._timers[0][0] <= to:
            self.ring()
        self._now = max(self._now, to)

    def __repr__(self) -> str:
        return f"<clock at {self._now}>"
