"""Serving: an engine that takes runs without a driver, as one of a fleet.

Two kinds of runs have no driver: those that were submitted to any serving engine (*pending*), and those whose engine is
dead. A serving engine looks for both when another engine calls, when one of its own runs ends, and now and then,
because the dead do not call. Taking a run is going on with it (`attaching`): the claim is part of the first batch, so
if two want the same one, one commit decides and the other has done nothing.

Work is balanced by restraint. No engine drives more runs than its capacity, and none takes more of what is pending at
one look than its share, so that engines which look a moment later find theirs. Of what is there, each takes what has
the highest priority, and then the oldest; if there are several engines, each starts at a random one of the first,
because all of them would want the very first.

A run that cannot be driven here (its code is missing, say) is left to others for a while.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from onceflow.engine.attaching import Attaching
from onceflow.engine.handles import Completion, Redirected
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.statuses import ACTIVE
from onceflow.engine.submission import decode_settings
from onceflow.errors import NoSuchRun, OnceflowError, RunInterrupted, StorageError
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place

PAUSE = 0.25
"""Seconds between two looks, if no engine calls."""

RUNS_PER_WORKER = 16
"""The capacity of an engine, by default: runs wait for timers, retries and each other more than they run."""

MOST_WAITING = 10
"""Runs that wait for places in queues, for each that may be driven."""

LOOK = 200
"""Runs that wait longest, among which those with the highest priority are taken first."""

RECENT = 2.0
"""Seconds for which the number of serving engines is taken to be the same."""

UNFIT = 30.0
"""Seconds for which a run that could not be driven here is left to others."""

logger = logging.getLogger(__name__)


class Serving:
    """Starts on creation, in a thread of its own."""

    def __init__(self, home: Place, hub: Hub, attaching: Attaching, capacity: int) -> None:
        self.capacity = capacity
        self._home = home
        self._hub = hub
        self._attaching = attaching
        self._over = False
        self._unfit: dict[str, float] = {}
        """Runs that are left to others, and until when."""
        self._priorities: dict[str, int] = {}
        """Of runs that were looked at last."""
        self._counted = (-RECENT, 1)
        """When the serving engines were counted, and how many there were."""
        self._thread = threading.Thread(target=self._serve, name="onceflow serving", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more. Returns when that is so."""
        self._over = True
        self._hub.news.ring()
        self._thread.join()

    def _serve(self) -> None:
        while not self._over:
            known = self._hub.news.number
            try:
                self._look()
            except StorageError as error:
                logger.warning("runs cannot be looked for: %s", error)
            except Exception:
                logger.exception("runs cannot be looked for")
            self._hub.news.wait(known, PAUSE)

    def _look(self) -> None:
        """Takes what there is, as far as there is room."""
        for row in self._candidates():
            if self._over or self._room <= 0:
                return
            if self._is_fit(row.id):
                self._take(row)

    @property
    def _room(self) -> int:
        """How many more it may take. Runs that wait for a place in a queue count for little: others must not wait for
        that queue as well."""
        waiting = self._hub.waiting_runs()
        driven = len(self._hub.running) - waiting
        return min(self.capacity - driven, MOST_WAITING * self.capacity - waiting)

    def _candidates(self) -> list[RunRow]:
        room = self._room
        if room <= 0:
            return []
        found: list[RunRow] = []
        for owner, count in self._home.journal.owners(sorted(ACTIVE)).items():
            if owner is None:
                found += self._share(count, room)
            elif owner == self._home.engine or not self._home.engines.is_alive(owner):
                if owner != self._home.engine:
                    self._attaching.adopt_parked(owner)
                rows = self._home.journal.owned(owner, sorted(ACTIVE), room + len(self._hub.running))
                found += [row for row in rows if not self._hub.is_busy_with(row.id)]
        return found

    def _share(self, pending: int, room: int) -> list[RunRow]:
        engines = self._count_engines()
        most = min(room, -(-pending // engines))
        wanted = most if engines == 1 else most * engines
        if pending <= wanted:
            rows = self._home.journal.owned(None, sorted(ACTIVE), wanted)
        else:
            rows = self._highest_first(self._home.journal.owned(None, sorted(ACTIVE), max(wanted, LOOK)))[:wanted]
        start = random.randrange(engines) * most if engines > 1 else 0
        return (rows[start:] + rows[:start])[:most]

    def _highest_first(self, rows: list[RunRow]) -> list[RunRow]:
        """By priority; those of one priority stay as they are. A run's priority is read once."""
        known = self._priorities
        self._priorities = {row.id: known[row.id] if row.id in known else self._priority_of(row.id) for row in rows}
        return sorted(rows, key=lambda row: -self._priorities[row.id])

    def _priority_of(self, run: str) -> int:
        try:
            with self._home.journal.load(run) as loaded:
                return decode_settings(loaded.settings).priority
        except NoSuchRun:  # it was deleted meanwhile
            return 0

    def _count_engines(self) -> int:
        when, count = self._counted
        now = time.monotonic()
        if now - when >= RECENT:
            members = self._home.engines.members()
            count = max(1, len([row for row in members if row.alive and row.about.capacity is not None]))
            self._counted = (now, count)
        return count

    def _is_fit(self, run: str) -> bool:
        until = self._unfit.get(run)
        if until is not None and time.monotonic() >= until:
            del self._unfit[run]
            until = None
        return until is None

    def _take(self, row: RunRow) -> None:
        completion = self._hub.expect(row.id, row.name)
        if self._attaching.take(row, completion):
            completion.when_done(lambda: self._came_out(completion))

    def _came_out(self, completion: Completion) -> None:
        error = completion.error
        if error is not None and not isinstance(error, Redirected):
            self._unfit[completion.run] = time.monotonic() + UNFIT
            if not self._over:
                logger.warning("run %s does not go on here: %s", completion.run, error)


def drain(hub: Hub, grace: float) -> None:
    """Releases all runs that are driven here: tasks with an effect have `grace` seconds to end."""

    def let_go(how: Callable[[str, OnceflowError], None]) -> None:
        for run in hub.running:
            how(run, RunInterrupted(run, "its engine was asked to end; another one goes on"))

    deadline = time.monotonic() + grace
    let_go(hub.drain)
    if hub.running:
        logger.warning("%s runs are let go; tasks with an effect have %g seconds to end", len(hub.running), grace)
    known = hub.news.number
    while hub.running and (left := deadline - time.monotonic()) > 0:
        hub.news.wait(known, left)
        known = hub.news.number
    let_go(hub.interrupt)
    hub.wait_until_idle()
