"""Graphs whose time is over (design 2.8): they end, whatever goes on in them.

Nothing in the graph has failed, so nobody in it is asked. It is closed like any other that ends before its result is
there (`ending`), and what has begun in it is ended as well: of something irrevocable nobody knows then whether it has
happened, as after the timeout of a task. Transactions in it that have no result are taken back. If the graph gets its
result while it is being ended, that counts, and it opens again for what stands aside in it.
"""

from __future__ import annotations

from onceflow.core import commands
from onceflow.core.ending import End, Ending
from onceflow.core.rows import Scope


class Expiring(Ending):
    """Ends graphs from outside."""

    def _expire(self, scope: Scope, small: bool) -> None:
        sink = scope.sink
        if self._stopping is not None or sink is None or sink.visible:
            return
        self._end_with_what_is_around(
            scope, End(scope.expander, small, self._transactions_in(scope), again=False, expired=True)
        )
        for row in self._rows_in(scope):
            if row.state == "running":
                self._emit(commands.Stop(row.id, row.attempt))

    def _transactions_in(self, scope: Scope) -> list[Scope]:
        """Those in this graph, and the graph itself if it is one."""
        return [inner for inner in self._scopes_in(scope) if inner.is_transaction]
