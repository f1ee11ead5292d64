"""Who asks before it starts (design 2.13): of nodes in queues, others decide when they may.

A row that could start and needs admission asks for it once (`commands.Ask`), before anything is recorded of it. The
answer (`events.Admitted`) lets it start, if it still could; if not, it asks again when it can. Whoever answered learns
from what happens next whether his answer was used, and counts the row only while its attempt runs.

A row that asks keeps its turn in its group, but whoever was admitted waits for nothing any more: so there is always
somebody who gets on.
"""

from __future__ import annotations

from onceflow.core import commands
from onceflow.core.rows import Row
from onceflow.core.turns import Turns


class Admitting(Turns):
    """Keeps who has asked."""

    _admitted: dict[Row, None] = {}
    """Agenda: rows that have been answered."""

    def _ask(self, row: Row) -> None:
        if not row.asking:
            row.asking = True
            self._emit(commands.Ask(row.id))

    def _answer_to(self, row: Row) -> None:
        """Whoever decides lets the row start."""
        if row.asking:
            self._admitted[row] = None
