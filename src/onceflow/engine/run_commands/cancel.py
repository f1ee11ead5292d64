"""Cancelling a run, wherever it is driven."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from onceflow.core.model import events
from onceflow.engine.run_commands.reach import Reach, RunCommand
from onceflow.engine.statuses import ENDED, Status
from onceflow.storage.journal import RunRow

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.attaching import Attaching
    from onceflow.engine.runtime.facade import Hub

GRACE = 0.5
"""Seconds that begun irrevocable attempts have to finish, by default."""


class Cancelling(RunCommand, frozen=True):
    """How a run is to be cancelled."""

    kind: ClassVar[str] = "cancel"
    interrupts_waiting: ClassVar[bool] = True
    undo: bool = False
    grace: float = GRACE

    def carry_out(self, driver: Driver) -> None:
        driver.cancel(self.undo, self.grace)


def ask_to_cancel(rows: Iterable[RunRow], how: Cancelling, reach: Reach) -> None:
    """For all of them, without waiting."""
    reach.ask([row for row in rows if row.status not in ENDED], how)


def cancel(row: RunRow, how: Cancelling, reach: Reach, hub: Hub, attaching: Attaching) -> Status:
    """How the run ended. A run that is paused, and is so again because its undo still fails, stays paused."""

    def undriven(row: RunRow) -> None:
        driven = hub.expect(row.id, row.name)
        hub.warm_up()
        attaching.attach(row.id, driven, cancel=events.Cancel(how.undo))
        driven.wait()
        if driven.error is not None:
            raise driven.error

    return cast("Status", reach.bring_to_rest(row, how, ENDED, undriven).status)
