"""What is run again after something was lost (design 2.5).

The set R is the least set that contains what is needed again (`_seeds`) and

(a) the producer of every unavailable input, and the maker of every unavailable ref, of a member (`sharing`);
(b) all descendants of every member that is not repeatable and had been visible: such members and their descendants are
    **tainted**, their outputs, effects and saves belong to a past that is no longer true.

Clause (c), a checkpoint that was lost before it was saved, puts rows among the seeds (`outputs`).

A tainted member is dropped; another one (repeatable, or never visible) just runs again. If nothing durable has to be
taken back (no save, no begun undoable attempt), that happens on the spot. Otherwise R is journaled first, nothing
else of the run starts, the begun undoable members are undone in reverse topological order, R is dropped, and the run
goes on. What is lost meanwhile joins R: it may stand above members, and is then dropped together with them. A row that
never started has no descendants that did, so the search ends there: its cost is what is taken back, not the graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.core import commands, records
from onceflow.core.rows import Row, Undo, forget_handling
from onceflow.core.sharing import Makers
from onceflow.core.undoing import Undoing
from onceflow.errors import BrokenPromise


class Recovery(Undoing):
    """Finds R, and takes back what must be taken back."""

    _recovering: dict[Row, None] = {}
    """Tainted members of the journaled R that is not yet dropped."""

    def _recover(self) -> None:
        seeds, self._seeds = self._seeds, {}
        makers: Makers = {}
        again, tainted = self._rerun_set(seeds, makers)
        for row in again:
            if row.state == "done":
                row.state = "waiting"
                row.attempt = 0
                self._forget_saves(row, row.saving)
                self._needs_inputs(row, makers)
        self._take_back(tainted)

    def _rerun_set(self, seeds: Iterable[Row], makers: Makers) -> tuple[list[Row], dict[Row, Row]]:
        """R, as the members that just run again and the tainted ones → why (the member that is not repeatable)."""
        again: dict[Row, None] = {}
        tainted: dict[Row, Row] = {}
        stack: list[tuple[Row, Row | None]] = [(row, None) for row in seeds]
        while stack:
            row, cause = stack.pop()
            if row.foreign:
                self._ask_for(row)
                continue
            if cause is None and not row.repeatable:
                cause = row
            if cause is not None and cause is not row and _is_for_good(row):
                raise BrokenPromise(row.id, cause.id)
            if row in tainted:
                continue
            if row not in again:
                for parent, mask in row.parents:
                    stack.extend((maker, None) for maker in self._makers_of_lost(parent, mask, makers))
            if cause is None:
                again[row] = None
                continue
            again.pop(row, None)
            tainted[row] = cause
            stack.extend((consumer, cause) for consumer, _, _ in row.consumers if consumer.touched)
        return list(again), tainted

    def _take_back(self, tainted: Iterable[Row]) -> None:
        rows = [row for row in tainted if row not in self._recovering]
        if not rows:
            return
        for row in rows:
            self._end_attempt(row)
        if self._recovering or any(row.effect == "undoable" or row.handled or _left_a_trace(row) for row in rows):
            self._begin_recovery(rows)
        else:
            self._drop(rows)

    def _end_attempt(self, row: Row) -> None:
        """Whatever its attempt still does no longer counts."""
        if row.state == "running":
            self._running -= 1
            self._end_turn(row)
            self._emit(commands.Stop(row.id, row.attempt))
            self._bury(row, row.attempt)
            row.state = "waiting"
            row.attempt = 0
        elif row.state in ("backoff", "handled", "failed"):
            row.state = "waiting"
            row.attempt = 0
            row.ends = None
        self._forget_saves(row, row.saving)

    def _begin_recovery(self, rows: list[Row]) -> None:
        self._stalled = True
        self._recovering.update(dict.fromkeys(rows))
        for row in rows:
            row.doomed = True
        self._append(records.Recovering(tuple(row.id for row in rows)))
        for row in rows:
            if row.effect == "undoable" and row.begun and row.undo is None:
                row.undo = Undo()
                self._undos[row] = None
        self._order_undos()

    def _doom_nested(self, expander: Row) -> None:
        """Rows that turn up below a member while the recovery is under way go the same way."""
        assert expander.nested is not None
        if expander.doomed:
            for row in expander.nested.rows:
                row.doomed = True
                self._recovering[row] = None
            self._order_undos()

    def _order_undos(self) -> None:
        self._uncleared = dict.fromkeys(self._recovering, 0)
        for row in self._recovering:
            for parent, _ in row.parents:
                if parent in self._uncleared:
                    self._uncleared[parent] += 1
        for row in [row for row, count in self._uncleared.items() if count == 0 and row.undo is None]:
            if row in self._uncleared:
                self._clear(row)

    def _end_recovery(self) -> None:
        """Everything is undone: drop R. Whoever called decides how the run goes on."""
        rows = list(self._recovering)
        self._recovering.clear()
        self._append(records.Dropped(tuple(row.id for row in rows)))
        self._drop(rows)

    def _drop(self, rows: list[Row]) -> None:
        for row in rows:
            self._emit(commands.Drop(row.id, self._attempt))
            self._reset(row)
        for row in sorted((row for row in rows if row.nested is not None), key=lambda row: -row.depth):
            self._collapse(row)
        self._trust_around(rows)
        left = [row for row in rows if self.rows.get(row.id) is row]
        self._abandon_rows([row for row in left if row.scope.over])
        makers: Makers = {}
        for row in left:
            self._needs_inputs(row, makers)

    def _abandon_rows(self, rows: list[Row]) -> None:
        """Their graph has ended, and they never run: they count as done and saved, with nothing."""
        for row in rows:
            self._leave(row)  # what is not saved of a join never counts
        self._join_ends(rows)
        before = [(row, not row.visible, row.holds_up) for row in rows]
        for row in rows:
            row.state = "done"
            row.abandoned = row.visible = True
            row.attempt = 0
            row.repeatable = False
            row.ends = None
            row.saved = row.every_part
            self._take_reproducible_back(row)
        for row, first_time, held_up in before:
            self._gain(row, row.every_part, first_time)
            if held_up:
                self._show_writes(row)
            if row.group is not None or row.keeps is not None:
                self._turn_is_over(row)
            self._note_saved(row)

    def _reset(self, row: Row) -> None:
        """As if it had never run, except that what is irrevocable stays begun: it runs again with the same inputs."""
        self._leave(row)
        self._end_rebuilding(row)
        written = row.writes and row.fully_saved  # a handler gave it: what was written is never dropped
        if row.refs is not None:
            self._set_refs(row, None)
        self._take_reproducible_back(row)
        for consumer, mask, _ in row.consumers:
            if row.gives(mask):
                consumer.missing += 1
            consumer.unquiet += row.quiet
            consumer.uncommitted += written
        for parent, _ in row.parents:
            if parent.settling is not None:
                parent.settling.consumer = 0
        for mark in (row.settling, row.quieting):
            if mark is not None:
                mark.why = None
                mark.consumer = mark.parent = 0
        self._end_turn(row)
        if row.nested is None and row.keeps is None:
            self._keep_turns(row)
        row.state = "waiting"
        row.attempt = row.available = row.saved = row.failures = 0
        if row.abandoned:
            row.abandoned = False
            row.repeatable = row.node.options.repeatable
        if row.ended is not None:
            row.ended.given = None
            row.ended = None
        row.visible = row.inferred = row.quiet = row.doomed = row.distrusted = row.recorded = False
        forget_handling(row)
        if row.code != self._codes.get(row.id, ""):
            row.repeatable = False  # until the journal knows by which code it has run
        if row.settling is not None and row.repeatable:
            self._release_hindered(row.settling)  # those below what a handler gave waited for it to be settled

    def _take_reproducible_back(self, row: Row) -> None:
        """It holds nothing any more, or nothing that could be had again."""
        if row.reproducible:
            row.reproducible = False
            for consumer, _, _ in row.consumers:
                consumer.irreproducible += 1


def _is_for_good(row: Row) -> bool:
    """Whether something was done that cannot be taken back. What a handler put in its place never began."""
    return (row.effect == "irrevocable" and row.begun) or row.wrote


def _left_a_trace(row: Row) -> bool:
    """Does the journal have anything of it, or anything to say about it?"""
    return bool(row.saved) or row.distrusted or (row.refs is not None and row.refs.replaced)
