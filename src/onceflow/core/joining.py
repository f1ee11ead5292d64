"""Joining what stands aside (design 2.11): how a node that nothing leads to comes to read another one.

Nothing leads from a node that stands aside to those that wait for its outcome: who will ask for it is not known when it
is started, and whoever asks is given what can never change any more, because it is settled. But what is settled can be
taken back all the same, by a saga. (Nothing stands aside in a transaction.) So when an attempt has been given
such outcomes, their nodes become **parents** of its node, until that is dropped. They are saved and settled, so this
changes nothing for them or for it, except

- what is taken back with them: the node and its descendants are theirs as well (2.8);
- what they carry: something irrevocable below the node stands on them (2.8).

The journal learns of it with the save of the node, and those that read the node start when it is saved: so nothing is
built on a join that a crash could forget. A graph that ends before its result is there has joined what was joined in
it: what it ends with may have come of that.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.core.committing import Committing
from onceflow.core.rows import Row, Scope
from onceflow.core.state import link, reach, stood_on_with


class Joining(Committing):
    """Adds edges from what was joined, and takes them away again."""

    def may_join(self, child: str) -> bool:
        """Whether what stands aside has come to its end for good."""
        row = self.rows.get(child)
        return row is None or row.settled

    def may_be_taken_back(self, node: str) -> bool:
        """Whether a transaction around it whose result is not settled would take it back if something failed there."""
        row = self.rows.get(node)
        scope = None if row is None else row.scope
        outermost: Scope | None = None
        while scope is not None:
            if scope.is_transaction and scope.sink is not None and not scope.sink.settled:
                outermost = scope
            scope = scope.outer
        if row is None or outermost is None:
            return False
        above = [row, *reach([row], _may_go_with)]
        return any(
            other.effect == "undoable" and other.begun and not other.covered and other.scope.is_in(outermost)
            for other in above
        )

    def is_part_of(self, node: str, child: str) -> bool:
        """Whether this node is in the graph whose result is the outcome of what stands aside: it has to come to its end
        first."""
        row = self.rows.get(child)
        if row is None:
            return False
        inside = self.rows[node].scope
        for parent, _ in row.parents:
            scope = parent.scope
            while scope.depth > row.scope.depth + 1 and scope.outer is not None:
                scope = scope.outer
            if scope.depth > row.scope.depth and inside.is_in(scope):
                return True
        return False

    def _join(self, row: Row, joined: Iterable[Row]) -> None:
        """The row has been given what these gave. What is forgotten can never be taken back."""
        known = {parent for parent, _ in row.parents}
        news = [child for child in dict.fromkeys(joined) if not child.retired and child not in known]
        if not news:
            return
        held_up = row.holds_up
        for child in news:
            link(child, row, 0)
        row.joined += tuple(news)
        if row.holds_up and not held_up:
            for consumer, _, _ in row.consumers:
                consumer.uncommitted += 1
        if any(child.abandoned or child.follows_writer for child in news):
            self._follow_writes(row)

    def _join_ends(self, abandoned: Iterable[Row]) -> None:
        """A join of what was abandoned gives `CannotJoin`, because its graph has ended: so what was abandoned has
        joined what the graph ended with."""
        aside = [row for row in abandoned if row.node.aside]
        ended = {row.ended: row for row in self.rows.values() if row.ended is not None} if aside else {}
        for row in aside:
            scope: Scope | None = row.scope
            while scope is not None and scope not in ended:
                scope = scope.outer
            if scope is not None:
                self._join(row, [ended[scope]])

    def _follow_writes(self, row: Row) -> None:
        """What was written where it has joined something may be on its way: those that read it, or join it, see it."""
        row.follows_writer = True
        for consumer, _, _ in row.consumers:
            consumer.follows_writer = True

    def _leave(self, row: Row) -> None:
        """What it was given counts no more."""
        if not row.joined:
            return
        if not row.writes and not row.fully_saved:
            self._show_writes(row)
        for child in row.joined:
            if child.retired:
                continue
            child.consumers = [edge for edge in child.consumers if edge[0] is not row]
            child.unsettled -= not row.settled
            if child.settling is not None:
                child.settling.consumer = 0
            row.missing -= not child.gives(0)
            row.unquiet -= not child.quiet
            row.irreproducible -= not child.reproducible
            row.uncommitted -= child.holds_up
            row.unretired -= 1
            self._retirable.append(child)
        row.parents = [edge for edge in row.parents if edge[0] not in row.joined]
        row.joined = ()

    def _joined_in(self, scope: Scope) -> list[Row]:
        """What stands outside of this graph and was joined in it."""
        rows = [row for row in self.rows.values() if row.joined and row.scope.is_in(scope)]
        return [child for row in rows for child in row.joined if not child.scope.is_in(scope)]


def _may_go_with(row: Row) -> list[Row]:
    """If one of these is taken back, this row may be as well: its parents, and those for whom it would have to be made
    anew. Nothing takes back what something irrevocable stands on."""
    return [] if row.covered else stood_on_with(row)
