"""How a run ends (design 2.8): it succeeds, fails, is undone (a saga), or is cancelled.

Stopping begins when a task fails for good or somebody cancels. Nothing new starts. Attempts without effect are
stopped; begun irrevocable ones may finish (a cancelled run gives up on them when told so); undoable ones may finish
too, unless the run is cancelled or will be undone: then they are ended and undone. When all is quiet and an undo of
the whole was asked for, a last recovery takes back every begun undoable task without a begun irrevocable descendant,
and all that descends from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from onceflow.core import commands, records
from onceflow.core.recovery import Recovery
from onceflow.core.rows import Row, Scope
from onceflow.core.state import Status


class Stopping(Recovery):
    """Counts failures, stops the run, and says when it is over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stopping: Literal["failed", "cancelled"] | None = None
        self._undo_all = False
        """Take back what can be taken back before the run ends."""
        self._undoing_all = False
        """The recovery under way does that."""
        self._failed: dict[str, Scope | None] = {}
        """Nodes that failed for good → where: their rows may be forgotten before the run ends."""
        self._gave_up: set[Row] = set()
        self._were_parked: set[str] = set()
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
            self._undo_locally(row, retry=not final)
        elif not final:
            self._emit(commands.Wait(row.id, row.attempt, row.failures))
        if final:
            self._fail(row)

    def _fail(self, row: Row) -> None:
        self._failed[row.id] = row.scope
        self._undo_all = self._undo_all or self.on_failure == "undo"
        self._stop("failed")

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
                    self._undo_locally(row, retry=False)

    def _give_up(self) -> None:
        for row in self.rows.values():
            if row.state == "running" and row not in self._gave_up:
                self._gave_up.add(row)
                self._emit(commands.Stop(row.id, row.attempt))

    def _conclude(self) -> bool:
        """Take the next step towards the end, if it is time. True if there may be another."""
        if self.final is not None:
            return False
        if self._recovering:
            if self._uncleared:
                return False
            if self._undoing_all:
                self._append(records.Dropped(tuple(row.id for row in self._recovering)))
                for row in self._recovering:
                    self._emit(commands.Drop(row.id, self._attempt))
                self._recovering.clear()
            else:
                self._end_recovery()
                if self._stopping is None:
                    self._resume_starts()
            return True
        if self._stopping is None:
            if self._endings:
                return self._advance_endings()
            if self._succeeded():
                self._finish("succeeded")
            return False
        if self._running or self._saving or self._undos or self._zombies:
            return False
        if not self._undoing_all:
            self._undoing_all = True
            rows = self._saga() if self._undo_all else self._group_saga(self._failed_groups())
            if rows:
                self._begin_recovery(rows)
                return True
        if self._stopping == "cancelled":
            self._finish("cancelled")
        else:
            self._finish("undone" if self._undo_all and not self._kept_effects() else "failed")
        return False

    def _succeeded(self) -> bool:
        if self._saving or self._undos:
            return False
        if not self.partial:
            return self._sink is not None and self._sink.settled
        return not self._running and all(row.foreign or row.state == "done" for row in self.rows.values())

    def _saga(self) -> list[Row]:
        """Every begun undoable row that nothing irrevocable stands on, and what has happened below them."""
        self._cover_readers()
        rows: dict[Row, None] = {}
        stack = [row for row in self.rows.values() if row.effect == "undoable" and row.begun and not row.covered]
        while stack:
            row = stack.pop()
            if row not in rows:
                rows[row] = None
                stack.extend(consumer for consumer, _, _ in row.consumers if consumer.touched)
        return list(rows)

    def _kept_effects(self) -> list[str]:
        rows = [row for row in self.rows.values() if row.effect == "undoable" and row.begun]
        standing = self._kept + [(row.id, row.scope) for row in rows]
        if self._undo_all:
            return [id for id, _ in standing]
        groups = self._failed_groups()
        return [id for id, scope in standing if any(scope.is_in(group) for group in groups)]

    def _failed_groups(self) -> list[Scope]:
        """The outermost transactions in which something failed for good. Who cancels a run says what is undone."""
        if self._stopping == "cancelled":
            return []
        groups: dict[Scope, None] = {}
        for scope in self._failed.values():
            outermost: Scope | None = None
            while scope is not None:
                if scope.node is not None and scope.node.options.transaction:
                    outermost = scope
                scope = scope.outer
            if outermost is not None:
                groups[outermost] = None
        return list(groups)

    # -- graphs that end (`ending`) ------------------------------------------------------------------------------------

    _endings: dict[Scope, Any]

    def _advance_endings(self) -> bool:
        raise NotImplementedError

    def _group_saga(self, scopes: Iterable[Scope]) -> list[Row]:
        raise NotImplementedError

    def _finish(self, status: commands.Status) -> None:
        self.final = status
        for row in self.rows.values():
            if row.state == "running":  # made again for somebody who no longer needs it
                self._emit(commands.Stop(row.id, row.attempt))
        kept: list[str] = []
        uncertain: list[str] = []
        if status != "succeeded":
            if self._undo_all or self._stopping == "failed":
                kept = self._kept_effects()
            uncertain = [
                row.id
                for row in self.rows.values()
                if row.effect == "irrevocable" and row.begun and row.state != "done"
            ]
        self._append(records.Finished(status))
        self._emit(commands.Finish(status, tuple(self._failed), tuple(kept), tuple(uncertain)))
