"""Actors (design 2.7): who takes a version for itself, when that may be, and what becomes of the version.

A version of an actor is a ref part of the output that holds it, made by the task that returned it. Who reads the part
may **share** it with others, or **take** it, as the graph says (`Node.takes`): then it changes the actor, and the
version that it found is no more, unless that is to be saved. In that case a snapshot was taken when it was made, which
is in memory until it is saved: so for core a version that is to be saved stays available, and one that is not is lost
when somebody takes it. What follows is the business of the usual rules: who needs a lost version has its maker run
again.

A taker waits for those that share the live actor at that moment, also if they do so for an undo. If the version is not
to be saved, it also waits for those that have yet to read it, except for its own descendants: they would find it lost.
Two that take one version do not wait for each other. The check before the run (`check`) refuses graphs in which that
would go on for ever.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from onceflow.core.joining import Joining
from onceflow.core.rows import Effort, Row

UNREAD = ("waiting", "backoff", "handled")
"""States of rows that may yet read, or read again, what is above them."""


class Taking(Joining):
    """Knows which versions are in use, and takes them away."""

    _takers: dict[Row, None] = {}
    """Rows that could start but for those that read what they take."""
    _rebuilding: dict[Row, Effort] = {}
    """What is being made again, privately, for undos."""

    def _is_in_use(self, row: Row) -> bool:
        """Has this taker to wait for a reader?"""
        for parent, part in taken_by(row):
            if self._is_read_now(parent, part):
                return True
            for reader in () if parent.checkpoint else readers_of(parent, part):
                if reader.state in UNREAD and not descends(reader, row):
                    return True
        return False

    def _is_being_read(self, row: Row) -> bool:
        """The same for one that is run for an undo. What has not started does not start before the undo has ended."""
        return any(self._is_read_now(parent, part) for parent, part in taken_by(row))

    def _is_read_now(self, row: Row, part: int) -> bool:
        """Does anybody use the live actor, for an undo or not? The undo of a taker reads what that took."""
        return any(
            reader.state == "running" or _is_under_way(self._rebuilding.get(reader)) for reader in readers_of(row, part)
        ) or any(_is_under_way(consumer.undo) for consumer, mask, _ in row.consumers if mask >> part & 1)

    def _take(self, row: Row, besides: Container[Row] = ()) -> None:
        """A taker starts: what is neither saved nor to be saved of what it takes is lost to all others. (What is saved
        in a graph that has ended stays saved.) `besides`: what was made of these for undos only, and is not used up."""
        for parent, part in taken_by(row):
            in_memory_only = parent.available & ~parent.saved
            if not parent.checkpoint and in_memory_only >> part & 1 and parent not in besides:
                self._overwrite(parent, part)

    def _overwrite(self, row: Row, part: int) -> None:
        before = row.available
        row.available &= ~(1 << part)
        for consumer, mask, _ in row.consumers:
            if not mask & ~before and mask >> part & 1:
                consumer.missing += 1
        self._suspects[row] = None


def _is_under_way(effort: Effort | None) -> bool:
    return effort is not None and bool(effort.attempt) and not effort.waiting


def taken_by(row: Row) -> Iterator[tuple[Row, int]]:
    """The versions that a row takes: whose output holds them, and as which part."""
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
