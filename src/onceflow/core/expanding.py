"""Graphs returned by tasks (design 2.9): their nodes become rows of the run, in the step in which the expander is done.

All nested rows are consumers of the expander, because their arguments are part of its output. The expander's own
consumers now read the nested sink, which inherits `checkpoint`.

Ids: a nested node is called `expander/node`. A chain in which each graph's sink returns the next graph would make ids
ever longer, so there the depth is a number: `loop/step`, `loop~2/step`, `loop~3/step`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onceflow.core import records
from onceflow.core.graph import Graph
from onceflow.core.rows import Nested, Row, Scope, new_row
from onceflow.core.starting import Starting
from onceflow.core.state import link, link_new, reach
from onceflow.core.turns import is_in_flight


class Expanding(Starting):
    """Adds the rows of a nested graph, and takes them out again when the expander is dropped."""

    def _expand(self, expander: Row, graph: Graph) -> None:
        base, depth = _inside(expander)
        prefix = base if depth == 1 else f"{base}~{depth}"
        rows: list[Row] = []
        outer = expander.scope
        tail = outer.sink is expander
        options = expander.node.options
        scope = outer if tail and not options.guards and not options.transaction else Scope(outer, expander)
        for node in graph.nodes:
            row = new_row(f"{prefix}/{node.id}", node, scope)
            row.expander = expander
            row.depth = expander.depth + 1
            rows.append(row)
            self.rows[row.id] = row
            self._codes.pop(row.id, None)  # it comes with the code that exists now
            if node.aside:
                expander.forks = True
                self._aside[row] = None
            self._inherit_zombies(row)
        sink = rows[graph.sink]
        sink.prefix = (base, depth)
        scope.ends_with(sink)
        if tail and scope is not outer:
            outer.ends_with(None, scope)
        sink.checkpoint = expander.checkpoint  # if that is not saved, nothing in its graph is
        sink.exported, expander.exported = expander.exported, False
        _hand_over(expander, sink)
        for row, node in zip(rows, graph.nodes, strict=True):
            link_new(row, node.edges, rows)
            link(expander, row, expander.with_refs(1))
        self._form_group(expander, rows, sink)
        expander.nested = Nested(graph, rows, sink)
        refs = expander.every_part & ~expander.node.every_part
        expander.every_part = 1 | refs  # what it returned, and what is saved, is the graph
        if expander is self._sink:
            self._sink = sink

    def _inherit_zombies(self, row: Row) -> None:
        """A node of this id may have been there before, in a graph that was dropped."""
        if self._zombies:
            row.zombies = {attempt for attempt, node in self._zombies.items() if node == row.id} or None

    def _expand_again(self, expander: Row, graph: Graph) -> None:
        """It returned this graph before a crash. If what reads the sink has left a trace, all of it was done."""
        self._expand(expander, graph)
        assert expander.nested is not None
        self._pin_nested(expander, expander.nested.rows)
        if not any(consumer.touched for consumer, _, _ in expander.nested.sink.consumers):
            return
        for row in expander.nested.rows:
            row.state = "done"
            row.visible = row.inferred = True
            for consumer, mask, _ in row.consumers:
                if mask == 0:
                    consumer.missing -= 1
            self._note_done(row)
            self._suspects[row] = None
        if not is_in_flight(expander):  # else it was rebuilt for an undo while it runs for the others
            self._turn_is_over(expander)

    def _record_expansion(self, expander: Row) -> None:
        """The journal learns of the graph when the expander is saved. What matters of it before that is noted now, for
        the outermost expander that the journal knows."""
        assert expander.nested is not None
        if not all(row.repeatable for row in expander.nested.rows):
            self._distrust(expander)

    def _distrust(self, expander: Row) -> None:
        known = outermost_known(expander)
        if known.node.options.repeatable:
            known.distrusted = True
            self._append(records.Expanded(known.id))

    def _trust_around(self, dropped: list[Row]) -> None:
        """What was noted for the sake of these rows need not hold any more for the tasks around them."""
        for known in dict.fromkeys([outermost_known(row) for row in dropped]):
            if not known.distrusted or known.nested is None:
                continue
            if _is_repeatable(known.nested):
                known.distrusted = False
                self._append(records.Trusted(known.id, known.code))
            elif known.forced and not _is_answered_for(known.nested):  # it need not be saved any more
                self._append(records.Trusted(known.id, known.code))
                self._append(records.Expanded(known.id))
        for expander in reach(dropped, _around):
            if expander.forced and not expander.saved and expander.nested and not _is_answered_for(expander.nested):
                expander.forced = expander.checkpoint = False

    def _record_expansions_in(self, nested: Nested) -> None:
        """The journal has this graph now, so what was noted for its expander is noted for those that it contains."""
        for row in nested.rows:
            if row.handled and row.node.options.repeatable:
                self._append(records.Handled(row.id))
            if row.nested is not None and row.node.options.repeatable and not _is_repeatable(row.nested):
                row.distrusted = True
                noted = records.Handled if _is_answered_for(row.nested) else records.Expanded
                self._append(noted(row.id))

    def _collapse(self, expander: Row) -> None:
        """Undo `_expand`. The nested rows are dropped already."""
        assert expander.nested is not None
        sink = expander.nested.sink
        expander.consumers = []
        expander.unsettled = 0
        expander.every_part = expander.node.every_part
        if expander.settling is not None:
            expander.settling.consumer = 0
        expander.exported = sink.exported
        _hand_over(sink, expander)
        if expander.scope.sink is sink:
            expander.scope.ends_with(expander)
        if sink is self._sink:
            self._sink = expander
        self._dissolve_group(expander, sink)
        for row in expander.nested.rows:
            del self.rows[row.id]
            self._aside.pop(row, None)
            self._end_turn(row)  # which it keeps while it asks
            for mark in (row.settling, row.quieting):
                if mark is not None:
                    self._forget_mark(mark)
        expander.nested = None
        expander.forks = False


def outermost_known(row: Row) -> Row:
    """The task itself if the journal knows it, or the one around it through which it came."""
    while row.expander is not None and not row.is_known:
        row = row.expander
    return row


def _inside(expander: Row) -> tuple[str, int]:
    return (expander.id, 1) if expander.prefix is None else (expander.prefix[0], expander.prefix[1] + 1)


def id_inside(expander: Row, node: str) -> str:
    """What a node of this id is called if it is in a graph that this row returns."""
    base, depth = _inside(expander)
    return f"{base}/{node}" if depth == 1 else f"{base}~{depth}/{node}"


def row_around(rows: Mapping[str, Row], node: str) -> Row | None:
    """The innermost known task that returned a graph which a node of this id was in, or from which such a graph came in
    the end."""
    tail = 1
    while node not in rows:
        node, _, _ = node.rpartition("/")
        tail = 1
        if node not in rows:
            base, _, depth = node.rpartition("~")
            if depth.isdigit():
                node, tail = base, int(depth)
        if not node:
            return None
    row = rows[node]
    while tail > 1 and row.nested is not None:  # along the chain, as far as it is known
        row = row.nested.sink
        tail -= 1
    return row


def _is_repeatable(nested: Nested) -> bool:
    """Would running it again go unnoticed, with all that is nested in it?"""
    graphs = [nested]
    for graph in graphs:  # grows while it is gone through
        if not all(row.repeatable for row in graph.rows):
            return False
        graphs += [row.nested for row in graph.rows if row.nested is not None]
    return True


def _around(row: Row) -> list[Row]:
    return [] if row.expander is None else [row.expander]


def _is_answered_for(nested: Nested) -> bool:
    """Whether a handler has given something in it, or what it ends with."""
    graphs = [nested]
    for graph in graphs:  # grows while it is gone through
        if any(row.handled or row.ends is not None for row in graph.rows):
            return True
        graphs += [row.nested for row in graph.rows if row.nested is not None]
    return False


def _hand_over(giver: Row, taker: Row) -> None:
    """The giver's consumers read the taker instead, which has not run."""
    taker.consumers, giver.consumers = giver.consumers, []
    taker.unsettled, giver.unsettled = giver.unsettled, 0
    for index, (consumer, mask, position) in enumerate(taker.consumers):
        if not consumer.retired:
            consumer.missing += giver.gives(mask)
            mask &= giver.node.every_part  # the refs that the giver holds are not the taker's
            taker.consumers[index] = (consumer, mask, position)
            consumer.parents[position] = (taker, mask)
            consumer.unquiet += giver.quiet
            consumer.irreproducible += giver.reproducible
            consumer.follows_writer |= taker.writes
            consumer.uncommitted += taker.writes - giver.writes


def is_to_be_saved(row: Row) -> bool:
    """Whether its options say so, or the task is saved whose result it gives."""
    expander = row.expander
    if expander is not None and expander.nested is not None and expander.nested.sink is row:
        return expander.checkpoint
    return row.node.options.checkpoint
