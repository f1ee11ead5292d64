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

A wrong rule puts functions of its own in the place of some functions of `core.rules`, while a run of its class decides,
and at no other time. It reaches the functions that it replaced by the names under which they are imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar, Self

from onceflow.core.model import commands, events
from onceflow.core.model.rows import Row, Scope
from onceflow.core.rules import ending, failures, loading, objects, outputs, recovery, settling, starting
from onceflow.core.rules.outputs import become_saved
from onceflow.core.rules.recovery import open_scope
from onceflow.core.rules.starting import may_begin
from onceflow.core.rules.state import State
from onceflow.core.run import Run


class WrongRun(Run):
    """A run that obeys other functions in the place of some of the rules."""

    instead: ClassVar[tuple[tuple[ModuleType, str, Callable[..., Any]], ...]] = ()
    """Module, name of a function in it, and the function that replaces it."""

    @classmethod
    @contextmanager
    def in_force(cls) -> Iterator[None]:
        """Meanwhile all that call these functions get the wrong ones."""
        right = [getattr(module, name) for module, name, _ in cls.instead]
        try:
            for module, name, function in cls.instead:
                setattr(module, name, function)
            yield
        finally:
            for (module, name, _), function in zip(cls.instead, right, strict=True):
                setattr(module, name, function)

    @classmethod
    def load(cls, *journal: Any, **settings: Any) -> Self:
        with cls.in_force():
            return super().load(*journal, **settings)

    def begin(self) -> list[commands.Command]:
        with self.in_force():
            return super().begin()

    def handle(self, event: events.Event) -> list[commands.Command]:
        with self.in_force():
            return super().handle(event)


class _EagerRun(WrongRun):
    """Asks again about every waiting task at every event, because a wrong rule may allow it at a moment when the right
    one has nothing to say."""

    def handle(self, event: events.Event) -> list[commands.Command]:
        self.ready.extend(row for row in self.rows.values() if row.state == "waiting" and row.missing == 0)
        return super().handle(event)


def _if_harmless(looks_harmless: Callable[[Row], bool]) -> Callable[[Row], bool]:
    """May a row begin, if this says when something irrevocable, or a writer, may?"""

    def may_begin_if_harmless(row: Row) -> bool:
        if row.effect == "undoable" or (row.expander is not None and not row.expander.fully_saved):
            return may_begin(row)
        return looks_harmless(row)

    return may_begin_if_harmless


def _is_cut_off(row: Row) -> bool:
    above = [parent for parent, _ in row.parents]
    while above:
        ancestor = above.pop()
        if ancestor.fully_saved or ancestor.retired:
            continue
        if not ancestor.node.options.deterministic:
            return False
        above.extend(parent for parent, _ in ancestor.parents)
    return True


class CutRun(_EagerRun):
    """An irrevocable task starts when a saved cut parts it from every nondeterministic ancestor."""

    instead = ((starting, "may_begin", _if_harmless(_is_cut_off)),)


def _stands_on_what_seems_settled(row: Row) -> bool:
    above = [parent for parent, _ in row.parents]
    while above:
        ancestor = above.pop()
        if not ancestor.repeatable and not _seems_settled(ancestor):
            return False
        above.extend(parent for parent, _ in ancestor.parents)
    return True


class ConsumersRun(_EagerRun):
    """An irrevocable task starts when every ancestor is repeatable, saved, or has only consumers like that."""

    instead = ((starting, "may_begin", _if_harmless(_stands_on_what_seems_settled)),)


def _become_saved_without_refs(run: State, row: Row, part: int) -> None:
    become_saved(run, row, part)
    if row.saved != row.every_part and not row.declared & ~row.saved:
        objects.forget_saves(run, row, row.saving)
        row.saved = row.every_part
        if row.nested is not None:
            outputs.let_nested_begin(run, row.nested)
        settling.note_saved(run, row)


class ValuesRun(WrongRun):
    """A node is saved when its declared parts are."""

    instead = ((outputs, "become_saved", _become_saved_without_refs),)


def _never(*about: object) -> bool:
    return False


def _always(*about: object) -> bool:
    return True


def _do_nothing(*about: object) -> None:
    pass


class HastyRun(WrongRun):
    """Who takes an actor waits for nobody."""

    instead = ((objects, "is_in_use", _never),)


class StaleRun(WrongRun):
    """What somebody has taken is still there."""

    instead = ((objects, "overwrite", _do_nothing),)


def _become_done_as_usual(run: State, row: Row) -> None:
    outputs.become_done(run, row, None, row.small)


class TrustingRun(WrongRun):
    """A task whose failure was handled is as repeatable as it says."""

    instead = ((failures, "become_handled", _become_done_as_usual),)


def _may_begin_or_write(row: Row) -> bool:
    return (row.writes and row.effect == "none") or may_begin(row)


class RashRun(_EagerRun):
    """What writes task variables need not wait until nothing above it can change."""

    instead = ((starting, "may_begin", _may_begin_or_write),)


def _nothing_is_stood_on(run: State) -> set[Row]:
    return set()


class GreedyRun(WrongRun):
    """Nothing in a transaction is kept."""

    instead = ((ending, "stood_on", _nothing_is_stood_on),)


class LooseRun(WrongRun):
    """Who joins what stands aside does not depend on it: that was settled."""

    instead = ((starting, "join", _do_nothing),)


class OpenRun(WrongRun):
    """A graph that is about to end is not closed."""

    instead = ((ending, "close", _do_nothing),)


class ForgetfulRun(WrongRun):
    """A graph begins as soon as it is returned, whatever stands aside in it."""

    instead = ((starting, "has_begun", _always),)


class TornRun(WrongRun):
    """What is saved in part of a writer counts after a crash."""

    instead = ((loading, "forget_torn", _do_nothing),)


def _open_with_all_inside(run: State, scope: Scope) -> None:
    endings, run.endings = run.endings, {}
    open_scope(run, scope)
    run.endings = endings


class ReopeningRun(WrongRun):
    """Who opens a graph opens all that is in it."""

    instead = ((recovery, "open_scope", _open_with_all_inside),)


def _seems_settled(row: Row) -> bool:
    if row.retired:
        return True
    if row.state != "done":
        return False
    if row.fully_saved:
        return True
    return bool(row.consumers) and all(_seems_settled(consumer) for consumer, *_ in row.consumers)
