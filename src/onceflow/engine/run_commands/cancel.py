"""Cancelling a run, wherever it is driven: here, by another engine, or nowhere at the moment.

Another engine is told through the journal, and its bell is rung. Whoever cancels waits until the run is at rest: only
then is it true that nothing of it runs any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import msgspec

from onceflow.core.model import events
from onceflow.engine.polling import StoppedDriver, looks
from onceflow.engine.run_commands.reach import tell_all
from onceflow.engine.statuses import AT_REST, ENDED
from onceflow.errors import NoSuchRun
from onceflow.storage.journal import SendCommand

if TYPE_CHECKING:
    from onceflow.engine.attaching import Attaching
    from onceflow.engine.runtime.host import Hub
    from onceflow.engine.statuses import Status
    from onceflow.storage.journal import RunRow
    from onceflow.storage.run_stores import Place

CANCEL = "cancel"
"""The kind of command that cancels a run."""

GRACE = 0.5
"""Seconds that begun irrevocable attempts have to finish, unless told otherwise."""


class Cancelling(msgspec.Struct, frozen=True):
    """How a run is to be cancelled."""

    undo: bool = False
    grace: float = GRACE
    epoch: int | None = None
    """Of the run as it was when somebody wanted that, if an engine is told: what goes on later is not meant."""


def ask_to_cancel(rows: Iterable[RunRow], how: Cancelling, home: Place, hub: Hub) -> None:
    """Leaves the command for all of them in one commit, and does not wait. A run without an engine starts nothing."""
    elsewhere = [row for row in rows if row.status not in ENDED and not hub.cancel(row.id, how)]
    tell_all(home, [(row.owner, _command(row, how)) for row in elsewhere if row.owner is not None])


def _command(row: RunRow, how: Cancelling) -> SendCommand:
    return SendCommand(row.id, CANCEL, msgspec.msgpack.encode(msgspec.structs.replace(how, epoch=row.epoch)))


def cancel(row: RunRow, how: Cancelling, home: Place, hub: Hub, attaching: Attaching) -> Status:
    """How the run ended. A run that is paused, and is so again because its undo still fails, stays paused."""
    told: int | None = None
    stopped = StoppedDriver(home)
    for _ in looks():
        if row.status in ENDED:
            break
        driven = hub.find(row.id)
        if driven is not None:
            if hub.cancel(row.id, how):
                driven.wait()
        elif attaching.can_be_driven(row):
            driven = hub.expect(row.id, row.name)
            hub.warm_up()
            attaching.attach(row.id, driven, cancel=events.Cancel(how.undo))
            driven.wait()
            if driven.error is not None:
                raise driven.error
        elif row.owner is not None and row.epoch == told:
            stopped.look(row)
        elif row.owner is not None:
            told = row.epoch
            tell_all(home, [(row.owner, _command(row, how))])
        now = home.journal.get_run(row.id)
        if now is None:
            raise NoSuchRun(row.id)
        row = now
        if driven is not None and row.status in AT_REST:
            break
    return cast("Status", row.status)
