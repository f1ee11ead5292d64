"""Joining a run that exists: take its result, wait for it, or continue it.

    succeeded                               its result is read
    driven by this engine                   wait together with callers that wait already
    driven by another engine                listen to it, look again now and then, and report its outcome
    failed, cancelled, undone, paused       go on with it
    its engine is dead                      go on with it, once its workers are proved dead as well

If another engine was quicker with going on (`loading`), nothing has happened, and the run is looked at again.

All of this happens in the calling thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from onceflow.core.model import events
from onceflow.engine import proof_of_death
from onceflow.engine.handles import Completion, Redirected
from onceflow.engine.inspect.journal_view import Reading
from onceflow.engine.loading import load
from onceflow.engine.peers.follow import Following
from onceflow.engine.polling import StoppedDriver, looks
from onceflow.engine.runtime.facade import Adoption, Hub
from onceflow.engine.statuses import ACTIVE, AT_REST, ENDED
from onceflow.engine.submission import Submission
from onceflow.errors import NoSuchRun, OnceflowError
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place

MOST_RUNS = 2**31


class Attaching:
    def __init__(self, home: Place, hub: Hub, reading: Reading) -> None:
        self._home = home
        self._hub = hub
        self._reading = reading

    def attach(
        self,
        run: str,
        completion: Completion,
        again: Submission | None = None,
        cancel: events.Cancel | None = None,
    ) -> None:
        """Returns as soon as the run is driven here, or has ended; `completion` has its outcome then, or gets it later.
        `again`, if given, is the same submission with the code as it is now. With `cancel`, a run without a driver is
        cancelled instead of going on."""

        def go_on(row: RunRow) -> bool:
            return self._go_on(row, completion, again, cancel)

        self._look(run, completion, go_on, is_cancelled=cancel is not None)

    def take(self, row: RunRow, completion: Completion) -> bool:
        """Continues a run that has not come to rest, if it has no driver and no other engine is quicker. Does not
        wait."""
        if not self.can_be_driven(row):
            return False
        self._wait_for_workers(row)
        return self._go_on(row, completion, None, None)

    def wait_for(self, run: str, completion: Completion) -> None:
        """Returns when the run has come to rest, on any engine; `completion` then has its outcome."""
        self._look(run, completion, None)

    def _look(
        self,
        run: str,
        completion: Completion,
        go_on: Callable[[RunRow], bool] | None,
        *,
        is_cancelled: bool = False,
    ) -> None:
        """Returns as soon as the run is driven here, or has ended. If it has no driver, `go_on` is called until it
        reports success; without `go_on`, another engine continues the run."""
        waited = go_on is None
        stopped = StoppedDriver(self._home)
        with contextlib.closing(Following(self._home, completion)) as following:
            for _ in looks(following.rest):
                row = self._home.journal.get_run(run)
                if row is None:
                    raise NoSuchRun(run)
                driven = self._hub.find(run)
                over = row.status in ENDED if is_cancelled else row.status == "succeeded"
                if over or (waited and row.status in AT_REST):
                    following.finish()
                    completion.end(self._reading.ending(row))
                    return
                if driven is not None:
                    driven.wait_until_accepted()
                    if not isinstance(driven.error, Redirected):  # else another engine was quicker
                        completion.follow(driven)
                        return
                elif not self.can_be_driven(row):
                    if not self._hub.is_busy_with(run):
                        waited = True
                        following.begin(row)
                        stopped.look(row)
                elif go_on is not None:
                    self._wait_for_workers(row)
                    if go_on(row):
                        return

    def _wait_for_workers(self, row: RunRow) -> None:
        if row.status not in AT_REST and row.owner is not None and row.owner != self._home.engine:
            proof_of_death.wait_for_workers(self._home.path, row.owner)

    def adopt_parked(self, owner: str) -> None:
        """Runs that only wait, which a dead engine has left, are woken here from now on. They are not loaded: there may
        be very many."""
        rows = self._home.journal.owned(owner, sorted(ACTIVE), MOST_RUNS, parked=True)
        if rows:
            proof_of_death.wait_for_workers(self._home.path, owner)
            self._hub.adopt_parked(rows)

    def rests_here(self, row: RunRow) -> bool:
        """Whether it waits, and this engine drives it again when it is time."""
        return row.due is not None and self._hub.is_parked(row.id)

    def can_be_driven(self, row: RunRow) -> bool:
        """Whether no engine drives it."""
        if self._hub.is_busy_with(row.id):
            return False
        return (
            row.status in AT_REST
            or row.owner is None
            or row.owner == self._home.engine
            or not self._home.engines.is_alive(row.owner)
        )

    def _go_on(
        self, row: RunRow, completion: Completion, again: Submission | None, cancel: events.Cancel | None
    ) -> bool:
        """False if another engine was quicker."""
        try:
            make = load(self._home, row, again, cancel)
        except Redirected:
            return False
        except OnceflowError as error:
            completion.end(None, error)
            return True
        driven = self._hub.expect(row.id, row.name, completion.feeds)

        def pass_on() -> None:
            if not isinstance(driven.error, Redirected):
                completion.end(driven.ending, driven.error)

        driven.when_done(pass_on)  # before it can be parked: then it is known that a caller depends on it
        self._hub.adopt(Adoption(make, driven))
        driven.wait_until_accepted()
        return not isinstance(driven.error, Redirected)
