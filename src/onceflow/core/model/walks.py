"""Edges between rows, and walks along them and through the graphs that rows have returned.

Ids: a nested node is called `expander/node`. A chain in which each graph's sink returns the next graph would make ids
ever longer, so there the depth is a number: `loop/step`, `loop~2/step`, `loop~3/step` (design 2.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from onceflow.core.model.graph import Edge
from onceflow.core.model.rows import Row, Scope


def link_new(row: Row, edges: Iterable[Edge], rows: Sequence[Row]) -> None:
    """Add the edges of a new row, whose parents are all new: none of them gives anything yet."""
    parents = row.parents
    for number, mask in edges:
        parent = rows[number]
        parent.consumers.append((row, mask, len(parents)))
        parent.unsettled += 1
        parents.append((parent, mask))
        if parent.writes:
            row.follows_writer = True
            row.uncommitted += 1
    row.missing = row.unquiet = row.irreproducible = row.unretired = len(parents)


def link(parent: Row, consumer: Row, mask: int) -> None:
    """Add an edge to a row that has not started."""
    parent.consumers.append((consumer, mask, len(consumer.parents)))
    parent.unsettled += 1
    consumer.parents.append((parent, mask))
    consumer.missing += not parent.gives(mask)
    consumer.unquiet += not parent.quiet
    consumer.irreproducible += not parent.reproducible
    consumer.unretired += 1
    consumer.follows_writer |= parent.writes
    if parent.writes:
        consumer.uncommitted += parent.holds_up


def hand_over(giver: Row, taker: Row) -> None:
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


def reach(rows: Iterable[Row], next_to: Callable[[Row], Iterable[Row]]) -> dict[Row, None]:
    """All that can be reached from these rows, without those of them that cannot."""
    found: dict[Row, None] = {}
    stack = list(rows)
    while stack:
        more = [other for other in next_to(stack.pop()) if other not in found]
        found.update(dict.fromkeys(more))
        stack += more
    return found


def stood_on_with(row: Row) -> list[Row]:
    """What is stood on if this row is (design 2.8): its parents, and all that read it, if it could not be made
    again."""
    more = [parent for parent, _ in row.parents]
    return more if row.reproducible else [*more, *(consumer for consumer, _, _ in row.consumers)]


def unsaved_parents(row: Row) -> list[Row]:
    """What it reads and would have to be made again."""
    return [parent for parent, _ in row.parents if not parent.fully_saved]


def with_what_is_below(rows: Iterable[Row]) -> list[Row]:
    """These rows and what has happened below them."""
    found: dict[Row, None] = {}
    stack = list(rows)
    while stack:
        row = stack.pop()
        if row not in found:
            found[row] = None
            stack.extend(consumer for consumer, _, _ in row.consumers if consumer.touched)
    return list(found)


def descends(row: Row, ancestor: Row) -> bool:
    """Does one row lead to the other?"""
    above = [row]
    seen = {row}
    while above:
        for parent, _ in above.pop().parents:
            if parent is ancestor:
                return True
            if parent not in seen and not parent.retired:
                seen.add(parent)
                above.append(parent)
    return False


def topological(rows: Mapping[str, Row]) -> list[Row]:
    """All rows, parents before consumers."""
    waiting = {row: sum(not parent.retired for parent, _ in row.parents) for row in rows.values()}
    order = [row for row, count in waiting.items() if count == 0]
    for row in order:
        for consumer, _, _ in row.consumers:
            if not consumer.retired:
                waiting[consumer] -= 1
                if waiting[consumer] == 0:
                    order.append(consumer)
    return order


def taken_by(row: Row) -> Iterator[tuple[Row, int]]:
    """The versions that a row takes: the row whose output holds them, and the part index."""
    for position, mask in row.node.takes:
        parent = row.parents[position][0]
        if parent.refs is not None:
            for part, ref in enumerate(parent.refs.parts, parent.node.parts):
                if ref.actor and ref.holders & mask:
                    yield parent, part


def readers_of(row: Row, part: int) -> Iterator[Row]:
    """Those that share this version."""
    assert row.refs is not None
    holders = row.refs.parts[part - row.node.parts].holders
    for consumer, mask, position in row.consumers:
        if mask >> part & 1 and not any(edge == position and taken & holders for edge, taken in consumer.node.takes):
            yield consumer


def inside(expander: Row) -> tuple[str, int]:
    return (expander.id, 1) if expander.prefix is None else (expander.prefix[0], expander.prefix[1] + 1)


def id_inside(expander: Row, node: str) -> str:
    """What a node of this id is called if it is in a graph that this row returns."""
    base, depth = inside(expander)
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


def outermost_known(row: Row) -> Row:
    """The task itself if the journal knows it, or the one around it through which it came."""
    while row.expander is not None and not row.is_known:
        row = row.expander
    return row


def end_of(row: Row) -> Row | None:
    """For what was abandoned: what its graph has ended with, if that is not settled: it may be taken back, and then the
    row starts afresh."""
    scope: Scope | None = row.scope if row.is_empty else None
    while scope is not None:
        if scope.given is not None:
            return None if scope.given.settled else scope.given
        scope = scope.outer
    return None


def unsaved_around(sink: Row, scope: Scope) -> Row | None:
    """The outermost task of the scope that has returned a graph with the sink in it and is not saved. What it returned
    need not be kept for the end of the scope: it is taken back, and the task takes the place of the sink."""
    found: Row | None = None
    expander = sink.expander
    while expander is not None and expander.scope.is_in(scope):
        if not expander.fully_saved:
            found = expander
        expander = expander.expander
    return found
