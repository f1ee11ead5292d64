"""How many chunks of a loop may be in flight: changing that while the run goes on, wherever it is driven."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from onceflow.core.model import events
from onceflow.engine.run_commands.reach import tell
from onceflow.engine.statuses import AT_REST
from onceflow.errors import InvalidOption, RunNotActive

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.runtime.host import Hub
    from onceflow.storage.journal import RunRow
    from onceflow.storage.run_stores import Place

LIMIT = "limit"
"""The kind of command that limits a loop."""


class Limiting(msgspec.Struct, frozen=True):
    """Which loop, and how many of its chunks may be in flight."""

    loop: str
    limit: int

    def carry_out(self, driver: Driver) -> None:
        driver.tell(events.Limit(self.loop, self.limit))


def limit(row: RunRow, how: Limiting, home: Place, hub: Hub) -> None:
    """Nobody waits for it: another engine does it as soon as it hears of it."""
    if how.limit < 1:
        raise InvalidOption(how.loop, f"spawn_limit must be an int of at least 1, not {how.limit!r}", kind="loop")
    if row.status in AT_REST or (hub.find(row.id) is None and row.owner is None):
        raise RunNotActive(row.name or row.id, row.status)
    if not hub.limit(row.id, how) and row.owner is not None:
        tell(home, row.id, row.owner, LIMIT, msgspec.msgpack.encode(how))
