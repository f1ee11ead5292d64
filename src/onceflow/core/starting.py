"""When a ready task may start (design 2.3), and the *begun* record before it."""

from __future__ import annotations

from onceflow.core import commands, records
from onceflow.core.rows import Row
from onceflow.core.taking import Taking


class Starting(Taking):
    """Starts attempts of rows that have all they read."""

    def _start_ready(self) -> None:
        ready, self._ready = self._ready, []
        for row in ready:
            self._start_if_allowed(row)

    def _start_if_allowed(self, row: Row) -> None:
        if row.state != "waiting" or row.missing or row.undo is not None or row.foreign:
            return
        if self._stalled:
            self._held.append(row)
        elif row.node.takes and self._is_in_use(row):
            self._takers.append(row)
        elif row.effect == "none":
            self._start(row)
        elif self._may_begin(row):
            self._begin(row)
            self._start(row)

    def _may_begin(self, row: Row) -> bool:
        """May this effectful row, whose inputs are all there, have its effect?

        A nested row also waits until its expander is saved: after a crash the journal must know what has begun.
        """
        if row.expander is not None and not row.expander.fully_saved:
            return False
        if row.effect == "undoable":
            return row.irreproducible == 0 and not row.zombies
        return row.unquiet == 0

    def _begin(self, row: Row) -> None:
        if row.effect == "undoable":
            row.begun = True
            row.carried = tuple(
                (parent.id, part)
                for parent, mask in row.parents
                if parent.small
                for part in range(mask.bit_length())
                if mask >> part & 1
            )
            self._append(records.Begun(row.id, self._attempt + 1, row.carried))
            self._pin(row)
        elif not row.begun:
            row.begun = True
            self._append(records.Begun(row.id, self._attempt + 1))
            self._cover_above(row)

    def _start(self, row: Row) -> None:
        row.state = "running"
        row.attempt = self._new_attempt()
        self._running += 1
        self._emit(commands.Start(row.id, row.attempt, row.effect != "none"))
        if row.node.takes:
            self._take(row)

    def _start_takers(self) -> bool:
        """Look again at those that waited for readers. Whether one of them has started."""
        started = self._running
        takers, self._takers = self._takers, []
        for row in takers:
            self._start_if_allowed(row)
        return self._running > started

    def _cover_above(self, row: Row) -> None:
        """Something irrevocable begins."""
        self._retirable += self._cover([parent for parent, _ in row.parents])

    def _resume_starts(self) -> None:
        """Nothing stands in the way of the whole run any more."""
        self._stalled = False
        held, self._held = self._held, []
        self._ready.extend(held)
