"""Pausing a run, wherever it is driven: nothing more starts, what runs may end and is saved, and then the run rests.

A paused run is in nobody's memory. Going on with it is going on with any run that nobody drives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import msgspec

from onceflow.engine.polling import StoppedDriver, looks
from onceflow.engine.run_commands.reach import tell_all
from onceflow.engine.statuses import AT_REST
from onceflow.errors import NoSuchRun
from onceflow.storage.journal import Claim, Failed, SendCommand, SetStatus, commit

if TYPE_CHECKING:
    from onceflow.engine.attaching import Attaching
    from onceflow.engine.runtime.host import Hub
    from onceflow.engine.statuses import Status
    from onceflow.storage.journal import RunRow
    from onceflow.storage.run_stores import Place

PAUSE = "pause"
"""The kind of command that pauses a run, if it still has the epoch in its body: what goes on later is not meant."""


def ask_to_pause(rows: Iterable[RunRow], home: Place, hub: Hub) -> None:
    """Leaves the command for all of them in one commit, and does not wait. A run without an engine starts nothing."""
    elsewhere = [row for row in rows if row.status not in AT_REST and not hub.pause(row.id)]
    tell_all(home, [(row.owner, _command(row)) for row in elsewhere if row.owner is not None])


def _command(row: RunRow) -> SendCommand:
    return SendCommand(row.id, PAUSE, msgspec.msgpack.encode(row.epoch))


def pause(row: RunRow, home: Place, hub: Hub, attaching: Attaching) -> Status:
    """How the run stands when nothing of it runs any more: paused, or what it was quicker to become."""
    told: int | None = None
    stopped = StoppedDriver(home)
    for _ in looks():
        if row.status in AT_REST:
            break
        driven = hub.find(row.id)
        if driven is not None:
            if hub.pause(row.id):
                driven.wait()
        elif attaching.can_be_driven(row):
            _rest(row, home)
        elif row.owner is not None and row.epoch == told:
            stopped.look(row)
        elif row.owner is not None:
            told = row.epoch
            tell_all(home, [(row.owner, _command(row))])
        now = home.journal.get_run(row.id)
        if now is None:
            raise NoSuchRun(row.id)
        row = now
    return cast("Status", row.status)


def _rest(row: RunRow, home: Place) -> None:
    """Nobody drives it: whoever went on with it meanwhile has another epoch, and this changes nothing."""
    claim = Claim(row.id, home.engine, row.epoch)
    outcome = commit(home.journal, [claim, SetStatus(row.id, row.epoch + 1, "paused")])
    if isinstance(outcome.refusal, Failed):
        raise outcome.refusal.error
