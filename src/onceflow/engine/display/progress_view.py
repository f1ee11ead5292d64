"""Progress of runs, polled by a display: counts, speed, and estimated time left of each run.

Looking costs the engines that are looked at some of their time, so it is done rarely enough: after a look that took
long, the next one comes later.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.run_info import RunInfo
from onceflow.engine.statuses import AT_REST
from onceflow.errors import NoSuchRun, OnceflowError
from onceflow.planning.estimates import Estimate

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine

MOST_RUNS = 20
"""Runs that are looked into at a time."""

RECENT = 10.0
"""Seconds over which the rate is taken."""

LARGE = 2_000
"""Tasks of a run that is not read from the journal again just because it has ended."""

ESTIMATE = 3.0
"""Seconds for which an estimate is good."""

SHARE = 20
"""The pause after a look is at least this many times as long as the look."""


class View(msgspec.Struct, frozen=True):
    """One run at one moment."""

    info: RunInfo
    overview: Overview | None
    """None if unknown."""
    elapsed: float
    """Seconds that it has been running, from the viewer's point of view."""
    rate: float | None = None
    """Tasks that became done per second, lately. None if that is not known yet."""
    estimate: Estimate | None = None
    """Estimate of the time left, if earlier runs or its own tasks provide one."""

    @property
    def has_ended(self) -> bool:
        """Whether no engine drives it (any more)."""
        return self.info.status in AT_REST or self.info.status == "interrupted"

    @property
    def is_blind(self) -> bool:
        """Whether it is driven elsewhere by an engine that cannot be asked what runs there. In a run that waits,
        nothing runs."""
        is_going_on = not self.has_ended and self.info.status != "waiting"
        return is_going_on and self.overview is not None and not self.overview.live


class Looking:
    """Looks at runs. `since` says when one began: at its creation, or when a caller began to wait for it."""

    def __init__(self, engine: Engine, since: Callable[[RunInfo], float] = lambda info: info.created) -> None:
        self.hidden = 0
        """How many runs were too many for the last look."""
        self._engine = engine
        self._since = since
        self._finished: dict[str, deque[tuple[float, int]]] = {}
        """Run → when so many tasks had been finished."""
        self._last: dict[str, Overview] = {}
        """Run → what was seen of it last."""
        self._estimates: dict[str, tuple[float, float, Estimate | None]] = {}
        """Run → when an estimate was made, when the next one is due, and what it was."""
        self._cost = 0.0

    def look(self, runs: Iterable[str]) -> list[View]:
        """Those of these runs that still exist; not too many of them (`hidden`)."""
        begun = time.monotonic()
        views: list[View] = []
        self.hidden = 0
        for run in runs:
            if len(views) == MOST_RUNS:
                self.hidden += 1
                continue
            with contextlib.suppress(NoSuchRun):
                views.append(self._view(self._engine.info(run)))
        self._cost = time.monotonic() - begun
        return views

    def pause(self, interval: float) -> float:
        """Seconds until the next look."""
        return max(interval, SHARE * self._cost)

    def _view(self, info: RunInfo) -> View:
        until = info.updated if info.status in AT_REST else time.time()
        elapsed = max(0.0, until - self._since(info))
        view = View(info, self._last.get(info.id), elapsed)
        if not view.has_ended or view.overview is None or view.overview.total <= LARGE:
            view = msgspec.structs.replace(view, overview=self._survey(info))
        estimate = None if view.has_ended else self._estimate(info.id)
        return msgspec.structs.replace(view, rate=self._rate(info.id, view.overview), estimate=estimate)

    def _estimate(self, run: str) -> Estimate | None:
        """One that was made a moment ago, less that moment, or a new one: that costs more than a look."""
        now = time.monotonic()
        made, due, found = self._estimates.get(run, (0.0, 0.0, None))
        if now >= due:
            try:
                found = self._engine.estimate(run)
            except NoSuchRun:
                raise
            except OnceflowError:  # its tasks are unknown
                found = None
            made = time.monotonic()
            self._estimates[run] = made, made + max(ESTIMATE, SHARE * (made - now)), found
        if found is None:
            return None
        passed = now - made if now > made else 0.0
        return Estimate(max(0.0, found.low - passed), max(0.0, found.high - passed), found.samples)

    def _survey(self, info: RunInfo) -> Overview | None:
        try:
            overview = self._last[info.id] = self._engine.survey(info.id)
        except NoSuchRun:
            raise
        except OnceflowError:  # its code is not there, say; the run can be named all the same
            return None
        return overview

    def _rate(self, run: str, overview: Overview | None) -> float | None:
        if overview is None:
            return None
        now = time.monotonic()
        seen = self._finished.setdefault(run, deque())
        seen.append((now, overview.finished if overview.live else overview.counts.get("done", 0)))
        while len(seen) > 2 and now - seen[1][0] > RECENT:
            seen.popleft()
        (first, before), (last, after) = seen[0], seen[-1]
        return max(0, after - before) / (last - first) if last > first else None
