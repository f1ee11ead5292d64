"""How a run is stopped (design 2.8): a task fails for good, or somebody cancels.

Nothing new starts. Attempts without effect are stopped; begun irrevocable ones may finish (a cancelled run gives up on
them when told so); undoable ones may finish too, unless the run is cancelled or will be undone: then they are ended and
undone. What comes when all is quiet is decided in `concluding`.
"""

from __future__ import annotations

from typing import Literal

from onceflow.core import commands, records
from onceflow.core.recovery import Recovery
from onceflow.core.rows import Row, Scope
from onceflow.core.state import Status


class Stopping(Recovery):
    """Counts failures, and stops the run."""

    _stopping: Literal["failed", "cancelled"] | None = None
    _undo_all: bool = False
    """Take back what can be taken back before the run ends."""
    _undoing_all: bool = False
    """The recovery under way does that."""
    _failed: dict[str, Scope | None] = {}
    """Nodes that failed for good → where: their rows may be forgotten before the run ends."""
    _gave_up: dict[Row, None] = {}
    _were_parked: dict[str, None] = {}
    """Loaded with these nodes parked."""

    @property
    def status(self) -> Status:
        """Where the run stands, for people."""
        if self.final is not None:
            return self.final
        if self._were_parked or any(effort.parked for effort in self._efforts()):
            return "parked"
        if self._recovering:
            return "undoing"
        return "running" if self._stopping is None else "stopping"

    def _attempt_raised(self, row: Row, permanent: bool, again: bool = False) -> None:
        self._running -= 1
        self._end_turn(row)
        row.failures += 1
        final = not again and (permanent or row.failures > row.node.options.retries)
        row.state = "failed" if final else "backoff"
        self._append(records.Failed(row.id, row.failures, final))
        if row.effect == "undoable":
            self._undo_locally(row)
        elif not final:
            self._emit(commands.Wait(row.id, row.attempt, row.failures))
        if final:
            self._fail(row.id, row.scope)

    def _fail(self, node: str, scope: Scope) -> None:
        self._note_failed(node, scope)
        self._stop("failed")

    def _note_failed(self, node: str, scope: Scope | None) -> None:
        """Who has cancelled the run has said what is undone."""
        self._failed[node] = scope
        if self._stopping is None:
            self._stopping = "failed"
            self._undo_all = self.on_failure == "undo"

    def _stop(self, why: Literal["failed", "cancelled"]) -> None:
        if self._stopping is None:
            self._stopping = why
        self._stalled = True
        take_back = self._stopping == "cancelled" or self._undo_all
        groups = () if take_back else self._failed_groups()
        for row in self.rows.values():
            undone = take_back or any(row.scope.is_in(group) for group in groups)
            if row.state == "running" and (row.effect == "none" or (row.effect == "undoable" and undone)):
                self._end_attempt(row)
                if row.effect == "undoable":
                    self._undo_locally(row)
            elif row.effect == "irrevocable" and row.state == "running":
                self._emit(commands.Withdraw(row.id, row.attempt))

    def _give_up(self) -> None:
        for row in self.rows.values():
            if row.state == "running" and row not in self._gave_up:
                self._gave_up[row] = None
                self._emit(commands.Stop(row.id, row.attempt))

    def _failed_groups(self) -> list[Scope]:
        """The outermost transactions without a result in which something failed for good. (Who cancels a run says what
        is undone.)"""
        if self._stopping == "cancelled":
            return []
        groups: dict[Scope, None] = {}
        for scope in self._failed.values():
            outermost: Scope | None = None
            while scope is not None:
                if scope.is_transaction and not scope.has_result:
                    outermost = scope
                scope = scope.outer
            if outermost is not None:
                groups[outermost] = None
        return list(groups)
