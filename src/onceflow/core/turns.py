"""Whose turn it is (design 2.10): of nodes that belong together, as the chunks of a loop do, so many may be in flight.

A row of a full group waits here, before anything is recorded of it. When there is room, those with lower numbers go
first, whenever they came: so a loop with parts that open into more parts finishes what it has opened before it opens
more. Rows that open into more of their group go one at a time.

A row is in flight while an attempt of it runs. If it returned a graph, it stays in flight until the graph's result is
there, unless nodes of that graph belong to the group themselves, and have turns of their own. What runs again waits
for no turn: somebody may be in flight who needs it.
"""

from __future__ import annotations

import heapq

from onceflow.core.rows import Row
from onceflow.core.taking import Taking


class Group:
    """Rows that take turns."""

    __slots__ = ("flying", "id", "items", "limit", "waiting")

    def __init__(self, id: str, limit: int, items: int) -> None:
        self.id = id
        """Of the row that returned the graph with which the group begins."""
        self.limit = limit
        self.items = items
        """How many items all of them stand for."""
        self.flying: dict[Row, None] = {}
        """Rows that are in flight."""
        self.waiting: list[tuple[int, int, Row]] = []
        """Rows that could start but for their turn, as a heap by their order. Some may be gone or not be ready any
        more."""

    @property
    def is_open(self) -> bool:
        """Whether the next one that waits may start."""
        if not self.waiting or len(self.flying) >= self.limit:
            return False
        return not (_opens(self.waiting[0][2]) and any(map(_opens, self.flying)))


class Turns(Taking):
    """Keeps groups."""

    limits: dict[str, int] = {}
    """Group → the limit that somebody set while the run went on. It outlives the group, which may come again."""
    _queued: int = 0
    """How many rows have come to wait; breaks ties."""
    _eager: dict[Group, None] = {}
    """Agenda: groups of which somebody may start, perhaps."""

    @property
    def groups(self) -> dict[str, Group]:
        """By the id of their loop, as long as one of their rows is there."""
        return {row.group.id: row.group for row in self.rows.values() if row.group is not None}

    def _form_group(self, expander: Row, rows: list[Row], sink: Row) -> None:
        """These are the rows of the graph that the expander has returned."""
        members = [(row, row.node.turn) for row in rows if row.node.turn is not None]
        if members:
            limit = max(turn.limit for _, turn in members)
            group = expander.group
            if limit or group is None:
                limit = self.limits.get(expander.id, limit or len(members))
                group = Group(expander.id, limit, sum(turn.items for _, turn in members))
            for row, _ in members:
                row.group = group
        if expander.group is not None and not (members and members[0][0].group is expander.group):
            expander.group.flying[expander] = None
            sink.keeps = sink.stands_for = expander
        else:
            sink.keeps, expander.keeps = expander.keeps, None
            sink.stands_for = expander.stands_for

    def _dissolve_group(self, expander: Row, sink: Row) -> None:
        """The graph of the expander is no more."""
        kept, sink.keeps = sink.keeps, None
        if kept is expander:
            self._end_turn(expander)
        else:
            expander.keeps = kept

    def _queue(self, row: Row) -> None:
        """The row could start."""
        group, turn = row.group, row.node.turn
        assert group is not None
        assert turn is not None
        if not row.queued:
            row.queued = True
            self._queued += 1
            heapq.heappush(group.waiting, (turn.order, self._queued, row))
        self._eager[group] = None

    def _take_turn(self, row: Row) -> None:
        assert row.group is not None
        row.group.flying[row] = None

    def _end_turn(self, row: Row) -> None:
        """The row of a group is not in flight any more, unless it returned a graph whose result is not there."""
        group = row.group
        if group is not None and row in group.flying and not _is_kept_in_flight(row):
            del group.flying[row]
            self._eager[group] = None

    def _turn_is_over(self, row: Row) -> None:
        """The row is done; unless it returned a graph, its output is there."""
        last = row if row.nested is None else row.nested.sink
        if last.keeps is not row:
            self._end_turn(row)
        while last.keeps is not None and (last is row or last.visible):
            kept, last.keeps = last.keeps, None
            if not is_in_flight(kept):  # else it runs once more, which is its turn as well
                self._end_turn(kept)
            last = row = kept  # which may have been a sink in turn

    def _keep_turns(self, sink: Row) -> None:
        """The result of a graph is dropped, and the graph is not: who is in flight until it is there is so again."""
        kept = sink.stands_for
        while kept is not None:
            assert kept.group is not None
            kept.group.flying[kept] = None
            sink.keeps = kept
            sink, kept = kept, kept.stands_for

    def _set_limit(self, id: str, limit: int) -> None:
        """How many rows of this group may be in flight from now on."""
        self.limits[id] = limit
        group = self.groups.get(id)
        if group is not None:
            group.limit = limit
            self._eager[group] = None


def is_in_flight(row: Row) -> bool:
    """Whether it has its turn, or has to have it, for itself: it runs, or has asked before it does."""
    return row.state == "running" or row.asking


def _is_kept_in_flight(row: Row) -> bool:
    """Whether it is in flight for the sake of the graph that it returned."""
    last = row
    while last.nested is not None:
        last = last.nested.sink
    kept = None if last.visible else last.keeps
    while kept is not None and kept is not row:
        kept = kept.keeps  # which is a sink in turn
    return kept is row


def _opens(row: Row) -> bool:
    return row.node.turn is not None and row.node.turn.opens
