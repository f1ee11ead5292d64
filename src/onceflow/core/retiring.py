"""Which rows can be forgotten (design 2.10), and which effects can never be taken back any more (2.8).

A row and all its consumers settled: no task will ever read it again, so its output is released. The row itself leaves
memory too, unless an undo may still come by:

- A begun undoable row may be undone until it is **covered**: until something irrevocable that has begun stands on it.
  So it stays, and what lies below it (which would be dropped with it) stays as well.
- An undo reads what the attempt read. What is not carried in the *begun* record and not saved would have to be made
  again, so the rows that can make it are **pinned**.
- If a row could not be made again, nobody who read it may be dropped once something irrevocable stands on it. So it
  stays as long as something undoable would be stood on with it; and when it goes as a covered row, its readers become
  covered.

"Stands on" is the least set that contains the ancestors of begun irrevocable tasks, the consumers of every member that
is not reproducible, and the ancestors of every member.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.core import commands
from onceflow.core.rows import Row, Scope
from onceflow.core.settling import Settling
from onceflow.core.state import reach, stood_on_with, unsaved_parents


class Retiring(Settling):
    """Releases outputs and forgets rows."""

    _exposed: int = 0
    """How many begun undoable rows are not covered."""
    _lingering: dict[Row, dict[Row, None]] = {}
    """Begun undoable row that is not covered → rows that stay because one of their readers would be dropped with it."""
    _retained: dict[Scope, list[Row]] = {}
    """Transaction that may still fail → rows in it that would otherwise be released or forgotten."""
    _kept: dict[str, Scope] = {}
    """Ids and scopes of forgotten rows whose effects were undoable."""

    def _retire_rows(self) -> None:
        """Work off the agenda of rows that became settled together with all their consumers."""
        if self._retained:
            self._let_go_of_groups()
        safe: set[Row] = set()
        for row in self._retirable:  # grows while it is worked off
            if not row.settled or row.unsettled or not row.consumers:
                continue
            scope = (row if row.nested is None else row.nested.rows[0]).scope  # where it may be read once more
            if scope.group is not None and (group := scope.unsettled_group) is not None:
                self._retained.setdefault(group, []).append(row)
                continue
            if not self._release(row):
                continue
            if self._may_be_forgotten(row, safe):
                self._forget(row)
        self._retirable.clear()

    def _let_go_of_groups(self) -> None:
        """A transaction that may fail takes back what is settled in it, and starts it afresh: until it is done, nothing
        of it is released or forgotten."""
        for group in list(self._retained):
            sink = group.sink
            if sink is None or sink.settled:
                self._retirable += self._retained.pop(group)
            elif self.rows.get(sink.id) is not sink:  # dropped as a whole
                del self._retained[group]

    def _release(self, row: Row) -> bool:
        """Free the output, if no save and no undo may read it."""
        if row.checkpoint and row.saved != row.every_part and row.available == row.every_part:
            return False  # the save that is on its way reads it
        if row.pins:
            return False
        if not row.released:
            row.released = True
            self._saving -= row.saving.bit_count()  # of parts whose siblings are lost
            row.saving = 0
            if row.recorded:
                row.attempt = 0
            self._emit(commands.Release(row.id))
        return True

    def _may_be_forgotten(self, row: Row, safe: set[Row]) -> bool:
        if row.covered:
            if row.reproducible:
                return True
            if row.repeatable and row.unretired:
                return False  # it may yet become reproducible, when a parent is saved
            self._retirable += self._cover([consumer for consumer, _, _ in row.consumers])
            return True
        if row.effect == "undoable" and row.begun:
            return False
        if not self._exposed:
            return True  # all above it is done, and none of that can be undone: nobody who read it is dropped for that
        if row.unretired:
            return False
        if row.reproducible:
            return True
        undoable = _exposed_with(row, safe)
        if undoable is not None:
            self._lingering.setdefault(undoable, {})[row] = None
        return undoable is None

    def _forget(self, row: Row) -> None:
        row.retired = True
        if row.effect == "undoable" and row.begun:
            self._kept[row.id] = row.scope
        for consumer, _, _ in row.consumers:
            consumer.unretired -= 1
            if consumer.unretired == 0:
                self._retirable.append(consumer)
                if consumer.effect == "none" and consumer.fully_saved:
                    consumer.parents = []  # it never runs again, and may have read very many
        row.parents = []
        row.consumers = []
        row.joined = ()
        row.expander = row.nested = row.settling = row.quieting = None  # its refs stay: an undo below may read them
        del self.rows[row.id]

    def _cover(self, rows: Iterable[Row]) -> list[Row]:
        """Begun irrevocable tasks stand on these rows and on all above them. Returns those of which that is news."""
        news = [row for row in rows if not row.covered]
        for row in news:
            row.covered = True
        for row in news:
            if row.effect == "undoable" and row.begun:
                self._no_longer_exposed(row)
            self._unpin(row)
            for parent, _ in row.parents:
                if not parent.covered:
                    parent.covered = True
                    news.append(parent)
        return news

    def _no_longer_exposed(self, row: Row) -> None:
        """An undoable row is covered, or undone: the rows that stay because of it may go."""
        self._exposed -= 1
        self._retirable += self._lingering.pop(row, ())

    def _cover_readers(self) -> None:
        """Extend what is covered to what is stood on: the readers of covered rows that could not be made again."""
        rows = [row for row in self.rows.values() if row.covered]
        for row in rows:
            if not row.reproducible:
                rows += self._cover([consumer for consumer, _, _ in row.consumers])

    def _pin(self, row: Row) -> None:
        """An undo of this row reads what it read."""
        self._exposed += 1
        carried = set(row.carried)
        read = [
            parent
            for parent, mask in row.parents
            if not parent.fully_saved
            and not carried.issuperset((parent.id, part) for part in range(mask.bit_length()) if mask >> part & 1)
        ]
        row.pinned = list(dict.fromkeys([*read, *reach(read, unsaved_parents)]))
        for parent in row.pinned:
            parent.pins += 1

    def _pin_nested(self, expander: Row, rows: list[Row]) -> None:
        """A graph that a crash took is there again: what was read of its expander are its rows now."""
        if expander.pins:
            for row in self.rows.values():
                if row.pinned is not None and expander in row.pinned:
                    row.pinned += rows
                    for other in rows:
                        other.pins += 1

    def _unpin(self, row: Row) -> None:
        pinned, row.pinned = row.pinned, None
        for parent in pinned or ():
            parent.pins -= 1
            if not parent.pins:
                self._retirable.append(parent)


def _exposed_with(row: Row, safe: set[Row]) -> Row | None:
    """A begun undoable row that is not covered, and would be stood on if this one were. `safe` are rows for which there
    is none."""
    found = [row]
    seen = set(found)
    while found:
        row = found.pop()
        if row.covered or row in safe:
            continue
        if row.effect == "undoable" and row.begun:
            return row
        more = [other for other in stood_on_with(row) if other not in seen]
        found += more
        seen.update(more)
    safe |= seen
    return None
