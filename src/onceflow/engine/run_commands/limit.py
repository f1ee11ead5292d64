"""How many chunks of a loop may be in flight: changing that while the run goes on, wherever it is driven."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from onceflow.core.model import events
from onceflow.engine.run_commands.reach import Reach, RunCommand
from onceflow.engine.statuses import AT_REST
from onceflow.errors import InvalidOption, RunNotActive
from onceflow.storage.journal import RunRow

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Limiting(RunCommand, frozen=True):
    """Which loop, and how many of its chunks may be in flight."""

    kind: ClassVar[str] = "limit"
    lasts: ClassVar[bool] = True
    loop: str
    limit: int

    def carry_out(self, driver: Driver) -> None:
        driver.tell(events.Limit(self.loop, self.limit))


def limit(row: RunRow, how: Limiting, reach: Reach) -> None:
    """The caller does not wait for it: another engine does it as soon as it hears of it."""
    if how.limit < 1:
        raise InvalidOption(how.loop, f"spawn_limit must be an int of at least 1, not {how.limit!r}", kind="loop")
    if row.status in AT_REST or not reach.is_driven(row):
        raise RunNotActive(row.name or row.id, row.status)
    reach.ask([row], how)
