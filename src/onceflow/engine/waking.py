"""Waking parked runs: many at once, in a thread of its own.

Those without waiting callers are handed to workers, if these may go on with them; the others are loaded and driven
here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from onceflow.engine.handles import Completion, Redirected
from onceflow.engine.loading import FEW_ENTRIES, load
from onceflow.engine.runtime.driven_runs import interrupted
from onceflow.engine.runtime.facade import Adoption, Hub
from onceflow.engine.runtime.parked_runs import ParkedRuns
from onceflow.engine.runtime.parking import Waking
from onceflow.errors import OnceflowError, StorageDamaged, StorageError
from onceflow.storage.journal import RunRow, Short
from onceflow.storage.run_stores import Place

logger = logging.getLogger(__name__)


class Waker:
    """`wait_for` returns when a run has come to rest that another engine drives, and gives its completion the
    outcome."""

    def __init__(self, home: Place, wait_for: Callable[[str, Completion], None]) -> None:
        self._home = home
        self._wait_for = wait_for
        self._woken_before: list[Completion] = []
        """Those of the last time."""

    def wake(self, hub: Hub, parked: ParkedRuns, runs: Sequence[Waking]) -> None:
        """Goes on with runs that this engine has parked, or has workers do that. The completion of each, if a caller
        waits, gets its outcome. Does not wait until that is durable, but until the workers are not too far behind, and
        those are driven that were woken before: what only waits takes memory, and the garbage collector's time."""
        hub.wait_for_room()
        short = self._home.journal.load_short([run for run, _, _ in runs], FEW_ENTRIES - 1)
        delegated: list[Short] = []
        adopted: list[Adoption] = []
        for run, completion, here in runs:
            found = short.get(run)
            alone = completion is None and not here and found is not None and self._is_parked(found.run)
            if alone and found is not None and parked.may_delegate(found):
                delegated.append(found)
                continue
            try:
                one = self._wake(hub, run, completion, found)
            except StorageError as error:
                parked.wake_later(Waking(run, completion, here), error)
                continue
            if one is None:
                parked.not_driven(run)
            else:
                adopted.append(one)
        if delegated:
            hub.delegate(delegated, parked.delegate)
        if adopted:
            hub.adopt(*adopted)
        for driven in self._woken_before:
            driven.wait_until_accepted()
        self._woken_before = [driven for _, driven, _ in adopted]

    def _is_parked(self, row: RunRow) -> bool:
        """Whether no other engine has driven meanwhile what was parked here."""
        return row.due is not None and row.owner == self._home.engine

    def _wake(self, hub: Hub, run: str, completion: Completion | None, short: Short | None) -> Adoption | None:
        """None if another thread has driven it meanwhile. Raises `StorageError` if it is worth another try."""
        row = self._home.journal.get_run(run) if short is None else short.run
        if row is None or not self._is_parked(row):
            if completion is not None:
                self._wait_aside(completion)
            return None
        try:
            make = load(self._home, row, short=short)
        except Exception as error:  # whatever it is, it concerns this run only
            if isinstance(error, StorageError) and not isinstance(error, StorageDamaged):
                raise
            told: OnceflowError = interrupted(run, f"{type(error).__name__}: {error}", error)
            if isinstance(error, OnceflowError):
                told = error
            if completion is None:
                logger.warning("run %s waits, and cannot be woken: %s", run, told)
            elif isinstance(told, Redirected):
                self._wait_aside(completion)
            else:
                completion.end(None, told)
            return None
        if completion is None:
            return Adoption(make, hub.expect(row.id, row.name))
        return Adoption(make, completion, self._wait_aside)

    def _wait_aside(self, completion: Completion) -> None:
        """Another engine has driven a run that was parked here: its waiting callers wait for that one."""

        def wait() -> None:
            try:
                self._wait_for(completion.run, completion)
            except OnceflowError as error:
                completion.end(None, error)

        threading.Thread(target=wait, name=f"onceflow wait {completion.run}", daemon=True).start()
