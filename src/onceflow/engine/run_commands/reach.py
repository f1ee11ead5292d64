"""A run, wherever it is driven: by this engine, by another one, or by none at the moment.

Whatever is wanted of a run is a command. This engine carries it out at once if it drives the run. Another engine finds
it in the journal, where it cannot get lost, and is rung. A run without a driver does not change until an engine claims
it, so what is to become of it is written in one commit with a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from onceflow.engine.polling import StoppedDriver, looks
from onceflow.engine.statuses import AT_REST
from onceflow.errors import NoSuchRun, StorageError
from onceflow.storage.journal import Claim, Failed, Request, RunRow, SendCommand, commit

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.attaching import Attaching
    from onceflow.engine.runtime.facade import Hub
    from onceflow.storage.run_stores import Place


class RunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wanted of a run that is driven."""

    kind: ClassVar[str]
    """As the journal has it."""
    lasts: ClassVar[bool] = False
    """Whether the command also applies to engines that continue the run later."""
    interrupts_waiting: ClassVar[bool] = False
    """Whether a run that has yet to begin need not wait for that any longer."""
    epoch: int | None = None
    """The epoch of the run when the command was given, if the command does not last and another engine is notified."""

    def carry_out(self, driver: Driver) -> None:
        raise NotImplementedError


class Reach:
    """Thread-safe."""

    def __init__(self, home: Place, hub: Hub, attaching: Attaching) -> None:
        self._home = home
        self._hub = hub
        self._attaching = attaching

    def ask(self, rows: Iterable[RunRow], command: RunCommand) -> None:
        """Have it carried out, and do not wait: other engines are notified in one commit. To a run without an engine
        nothing happens."""
        elsewhere = [row for row in rows if not self._hub.command(row.id, command)]
        self._tell([row for row in elsewhere if row.owner is not None], command)

    def bring_to_rest(
        self, row: RunRow, command: RunCommand, rests: Collection[str], undriven: Callable[[RunRow], None]
    ) -> RunRow:
        """Have it carried out, and wait until the run has one of the statuses in `rests`, or has been driven here, or
        by `undriven`, and is at rest. Only then nothing of it runs any more. `undriven` is called for a run without a
        driver."""
        told: int | None = None
        stopped = StoppedDriver(self._home)
        for _ in looks():
            if row.status in rests:
                break
            driven = self._hub.find(row.id)
            is_here = True
            if driven is not None:
                if self._hub.command(row.id, command):
                    driven.wait()
            elif self._attaching.can_be_driven(row):
                undriven(row)
            else:
                is_here = False
                if row.owner is not None and row.epoch == told:
                    stopped.look(row)
                elif row.owner is not None:
                    told = row.epoch
                    self._tell([row], command)
            now = self._home.journal.get_run(row.id)
            if now is None:
                raise NoSuchRun(row.id)
            row = now
            if is_here and row.status in AT_REST:
                break
        return row

    def write_undriven(self, row: RunRow, *requests: Request) -> bool:
        """Write this, in the next epoch, of a run without a driver. False, and nothing has happened, if another engine
        has continued it meanwhile."""
        outcome = commit(self._home.journal, [Claim(row.id, self._home.engine, row.epoch), *requests])
        if isinstance(outcome.refusal, Failed):
            raise outcome.refusal.error
        return outcome.ok

    def ring(self, runs: Sequence[str]) -> None:
        """There are events for these runs: notify the engines that drive them now."""
        rows = self._home.journal.find_runs(runs).values()
        here = [row.id for row in rows if row.owner == self._home.engine]
        if here:
            self._hub.look_for_mail(*here)
        for owner in {row.owner for row in rows if row.owner is not None} - {self._home.engine}:
            self._home.ring(owner)

    def is_driven(self, row: RunRow) -> bool:
        """Whether an engine drives it, or has claimed it last."""
        return self._hub.find(row.id) is not None or row.owner is not None

    def is_driven_elsewhere(self, run: str) -> bool:
        """False if that cannot be known."""
        try:
            row = self._home.journal.get_run(run)
        except StorageError:
            return False
        return (
            row is not None
            and row.owner not in (None, self._home.engine)
            and not self._hub.is_busy_with(run)
            and not self._attaching.can_be_driven(row)
        )

    def _tell(self, rows: Sequence[RunRow], command: RunCommand) -> None:
        if not rows:
            return
        sent: list[Request] = []
        for row in rows:
            stamped = command if command.lasts else msgspec.structs.replace(command, epoch=row.epoch)
            sent.append(SendCommand(row.id, command.kind, msgspec.msgpack.encode(stamped)))
        outcome = commit(self._home.journal, sent)
        if isinstance(outcome.refusal, Failed):
            raise outcome.refusal.error
        for owner in dict.fromkeys([row.owner for row in rows if row.owner is not None]):
            self._home.ring(owner)
