"""Rules that look right and are not (design 2.3, 2.2). The simulation must catch them all: they test the test.

`CutRun` is ExoFlow's invariant: between every nondeterministic ancestor and an irrevocable task there is a saved cut.
It forgets that a saved node is dropped when a nondeterministic ancestor of it runs again.

`ConsumersRun` has *settled* without its second clause: saved, or all consumers settled. It forgets the same thing, and
only shapes such as the second one of design 2.3 show it.

`ValuesRun` takes a node for saved when its values are, whatever becomes of the refs in them.

`HastyRun` and `StaleRun` are about actors: a task that takes one does not wait for those that read it; and the version
that it takes counts as there afterwards, although nobody saved it.

`TrustingRun` takes what a handler gave for what the task would give again if it is deterministic. `GreedyRun` undoes a
whole transaction that failed, whatever irrevocable has been built on it. `OpenRun` lets a graph go on for which a
handler has answered. `LooseRun` forgets that what was settled when it was joined may still be taken back.

`ForgetfulRun` lets a graph begin in which something stands aside before the journal has it. `TornRun` takes what is
saved in part of a task that writes variables for its output after a crash, although the writes are gone. `ReopeningRun`
opens a graph that is tried again with all that is about to end in it.

`RashRun` lets tasks that write variables start as soon as they have what they read, like those without effect.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.core import commands, events
from onceflow.core.rows import Row, Scope
from onceflow.core.run import Run


class _EagerRun(Run):
    """Asks again about every waiting task at every event, because a wrong rule may allow it at a moment when the right
    one has nothing to say."""

    def handle(self, event: events.Event) -> list[commands.Command]:
        self._ready.extend(row for row in self.rows.values() if row.state == "waiting" and row.missing == 0)
        return super().handle(event)

    def _may_begin(self, row: Row) -> bool:
        if row.effect == "undoable" or (row.expander is not None and not row.expander.fully_saved):
            return super()._may_begin(row)
        return self._looks_harmless(row)

    def _looks_harmless(self, row: Row) -> bool:
        raise NotImplementedError


class CutRun(_EagerRun):
    """An irrevocable task starts when a saved cut parts it from every nondeterministic ancestor."""

    def _looks_harmless(self, row: Row) -> bool:
        above = [parent for parent, _ in row.parents]
        while above:
            ancestor = above.pop()
            if ancestor.fully_saved or ancestor.retired:
                continue
            if not ancestor.node.options.deterministic:
                return False
            above.extend(parent for parent, _ in ancestor.parents)
        return True


class ConsumersRun(_EagerRun):
    """An irrevocable task starts when every ancestor is repeatable, saved, or has only consumers like that."""

    def _looks_harmless(self, row: Row) -> bool:
        above = [parent for parent, _ in row.parents]
        while above:
            ancestor = above.pop()
            if not ancestor.repeatable and not _seems_settled(ancestor):
                return False
            above.extend(parent for parent, _ in ancestor.parents)
        return True


class ValuesRun(Run):
    """A node is saved when its declared parts are."""

    def _become_saved(self, row: Row, part: int) -> None:
        super()._become_saved(row, part)
        if row.saved != row.every_part and not row.declared & ~row.saved:
            self._forget_saves(row, row.saving)
            row.saved = row.every_part
            if row.nested is not None:
                self._let_nested_begin(row.nested)
            self._note_saved(row)


class HastyRun(Run):
    """Who takes an actor waits for nobody."""

    def _is_in_use(self, row: Row) -> bool:
        return False


class StaleRun(Run):
    """What somebody has taken is still there."""

    def _overwrite(self, row: Row, part: int) -> None:
        pass


class TrustingRun(Run):
    """A task whose failure was handled is as repeatable as it says."""

    def _become_handled(self, row: Row) -> None:
        self._become_done(row, None, row.small)


class RashRun(_EagerRun):
    """What writes task variables need not wait until nothing above it can change."""

    def _may_begin(self, row: Row) -> bool:
        return (row.writes and row.effect == "none") or Run._may_begin(self, row)


class GreedyRun(Run):
    """Nothing in a transaction is kept."""

    def _stood_on(self) -> set[Row]:
        return set()


class LooseRun(Run):
    """Who joins what stands aside does not depend on it: that was settled."""

    def _join(self, row: Row, joined: Iterable[Row]) -> None:
        pass


class OpenRun(Run):
    """A graph that is about to end is not closed."""

    def _close(self, scope: Scope, groups: list[Scope]) -> None:
        pass


class ForgetfulRun(Run):
    """A graph begins as soon as it is returned, whatever stands aside in it."""

    def _has_begun(self, expander: Row) -> bool:
        return True


class TornRun(Run):
    """What is saved in part of a writer counts after a crash."""

    def _forget_torn(self) -> None:
        pass


class ReopeningRun(Run):
    """Who opens a graph opens all that is in it."""

    def _open(self, scope: Scope) -> None:
        endings, self._endings = self._endings, {}
        super()._open(scope)
        self._endings = endings


def _seems_settled(row: Row) -> bool:
    if row.retired:
        return True
    if row.state != "done":
        return False
    if row.fully_saved:
        return True
    return bool(row.consumers) and all(_seems_settled(consumer) for consumer, *_ in row.consumers)
