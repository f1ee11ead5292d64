"""Runs that only wait, as the engine sees them: parked, woken, driven by workers (`delegation`), or claimed from a dead
engine.

Belongs to the loop's thread, except where it says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from onceflow.backends.local.delegated_runs import Driven
from onceflow.driver.driver import Driver
from onceflow.engine.handles import Completion, Latch
from onceflow.engine.runtime.delegation import Delegating
from onceflow.engine.runtime.driven_runs import DrivenRuns
from onceflow.engine.runtime.internal_jobs import Errands
from onceflow.engine.runtime.parking import SOON, Load, Parking, Waking
from onceflow.errors import OnceflowError, StorageError
from onceflow.storage.journal import NEVER, Claim, RunRow, Short, commit
from onceflow.storage.run_stores import Place

AT_ONCE = 1000
"""Runs that are claimed in one commit."""

logger = logging.getLogger(__name__)


class Parked(Protocol):
    """What an engine does with runs that only wait."""

    @property
    def unclaimed(self) -> Mapping[Driver, Completion | None]:
        """Drivers of runs that were parked here, until their claim is durable, and the callers that waited for the
        run."""

    def takes(self, due: float) -> bool:
        """Whether a run that is due then need not be in memory until then."""

    def park(self, run: str, due: float, completion: Completion) -> None: ...

    def wake(self, run: str, *, here: bool = False) -> None:
        """Have a run driven again that is parked here. With `here`, by this engine's thread."""

    def stop(self, run: str, reason: OnceflowError) -> None:
        """If it is parked here, no caller here waits for it any more."""

    def begun(self, driver: Driver, completion: Completion) -> None:
        """A run is driven here, which may have been parked."""

    def claimed(self, driver: Driver) -> None:
        """That is durable."""

    def ended(self, driver: Driver, *, is_elsewhere: bool) -> None:
        """The run is no longer driven here. `is_elsewhere`: its claim was refused."""

    def is_parked(self, run: str) -> bool:
        """Whether it only waits, and is driven again here when it is time. From any thread."""

    def is_away(self, run: str) -> bool:
        """Whether a worker has it. From any thread."""

    def wait_until_back(self) -> bool:
        """Returns when workers have no runs. Whether they had some. From any thread but the loop's."""

    def adopt(self, rows: Sequence[RunRow]) -> None:
        """Runs that only wait, and that an engine has left, are driven again here when it is time. From any thread."""

    def look_for_mail(self) -> None:
        """Others may have sent events to runs that are driven, or parked, here."""


