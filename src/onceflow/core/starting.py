"""When a ready task may start (design 2.3), and the *begun* record before it."""

from __future__ import annotations

import heapq

from onceflow.core import commands, records
from onceflow.core.admitting import Admitting
from onceflow.core.rows import GRAPH, Row


class Starting(Admitting):
    """Starts attempts of rows that have all they read."""

    def _start_ready(self) -> None:
        ready, self._ready = self._ready, []
        for row in ready:
            self._start_if_allowed(row)

    def _start_if_allowed(self, row: Row) -> None:
        if row.state != "waiting" or row.missing or row.undo is not None or row.foreign:
            return
        if row.scope.closed or row.asking:
            return
        if self._stalled:
            self._held[row] = None
        elif row.uncommitted or (row.expander is not None and not self._has_begun(row.expander)):
            return  # looked at again when it sees what its parents wrote, or when its graph is saved
        elif row.node.takes and self._is_in_use(row):
            self._takers[row] = None
        elif _changes_nothing(row) or self._may_begin(row):
            if row.group is None:
                self._go(row)
            elif row.visible:
                self._take_turn(row)
                self._go(row)
            else:
                self._queue(row)

    def _go(self, row: Row) -> None:
        if row.node.admission is not None:
            self._ask(row)
        elif row.effect == "none" or self.has_place is None or self.has_place(row.id):
            self._begin_and_start(row)
        else:
            self._ask(row)

    def _begin_and_start(self, row: Row) -> None:
        if row.effect != "none":
            self._begin(row)
        self._start(row)

    def _give_turns(self) -> None:
        """Start what its group has room for."""
        groups, self._eager = self._eager, {}
        for group in groups:
            while group.is_open:
                _, _, row = heapq.heappop(group.waiting)
                row.queued = False
                if self._may_go(row):
                    self._take_turn(row)
                    self._go(row)

    def _start_admitted(self) -> None:
        """Start those who were admitted, if they still could."""
        admitted, self._admitted = self._admitted, {}
        for row in admitted:
            row.asking = False
            if not self._may_go(row):
                self._end_turn(row)
            elif row.group is None or row in row.group.flying:
                self._begin_and_start(row)
            else:  # it was dropped meanwhile, and with it its turn
                self._ready.append(row)

    def _may_go(self, row: Row) -> bool:
        """Whether a row that waited for its turn, or for admission, is still there, and could still start."""
        if row.state != "waiting" or row.missing or row.undo is not None or self.rows.get(row.id) is not row:
            return False
        if row.scope.closed:
            return False
        if self._stalled:
            self._held[row] = None
            return False
        if row.uncommitted or (row.expander is not None and not self._has_begun(row.expander)):
            return False
        if row.node.takes and self._is_in_use(row):
            self._takers[row] = None
            return False
        return _changes_nothing(row) or self._may_begin(row)

    def _has_begun(self, expander: Row) -> bool:
        """Whether the graph that it returned has begun: one in which something stands aside begins when the journal has
        it. Else a crash could forget that, and keep what was built on the result of the graph."""
        return not expander.forks or bool(expander.saved & GRAPH)

    def _may_begin(self, row: Row) -> bool:
        """May this row, whose inputs are all there, have its effect, or write what it writes?

        A nested row also waits until its expander is saved: after a crash the journal must know what has begun.
        """
        if row.expander is not None and not row.expander.fully_saved:
            return False
        if row.effect == "undoable":
            return row.irreproducible == 0 and not row.zombies
        return row.begun or row.unquiet == 0  # what has begun is repeated with the same inputs

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
            row.begun_with = self._attempt + 1
            self._append(records.Begun(row.id, row.begun_with))
        else:
            self._count_as_started(row)  # the attempt before this one may have

    def _start(self, row: Row) -> None:
        row.state = "running"
        row.attempt = self._new_attempt()
        self._running += 1
        self._emit(commands.Start(row.id, row.attempt, row.effect != "none" or row.follows_writer))
        if row.node.takes:
            self._take(row)

    def _start_takers(self) -> bool:
        """Look again at those that waited for readers. Whether one of them has started, or waits for its turn."""
        started = self._running
        takers, self._takers = self._takers, {}
        for row in takers:
            self._start_if_allowed(row)
        return self._running > started or bool(self._eager)

    def _resume_starts(self) -> None:
        """Nothing stands in the way of the whole run any more."""
        self._stalled = False
        held, self._held = self._held, {}
        self._ready.extend(held)


def _changes_nothing(row: Row) -> bool:
    return row.effect == "none" and not row.writes
