"""Undos (design 2.5, 2.6): taking back the effects of undoable tasks, each when its time has come.

An undo starts only when every earlier attempt and undo of its task is known to have ended, and when it can see the
very inputs that the attempt saw. Small inputs are in the *begun* record. A large one that was lost is **rebuilt**:
its producer (reproducible, or the attempt would not have begun) runs once more, privately: nobody but undos sees that
output.

- A **local** undo takes back an attempt that never became visible (it raised, or was lost). Nobody else is concerned
  and nothing else waits. It needs no record of its own: a begun row that is not saved is undone after a crash anyway.
- Undos that belong to a **recovery** go in reverse topological order (`recovery`).
"""

from __future__ import annotations

from collections.abc import Iterator

from onceflow.core import commands, records
from onceflow.core.outputs import Outputs
from onceflow.core.rows import Effort, Row, Undo

EFFORT_TRIES = 5
"""How often an undo may raise before the run is parked for a person."""


class Undoing(Outputs):
    """Runs undos, and rebuilds what they need."""

    _undos: dict[Row, None] = {}
    """Rows with an undo under way."""
    _rebuilt: dict[Row, int] = {}
    """Parts that were rebuilt for undos."""
    _uncleared: dict[Row, int] = {}
    """The members of the recovery under way that are not yet undone → how many of their consumers are among them."""

    def _undo_locally(self, row: Row) -> None:
        """Take back an attempt that never became visible."""
        row.undo = Undo()
        self._undos[row] = None

    def _advance_undos(self) -> None:
        """Start every undo, and every rebuilding, that may start."""
        for row in list(self._undos):
            undo = row.undo
            assert undo is not None
            if undo.idle and not row.zombies and not self._uncleared.get(row) and self._has_inputs(row, row.carried):
                undo.attempt = self._new_attempt()
                self._emit(commands.Undo(row.id, undo.attempt, _readable_attempt(row)))
        if self._undos:
            self._advance_rebuilding()
        elif self._rebuilt or self._rebuilding:
            for row in [*self._rebuilt, *self._rebuilding]:
                self._end_rebuilding(row)

    def _end_rebuilding(self, row: Row) -> None:
        """No undo reads any more what the row gave."""
        if self._rebuilt.pop(row, 0):
            self._emit(commands.Release(row.id, private=True))
        rebuild = self._rebuilding.pop(row, None)
        if rebuild is not None and rebuild.attempt and not rebuild.waiting:
            self._emit(commands.Stop(row.id, rebuild.attempt))
            self._bury(row, rebuild.attempt)

    def _end_rebuilding_for(self, row: Row) -> None:
        """It is undone: what was to be made again for that alone need not be, and may be forgotten from now on."""
        made = [parent for parent in row.pinned or () if parent in self._rebuilding]
        if made:
            others = {parent for other in self._undos for parent in other.pinned or ()}
            for parent in made:
                if parent not in others:
                    self._end_rebuilding(parent)

    def _has_inputs(self, row: Row, carried: tuple[tuple[str, int], ...] = ()) -> bool:
        """Are all inputs of the row at hand for an undo? Asks for those that are not."""
        in_record: dict[str, int] = {}
        for node, part in carried:
            in_record[node] = in_record.get(node, 0) | 1 << part
        complete = True
        for parent, mask in row.parents:
            if mask & ~(parent.readable | self._rebuilt.get(parent, 0) | in_record.get(parent.id, 0)):
                complete = False
                if parent.foreign:
                    self._ask_for(parent)
                elif parent not in self._rebuilding:
                    self._rebuilding[parent] = Effort()
        return complete

    def _advance_rebuilding(self) -> None:
        for row in [row for row in self._rebuilding if row.fully_saved]:
            self._end_rebuilding(row)  # it was saved meanwhile: undos read that
        looked_at = 0
        while looked_at < len(self._rebuilding):  # looking for inputs adds the producers of those that are missing
            rows = list(self._rebuilding)
            for row in rows[looked_at:]:
                rebuild = self._rebuilding[row]
                if rebuild.idle and not row.repeatable:
                    self._park(row, rebuild)  # its code was edited: it would not give what the attempt has seen
                elif rebuild.idle and self._has_inputs(row) and not self._is_being_read(row):
                    rebuild.attempt = self._new_attempt()
                    self._emit(commands.Start(row.id, rebuild.attempt, row.effect != "none", private=True))
                    self._take(row, besides=self._rebuilt)
            looked_at = len(rows)

    # -- how they end --------------------------------------------------------------------------------------------------

    def _efforts(self) -> Iterator[Effort]:
        for row in self._undos:
            assert row.undo is not None
            yield row.undo
        yield from self._rebuilding.values()

    def _effort(self, row: Row, attempt: int) -> Effort | None:
        """The undo or rebuilding that this attempt belongs to."""
        if row.undo is not None and row.undo.attempt == attempt:
            return row.undo
        rebuild = self._rebuilding.get(row)
        return rebuild if rebuild is not None and rebuild.attempt == attempt else None

    def _rebuild_finished(self, row: Row) -> None:
        del self._rebuilding[row]
        self._rebuilt[row] = row.every_part

    def _effort_raised(self, row: Row, effort: Effort) -> None:
        effort.failures += 1
        if effort.failures >= EFFORT_TRIES:
            self._park(row, effort)
        else:
            effort.waiting = True
            self._emit(commands.Wait(row.id, effort.attempt, effort.failures))

    def _park(self, row: Row, effort: Effort) -> None:
        effort.parked = True
        effort.attempt = 0
        self._append(records.Parked(row.id))
        self._emit(commands.Park(row.id))

    def _effort_elapsed(self, effort: Effort) -> None:
        effort.waiting = False
        effort.attempt = 0

    def _effort_lost(self, row: Row, effort: Effort) -> None:
        if not effort.waiting:
            self._bury(row, effort.attempt)
            effort.attempt = 0

    def _note_undone(self, row: Row) -> None:
        row.undo = None
        row.begun = False
        row.carried = ()
        self.undos[row.id] = self.undos.get(row.id, 0) + 1
        if not row.covered:
            self._no_longer_exposed(row)
        del self._undos[row]
        self._end_rebuilding_for(row)
        self._unpin(row)
        self._append(records.Undone(row.id))
        if row in self._uncleared:
            self._clear(row)

    def _clear(self, row: Row) -> None:
        """Nothing is left to undo at or below this member of the recovery: those above it come next."""
        cleared = [row]
        while cleared:
            row = cleared.pop()
            del self._uncleared[row]
            for parent, _ in row.parents:
                if parent in self._uncleared:
                    self._uncleared[parent] -= 1
                    if self._uncleared[parent] == 0 and parent.undo is None:
                        cleared.append(parent)


def _readable_attempt(row: Row) -> int | None:
    """The attempt of this undoable row whose output can still be read, if any."""
    if not row.attempt or row.readable != row.every_part:
        return None
    return row.attempt