class ParkedRuns:
    """`load` has runs driven again (`parking`), `look_for_commands` carries out what others left for runs, `errands`
    finds the engines that send errands to workers, and `accepted` is called with what workers have done with a run.
    Workers go on with runs by themselves if `may_delegate`."""

    def __init__(
        self,
        home: Place,
        runs: DrivenRuns,
        load: Load,
        look_for_commands: Callable[[], None],
        errands: Callable[[], Errands | None],
        accepted: Callable[[Driven], None],
        *,
        may_delegate: bool,
    ) -> None:
        self._home = home
        self._runs = runs
        self._loop = runs.loop
        self._look_for_commands = look_for_commands
        self._errands = errands
        self._may_delegate = may_delegate
        self.unclaimed: dict[Driver, Completion | None] = {}
        self.parking = Parking(runs.loop, runs.now, load)
        self.delegating = Delegating(home.engine, home.journal, runs.loop, self.parking, accepted)
        self._newest_mail = 0
        """The number of the newest event that was seen."""

    # -- driven runs, and parked ones ----------------------------------------------------------------------------------

    def takes(self, due: float) -> bool:
        return due - self._runs.now() > SOON

    def park(self, run: str, due: float, completion: Completion) -> None:
        self.parking.park(run, due, completion)

    def wake(self, run: str, *, here: bool = False) -> None:
        self.parking.wake(run, here=here)

    def stop(self, run: str, reason: OnceflowError) -> None:
        if run in self.parking and (completion := self.parking.take(run)) is not None:
            completion.end(None, reason)

    def begun(self, driver: Driver, completion: Completion) -> None:
        if not self.parking.knows(driver.id):
            return
        waiting = self.unclaimed[driver] = self.parking.take(driver.id)  # if it was woken, that is used up here
        if waiting is not None and waiting is not completion:
            waiting.follow(completion)

    def claimed(self, driver: Driver) -> None:
        self.unclaimed.pop(driver, None)

    def ended(self, driver: Driver, *, is_elsewhere: bool) -> None:
        was_parked, waiting = driver in self.unclaimed, self.unclaimed.pop(driver, None)
        if was_parked and is_elsewhere:  # it was loaded before it was parked: look again
            self.parking.park(driver.id, NEVER, waiting)
            self.parking.wake(driver.id)

    def is_parked(self, run: str) -> bool:
        return run in self.parking

    # -- runs that were woken ------------------------------------------------------------------------------------------

    def wake_later(self, run: Waking, error: StorageError) -> None:
        """A run was woken, and could not be loaded. From any thread."""
        self._loop.post(lambda: self.parking.wake_later([run], error))

    def not_driven(self, run: str) -> None:
        """A run was woken, and is not driven here after all. From any thread."""
        self._loop.post(lambda: self.parking.forget(run))

    def may_delegate(self, short: Short) -> bool:
        """Whether workers may go on with a run that was woken. From any thread."""
        return self._may_delegate and self.delegating.suits(short)

    def delegate(self, runs: Sequence[Short]) -> None:
        """Have workers go on with runs that were woken."""
        errands = self._errands()
        if errands is not None and self._runs.closed is None:
            self.delegating.send(self._still_woken(runs), errands)

    def _still_woken(self, runs: Sequence[Short]) -> list[Short]:
        """Without those that are being continued here, or have been since they were loaded."""
        found: dict[str, Short] = {}
        for short in runs:
            run = short.run.id
            if run in self.parking or run in self.delegating:
                self.parking.wake(run)
            elif run not in self._runs.active and self.parking.was_woken(run):
                found[run] = short
        return list(found.values())

    def is_away(self, run: str) -> bool:
        return run in self.delegating

    def wait_until_back(self) -> bool:
        if not self.delegating:
            return False
        back = Latch()
        self._loop.post(lambda: self.delegating.when_back(back.open))
        back.wait()
        return True

    # -- runs of a dead engine -----------------------------------------------------------------------------------------

    def adopt(self, rows: Sequence[RunRow]) -> None:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            claims = [Claim(row.id, self._home.engine, row.epoch) for row in some]
            claimed = commit(self._home.journal, claims, limited=False)
            if not claimed.ok:  # another engine was quicker with one of them
                pairs = zip(some, claims, strict=True)
                some = [row for row, claim in pairs if commit(self._home.journal, [claim], limited=False).ok]
            dues = [(row.id, NEVER if row.due is None else row.due) for row in some]
            self._loop.post(lambda dues=dues: self.park_claimed(dues))  # type: ignore[misc]
        self._loop.post(lambda: self.look_for_mail(everywhere=True))
        self._loop.post(self._look_for_commands)  # their engine may have died before it carried them out

    def park_claimed(self, dues: Sequence[tuple[str, float]]) -> None:
        """Runs were claimed that only wait. One that was resumed here since then stays with its driver, or as that has
        parked it. If its driver has yet to claim it, and is refused, the run is looked at again (`ended`)."""
        free: list[tuple[str, float]] = []
        for run, due in dues:
            driven = self._runs.active.get(run)
            if driven is not None:
                if driven[0] in self._runs.claimed:
                    self.unclaimed.setdefault(driven[0], None)
            elif run not in self.parking and run not in self.delegating and not self.parking.was_woken(run):
                free.append((run, due))
        self.parking.park_all(free)

    # -- events --------------------------------------------------------------------------------------------------------

    def look_for_mail(self, *, everywhere: bool = False) -> None:
        """Some runs may have come here with their mail, long after it was sent: then it is looked for `everywhere`."""
        try:
            found = self._home.journal.runs_with_mail(self._home.engine, 0 if everywhere else self._newest_mail)
        except StorageError as error:
            logger.error("mailboxes cannot be read: %s", error)
            return
        self._newest_mail = max(self._newest_mail, *found.values(), 0)
        got_mail(self._runs, self, found)

    def close(self) -> None:
        self.parking.close(self._runs.closed)


def got_mail(runs: DrivenRuns, parked: Parked, sent: Iterable[str]) -> None:
    """Events were sent to runs. Concerns those that are driven, or parked, here."""
    for run in sent:
        parked.wake(run)
        runs.with_driver(run, Driver.look_for_mail)
