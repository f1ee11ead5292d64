"""Outcomes that handlers make (design 2.8): a task raised, and a handler says what its consumers see instead.

Whether a handler answers for an exception is found out where the exception was raised (`backends`); here counts what
follows from the answer. An outcome that a handler made is not what the task would give if it ran again. So the row is
**handled**: it counts as nondeterministic and is saved, whatever its task declares, until it is dropped. If the journal
does not know the graph that the row belongs to, because that was not to be saved, it is saved after all.

An undoable attempt that raised is undone first: the row is done when that has happened. Nothing of this is in the
journal before the outcome is saved: a crash forgets it, and the task is tried again.
"""

from __future__ import annotations

from onceflow.core import records
from onceflow.core.expanding import outermost_known
from onceflow.core.rows import GRAPH, Row
from onceflow.core.stopping import Stopping


class Handling(Stopping):
    """Lets rows be done with what handlers gave."""

    def _was_handled(self, row: Row, small: bool) -> None:
        """The current attempt raised, and a handler gave an outcome."""
        if row.visible:  # it gave something before, which counts; a handler cannot know what that was
            self._attempt_raised(row, permanent=True)
            return
        self._running -= 1
        row.small = small
        if row.effect == "undoable":
            row.state = "handled"
            self._end_turn(row)
            self._undo_locally(row)
        else:
            self._become_handled(row)

    def _undone_and_handled(self, row: Row) -> None:
        if self._stopping is None and not row.scope.closed:
            self._become_handled(row)
        else:
            row.state = "waiting"
            row.attempt = 0

    def _become_handled(self, row: Row) -> None:
        self._make_handled(row)
        self._record_handling(row)
        if row.follows_writer:
            self._follow_writes(row)  # it may never have started: what was written above it may be on its way
        self._become_done(row, None, row.small, handled=True)

    def _make_handled(self, row: Row) -> None:
        row.handled = True
        row.repeatable = False
        self._force(row)

    def _force(self, row: Row) -> None:
        if not row.checkpoint:
            row.checkpoint = row.forced = True

    def _record_handling(self, row: Row) -> None:
        """The journal learns that it is not what the task declares; or, where it does not know the row, that the
        graphs around it are not."""
        if row.is_known:
            if row.node.options.repeatable:
                self._append(records.Handled(row.id))
            return
        self._save_around(row)

    def _save_around(self, row: Row) -> None:
        """The graphs that it is in are saved after all."""
        expander = row.expander
        assert expander is not None
        if expander.saved & GRAPH:
            return
        known = outermost_known(expander)
        if known.node.options.repeatable:
            known.distrusted = True
            self._append(records.Handled(known.id))
        while expander is not None and not expander.saved & GRAPH:
            if not expander.checkpoint:
                self._force(expander)
                self._ask_to_save(expander)
                self._suspects[expander] = None
            expander = expander.expander
