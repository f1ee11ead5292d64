"""Pausing a run, wherever it is driven: nothing more starts, what runs may end and is saved, and then the run rests.

A paused run is in no engine's memory. It is continued like any run without a driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from onceflow.engine.run_commands.reach import Reach, RunCommand
from onceflow.engine.statuses import AT_REST, Status
from onceflow.storage.journal import RunRow, SetStatus

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Pausing(RunCommand, frozen=True):
    """A run is to rest."""

    kind: ClassVar[str] = "pause"

    def carry_out(self, driver: Driver) -> None:
        driver.pause()


def ask_to_pause(rows: Iterable[RunRow], reach: Reach) -> None:
    """All of them, without waiting."""
    reach.ask([row for row in rows if row.status not in AT_REST], Pausing())


def pause(row: RunRow, reach: Reach) -> Status:
    """The status of the run when nothing of it runs any more: paused, or the status that it reached first."""

    def undriven(row: RunRow) -> None:
        # If another engine continues it meanwhile, this changes nothing, and that engine is notified next.
        reach.write_undriven(row, SetStatus(row.id, row.epoch + 1, "paused"))

    return cast("Status", reach.bring_to_rest(row, Pausing(), AT_REST, undriven).status)
