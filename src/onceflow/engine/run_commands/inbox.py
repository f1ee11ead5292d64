"""Commands that other engines have left in the journal for runs that are driven here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from onceflow.engine.run_commands.cancel import Cancelling
from onceflow.engine.run_commands.limit import Limiting
from onceflow.engine.run_commands.pause import Pausing
from onceflow.engine.run_commands.reach import RunCommand
from onceflow.errors import StorageError
from onceflow.storage.journal import Command, ForgetCommands, Outcome

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.logs.engine_log import Recording
    from onceflow.engine.runtime.driven_runs import DrivenRuns

KINDS: dict[str, type[RunCommand]] = {kind.kind: kind for kind in (Cancelling, Pausing, Limiting)}

logger = logging.getLogger(__name__)


class Inbox:
    """Belongs to the loop's thread. `wake` has a run driven again that is parked here."""

    def __init__(self, runs: DrivenRuns, wake: Callable[..., None], recording: Recording) -> None:
        self._runs = runs
        self._journal = runs.home.journal
        self._engine = runs.home.engine
        self._wake = wake
        self._recording = recording

    def look(self) -> None:
        """Carry out what others have left."""
        try:
            found = self._journal.commands(self._engine)
        except StorageError as error:
            logger.error("commands cannot be read: %s", error)
            return
        for command in found:
            self._wake(command.run, here=True)
            if command.run in self._runs.active:
                self._recording.tell("command", command.run, detail=command.kind)
                self._carry_out(command)
                self._runs.counts.commands += 1
                self._journal.submit([ForgetCommands(command.run, (command.number,))], _ignore)

    def _carry_out(self, command: Command) -> None:
        kind = KINDS.get(command.kind)
        if kind is None:
            logger.warning("run %s was sent %r, which this onceflow does not know", command.run, command.kind)
            return
        decoded = msgspec.msgpack.decode(command.body, type=kind)
        if decoded.epoch is None or _is_meant(self._runs.active[command.run][0], decoded.epoch):
            carry_out(self._runs, command.run, decoded)


def carry_out(runs: DrivenRuns, run: str, command: RunCommand) -> bool:
    """Whether the run is driven here."""
    if command.interrupts_waiting:
        runs.with_driver(run, runs.doorman.let_in)
    return runs.with_driver(run, command.carry_out)


def _is_meant(driver: Driver, epoch: int) -> bool:
    """Whether this is a command that was left when its run had this epoch. A run that was parked is woken for it, which
    is another epoch and the same life: what was left for an earlier life is forgotten by then."""
    return epoch == driver.run.epoch or driver.was_woken


def _ignore(outcome: Outcome) -> None:
    """A command that is not forgotten is carried out again, which changes nothing."""
