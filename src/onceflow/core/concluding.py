"""How a run ends (design 2.8): it succeeds, fails, is undone (a saga), or is cancelled.

When a run that was stopped is quiet, and an undo of the whole was asked for, a last recovery takes back every begun
undoable task that nothing irrevocable stands on, and all that descends from them; without one, the same for the
transactions in which something failed.

A run of which nothing can go on, and that no event will ever reach, fails: what a handler gave may have made a graph
safe, and have been lost (2.8).
"""

from __future__ import annotations

from contextlib import suppress

from onceflow.core import commands, records
from onceflow.core.ending import with_what_is_below
from onceflow.core.expiring import Expiring
from onceflow.core.rows import Row
from onceflow.core.sharing import Makers
from onceflow.errors import BrokenPromise, RunStuck


class Concluding(Expiring):
    """Says when a recovery, a closed scope or the run has come to its end."""

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
                if self._advance_endings():
                    return True
            elif self._succeeded():
                self._finish("succeeded")
                return False
            if self._running or self._saving or not self._is_stuck():
                return False
            if not self._run_edited():
                self._fail_stuck()
            return True
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
        if self._saving:
            return False
        if not self.partial:
            return self._sink is not None and self._sink.settled and not self._aside
        return not self._running and all(row.state == "done" for row in self.rows.values())

    def _is_stuck(self) -> bool:
        """While nothing runs and nothing is being saved: whether no event will ever come, because nothing else is under
        way, and nothing waits for a delay or for admission."""
        if self._zombies or self._undos or self._pausing or self.partial:
            return False
        return not any(row.state == "backoff" or row.asking for row in self.rows.values())

    def _run_edited(self) -> bool:
        """What was edited and has not run by its new code may be all that keeps the others from starting: it runs now,
        unless something irrevocable was built on it."""
        makers: Makers = {}
        for row in self.rows.values():
            if self.is_edited(row) and not row.scope.closed:
                seeds = dict.fromkeys(self._makers_of_lost(row, row.every_part, makers))
                with suppress(BrokenPromise):
                    self._rerun_set(seeds, makers)
                    self._seeds.update(seeds)
        return bool(self._seeds)

    def _fail_stuck(self) -> None:
        """What a handler gave was lost, and without it nothing may start: a run fails rather than wait for ever."""
        waiting = [row for row in self.rows.values() if row.state == "waiting" and not row.scope.closed]
        blocked = [row for row in waiting if row.missing == 0] or waiting or self.ends()
        row = blocked[0]
        if row.state == "waiting":
            row.state = "failed"
        row.failures += 1
        self._emit(commands.Stuck(row.id, RunStuck(tuple([other.id for other in blocked]), _obstacles(row))))
        self._append(records.Failed(row.id, row.failures, True))
        self._fail(row.id, row.scope)

    def _saga(self) -> list[Row]:
        """Every begun undoable row that nothing irrevocable stands on, and what has happened below them."""
        for row in self.rows.values():
            if row.begun_with:
                self._count_as_started(row)
        self._cover_readers()
        begun = [row for row in self.rows.values() if row.effect == "undoable" and row.begun and not row.covered]
        return with_what_is_below(begun)

    def _kept_effects(self) -> list[str]:
        rows = [row for row in self.rows.values() if row.effect == "undoable" and row.begun]
        standing = [*self._kept.items(), *((row.id, row.scope) for row in rows)]
        if self._undo_all:
            return [id for id, _ in standing]
        groups = self._failed_groups()
        return [id for id, scope in standing if any(scope.is_in(group) for group in groups)]

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
                if row.begun and (row.state != "done" or row.doomed)  # irrevocable: what is undoable was undone
            ]
        self._append(records.Finished(status))
        self._emit(commands.Finish(status, tuple(self._failed), tuple(kept), tuple(uncertain)))


def _obstacles(row: Row) -> tuple[str, ...]:
    """What it reads that keeps it from starting."""
    if row.missing:
        return tuple([parent.id for parent, mask in row.parents if not parent.gives(mask)])
    undoable = row.effect == "undoable"
    return tuple([p.id for p, _ in row.parents if not (p.reproducible if undoable else p.quiet) or p.holds_up])
