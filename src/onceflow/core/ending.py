"""Graphs that end before their result is there (design 2.8): a failure concerns them, and a handler answers for them.

A **scope** is the run, or a returned graph with all that is nested in it. An answer for a scope closes it: nothing in
it starts any more, what has no effect is stopped, what has begun comes to its end. Then, in this order,

- if the failure went through a **transaction**, what can be taken back in it is undone and dropped: a saga (`stopping`)
  for this part of the run;
- the scope is opened again, after a delay, if the answer is to try again: what was dropped starts afresh, the rest
  stays;
- otherwise what has not been done is **abandoned**, and the scope's sink is done with the outcome that the answer
  gives.

The outcome is saved before anybody sees it, after the record that names it (*abandoned*), which counts only together
with all of it. So a crash before that forgets the answer and goes on with what the journal has, and one after that
finds the scope ended. An abandoned row counts as done and saved, with nothing: nobody will read it.

Where the sink is in a graph that the journal does not have, what was returned there is taken back first, like anything
else (`recovery`), and the task that returned it is the sink again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onceflow.core import commands, records
from onceflow.core.expanding import is_to_be_saved
from onceflow.core.handling import Handling
from onceflow.core.rows import Row, Scope
from onceflow.core.state import reach, stood_on_with, topological, unsaved_parents


class End:
    """What is to become of a closed scope."""

    __slots__ = ("again", "cause", "expired", "inside", "joined", "small", "undo")

    def __init__(self, cause: str, small: bool, undo: list[Scope], *, again: bool, expired: bool = False) -> None:
        self.cause = cause
        """The node whose failure it was, or whose graph has run out of time."""
        self.small = small
        self.again = again
        self.expired = expired
        self.undo = undo
        """The transactions that are to be taken back for this."""
        self.joined: list[Row] = []
        """What was joined in what has been taken back of it: what it ends with may have come of that all the same."""
        self.inside: dict[Scope, End] = {}
        """What was to become of scopes in it, which end with it; unless it does not end, because it has a result."""


class Ending(Handling):
    """Closes scopes, and brings them to their ends."""

    _endings: dict[Scope, End] = {}
    """The scopes that are about to end, or to be tried again, except those that end, or are tried again, with another
    one."""
    _pausing: dict[int, Scope] = {}
    """Attempt → the scope that is opened again when its delay is over."""
    _afresh: dict[Scope, None] = {}
    """Scopes that have not ended after all. They open when what was taken back in them is dropped."""
    _abandonments: dict[tuple[str, int, str], None] = {}
    """Loaded: (sink, attempt, expander) of scopes that may have ended."""

    def _answered_for(self, row: Row, failed: int, ends: int, small: bool, again: bool) -> None:
        """The current attempt raised, and a handler takes it as a failure of the scope at depth `failed` (if that is
        negative, of the task alone), and decides what becomes of the scope at depth `ends`."""
        if self._stopping is not None or row.visible or row.scope.at(ends).has_result:
            self._attempt_raised(row, permanent=True)
            return
        self._running -= 1
        self._end_turn(row)
        row.state = "waiting"
        row.attempt = 0
        if row.effect == "undoable":
            self._undo_locally(row)
        scope = row.scope
        undo: list[Scope] = []
        while scope.depth > ends or (0 <= failed <= scope.depth):
            if 0 <= failed <= scope.depth and scope.is_transaction:
                undo.append(scope)
            if scope.depth <= ends or scope.outer is None:
                break
            scope = scope.outer
        self._end_with_what_is_around(scope, End(row.id, small, undo, again=again))

    def _end_with_what_is_around(self, scope: Scope, end: End) -> None:
        """It ends, or is tried again, with a scope around it of which that is certain; or by itself."""
        around = _end_around(self._endings, scope, end.again)
        if around is None:
            self._end_scope(scope, end)
            return
        while around is not None and (around.expired or not end.expired):  # else it ends as it would
            inside = around.inside
            around = _end_around(inside, scope, end.again)
            if around is None:
                if scope in inside:  # it was to be tried again: what is taken back for that still is
                    end.inside[scope] = inside[scope]
                    end.joined += inside[scope].joined
                inside[scope] = end
        self._close(scope, [scope] if end.expired else end.undo)

    def _end_scope(self, scope: Scope, end: End) -> None:
        inside = [other for other in self._endings if other.is_in(scope)]
        for other in inside:
            if end.again and not self._endings[other].again:
                continue  # it ends all the same
            end.inside[other] = self._endings.pop(other)
            end.joined += end.inside[other].joined
            sink = other.sink
            if sink is not None and sink.ends is other:  # it ends with this one, whatever it was given
                self._end_attempt(sink)
                self._append(records.Dropped((sink.id,)))  # a part of it may be saved
                self._drop([sink])
        self._endings[scope] = end
        self._close(scope, [scope] if end.expired else end.undo)

    def _rows_in(self, scope: Scope) -> Iterator[Row]:
        return (row for row in self.rows.values() if row.scope.is_in(scope))

    def _scopes_in(self, scope: Scope) -> list[Scope]:
        """This graph, and all nested in it in which something is left, also if that is in a graph nested deeper."""
        found: dict[Scope, None] = {}
        for row in self._rows_in(scope):
            inner: Scope | None = row.scope
            while inner is not None and inner.depth >= scope.depth and inner not in found:
                found[inner] = None
                inner = inner.outer
        return list(found)

    def _close(self, scope: Scope, groups: list[Scope]) -> None:
        for row in self._rows_in(scope):
            row.scope.closed = True
            taken_back = _is_in_any(row.scope, groups)
            if row.state == "running" and (row.effect == "none" or (row.effect == "undoable" and taken_back)):
                self._end_attempt(row)
                if row.effect == "undoable":
                    self._undo_locally(row)
            elif row.effect == "irrevocable" and row.state == "running":
                self._emit(commands.Withdraw(row.id, row.attempt))
        scope.closed = True

    def _advance_endings(self) -> bool:
        """Take the next step with a closed scope. True if there may be another."""
        for scope, end in list(self._endings.items()):
            sink = scope.sink
            if sink is None or not (sink.retired or self.rows.get(sink.id) is sink):  # dropped, with all around it
                del self._endings[scope]
                continue
            if end.expired and sink.visible:  # it was quicker, whatever becomes of the result
                del self._endings[scope]
                for inner, its_end in end.inside.items():
                    self._end_with_what_is_around(inner, its_end)
                self._open(scope)
                return True
            if sink.ends is scope or any(_is_under_way(row) for row in self._rows_in(scope)):
                continue
            groups = self._failed_in(scope)
            if groups and (rows := self._group_saga(groups)):
                for row in rows:
                    self._end_attempt(row)
                self._begin_recovery(rows)
                for group in groups:
                    self._reassess(group)
                return True
            if end.again:
                del self._endings[scope]
                self._pause(scope)
            elif sink.visible:
                del self._endings[scope]
                self._fail_too_late(end.cause, scope)
            elif (expander := _unsaved_around(sink, scope)) is not None:
                self._take_back(with_what_is_below([expander]))  # which takes the place of the sink
            else:
                self._give(scope, sink, end)
            return True
        return False

    def _failed_in(self, scope: Scope) -> list[Scope]:
        """The transactions in this scope that are to be taken back now, whichever answer said so: a scope around it may
        be tried again later, or one in it may end later. Those that got their results meanwhile are over. (It is asked
        again after each recovery: what was saved meanwhile may have been all that kept something from being undone.)"""
        found: list[Scope] = []
        for other, end in _with_those_inside(self._endings):
            if not (end.expired and other.has_result):  # it was quicker, also if it ends with one around it
                found += [group for group in end.undo if group.is_in(scope)]
        return [group for group in dict.fromkeys(found) if not group.has_result]

    def _fail_too_late(self, node: str, scope: Scope) -> None:
        """What stands aside has failed, and an answer was to be the result of its scope; but that has its own now."""
        row = self.rows.get(node)  # it may have been taken back with the graph that it was in
        failures = 1
        if row is not None:
            failures = row.failures = row.failures + 1
            row.state = "failed"
        self._append(records.Failed(node, failures, True))
        self._fail(node, scope if row is None else row.scope)

    # -- tried again ---------------------------------------------------------------------------------------------------

    def _pause(self, scope: Scope) -> None:
        self._forget_pauses(scope)
        self._count_from_zero(scope, scope.failures + 1)
        self._append(records.Again(scope.expander, scope.failures))
        self._wait_for(scope)

    def _forget_pauses(self, scope: Scope) -> None:
        """What waits in it to be tried again is tried again with it, or never."""
        self._pausing = {attempt: other for attempt, other in self._pausing.items() if not other.is_in(scope)}

    def _count_from_zero(self, scope: Scope, failures: int) -> None:
        """It has failed this often, and is tried again: what is in it has not."""
        for inner in self._scopes_in(scope):
            inner.failures = 0
        for row in self._rows_in(scope):
            row.failures = 0
            if row.state == "backoff":
                row.state = "waiting"
                row.attempt = 0
        scope.failures = failures

    def _wait_for(self, scope: Scope) -> None:
        attempt = self._new_attempt()
        self._pausing[attempt] = scope
        self._emit(commands.Wait(scope.expander, attempt, scope.failures))

    @property
    def is_ending_graphs(self) -> bool:
        """Whether there is one that is about to end, or to be tried again."""
        return bool(self._endings)

    def is_pausing(self, attempt: int) -> bool:
        """Whether this attempt stands for a scope that waits for being tried again."""
        scope = self._pausing.get(attempt)
        return scope is not None and any(True for _ in self._rows_in(scope))  # else its graph was dropped meanwhile

    def _open(self, scope: Scope) -> None:
        closed = [*self._endings, *self._pausing.values()]  # about to end, or to be tried again: in it, or around it
        for row in self._rows_in(scope):
            if row.scope.over or _is_in_any(row.scope, closed):
                continue
            row.scope.closed = False
            if row.state == "waiting":
                self._needs_inputs(row, {})
                continue
            self._suspects[row] = None
            if row.handled:
                self._save_around(row)
            if row.checkpoint and not row.released:  # it was not while a graph around it had ended
                self._ask_to_save(row)
        scope.closed = _is_in_any(scope, closed)

    # -- ended ---------------------------------------------------------------------------------------------------------

    def _give(self, scope: Scope, sink: Row, end: End) -> None:
        """The outcome is saved as soon as the journal knows the graph."""
        joined = [*self._joined_in(scope), *end.joined]
        self._join(sink, [child for child in joined if not child.scope.is_in(scope)])  # not what ends with it
        sink.state = "handled"
        sink.attempt = self._new_attempt()
        sink.small = end.small
        sink.ends = scope
        self._emit(commands.Give(sink.id, sink.attempt, end.cause))
        expander = sink.expander
        if expander is None or expander.fully_saved:
            self._save_outcome(sink)
        else:
            self._save_around(sink)
            assert expander.nested is not None
            expander.nested.held.append(sink)

    def _advance_outcomes(self) -> None:
        outcomes, self._outcomes = self._outcomes, {}
        for sink in outcomes:
            if sink.fully_saved:
                self._outcome_saved(sink)
            else:
                self._save_outcome(sink)

    def _save_outcome(self, sink: Row) -> None:
        assert sink.ends is not None
        self._append(records.Abandoned(sink.id, sink.attempt, sink.ends.expander))
        sink.saving = sink.every_part
        for part in range(sink.node.parts):
            self._saving += 1
            self._emit(commands.Save(sink.id, part, sink.attempt))

    def _outcome_saved(self, sink: Row) -> None:
        scope, sink.ends = sink.ends, None
        assert scope is not None
        self._endings.pop(scope, None)
        sink.ended, scope.given = scope, sink
        if sink.begun:  # irrevocable: from now on it stands on what was joined in the scope as well
            self._cover_above(sink)
        self._abandon(scope, sink)
        for consumer, _, _ in sink.consumers:
            consumer.follows_writer = True  # what was written in the scope may be on its way
        self._make_handled(sink)
        self._become_done(sink, None, sink.small, handled=True)

    def _abandon(self, scope: Scope, sink: Row) -> None:
        """Nobody reads any more what is in the scope, so what is not saved of it need not be."""
        self._forget_pauses(scope)
        abandoned: list[Row] = []
        for row in self._rows_in(scope):
            row.scope.over = True
            if row is sink or _goes_with_its_graph(row):
                continue
            row.checkpoint = row.forced = False
            self._forget_saves(row, row.saving)
            if row.settled:
                self._retirable.append(row)  # its save may have been all that kept it
            if row.visible and row.state != "done":  # it was lost; only an undo may have to make it again
                row.state = "done"
                row.attempt = 0
                self._note_done(row)
                self._end_turn(row)  # which it keeps while it asks
            is_whole = row.state == "done" and not row.holds_up  # else what it wrote, or has joined, never counts
            if not is_whole or not (row.consumers or row.fully_saved):  # what stands aside would never be settled
                abandoned.append(row)
        self._abandon_rows(abandoned)

    # -- what is taken back --------------------------------------------------------------------------------------------

    def _take_back(self, tainted: Iterable[Row]) -> None:
        """If what a scope has ended with is taken back, the scope has not ended."""
        rows = list(tainted)
        super()._take_back(self._with_abandoned(rows) if any(row.ended is not None for row in rows) else rows)

    def _begin_recovery(self, rows: list[Row]) -> None:
        """What scopes end with may have come of what was joined in them, also if that is taken back before."""
        for scope, end in _with_those_inside(self._endings):
            end.joined += self._joined_in(scope)
        super()._begin_recovery(rows)

    def _drop(self, rows: list[Row]) -> None:
        super()._drop(rows)
        afresh, self._afresh = self._afresh, {}
        if self._stopping is None:
            for scope in afresh:
                self._open(scope)

    def _group_saga(self, scopes: Iterable[Scope]) -> list[Row]:
        """Every begun undoable row in these scopes that nothing irrevocable stands on, and what has happened below."""
        inside = list(scopes)
        stood_on = self._stood_on()
        rows = with_what_is_below(
            row
            for row in self.rows.values()
            if row.effect == "undoable"
            and row.begun
            and row not in stood_on
            and any(row.scope.is_in(scope) for scope in inside)
        )
        return self._with_abandoned(rows)

    def _with_abandoned(self, rows: list[Row]) -> list[Row]:
        """These rows, and what was abandoned in graphs that have ended with one of them: they have not ended then,
        unless with one around them."""
        found = dict.fromkeys(rows)
        sinks = [(row, row.ended) for row in self.rows.values() if row.ended is not None]
        while True:
            afresh = [scope for sink, scope in sinks if sink in found]
            over = [scope for sink, scope in sinks if sink not in found]  # with all that is nested in them
            inside = [row for scope in afresh for row in self._rows_in(scope) if not _is_in_any(row.scope, over)]
            abandoned = [row for row in inside if row.abandoned and row not in found]
            if not abandoned:
                break
            found.update(dict.fromkeys(with_what_is_below(abandoned)))
        self._afresh.update(dict.fromkeys(afresh))
        for row in inside:
            row.scope.over = False
            row.checkpoint = is_to_be_saved(row)
        for row in inside:
            if row.handled or row.saved:  # who has saved a part is to be saved as a whole
                self._force(row)
        return list(found)

    def _stood_on(self) -> set[Row]:
        """What begun irrevocable rows stand on now. (Later it may be less: what is saved can be made again.)"""
        found = {row for row in self.rows.values() if row.covered}
        found |= {parent for row in self.rows.values() if row.begun_with for parent, _ in row.parents}
        return found.union(reach(found, stood_on_with))

    def _reassess(self, group: Scope) -> None:
        """What is settled in a transaction is not, once the transaction is to be taken back: find out anew. Nobody
        outside depends on that: nothing stands aside in it."""
        rows = list(self._rows_in(group))
        for row in rows:
            row.settled = row.quiet = False
            for mark in (row.settling, row.quieting):
                if mark is not None:
                    self._release_hindered(mark)
                    mark.why = None
                    mark.consumer = mark.parent = 0
        readers = {consumer for row in rows for consumer, _, _ in row.consumers}  # also outside, of the result
        for row in readers.union(rows):
            row.unquiet = sum(not parent.quiet for parent, _ in row.parents)
        for row in rows:
            row.unsettled = sum(not consumer.settled for consumer, _, _ in row.consumers) + row.exported
        inside = set(rows)
        outside = {parent for row in rows for parent, _ in row.parents if parent not in inside and not parent.retired}
        for parent in outside:  # what returned its graph, and what was joined in it
            parent.unsettled = sum(not consumer.settled for consumer, _, _ in parent.consumers) + parent.exported
        for row in topological(self.rows):
            if row not in inside or row.doomed:
                continue
            if row.state != "done":
                self._reconsider.append(row)  # it may have been seen before it was lost
            elif row.fully_saved:
                self._note_saved(row)
            else:
                self._note_done(row)

    # -- loaded --------------------------------------------------------------------------------------------------------

    def _replay_endings(self) -> None:
        """Which of the scopes have ended?"""
        given = self._ended_with()
        for sink, scope in list(self._ended_scopes()):
            self._make_handled(sink)
            sink.ended, scope.given = scope, sink
            inside = list(self._rows_in(scope))
            for row in inside:
                if not row.fully_saved:
                    self._leave(row)  # what is not saved of a join never counts
            have_read = [row for row in inside if row.begun or (row.saved and not row.abandoned and row not in given)]
            done = reach(have_read, unsaved_parents)  # it was not abandoned, because something was built on it
            for row in inside:
                row.scope.closed = row.scope.over = True
                if row in done:
                    row.checkpoint = row.forced = False
                elif not row.fully_saved:
                    row.saved = row.every_part
                    row.attempt = 0
                    row.abandoned = True
                    row.repeatable = False
                    self._join_ends([row])

    def _ended_with(self) -> set[Row]:
        """What scopes have ended with, or were about to."""
        rows = [(self.rows.get(node), attempt) for node, attempt, _ in self._abandonments]
        return {row for row, attempt in rows if row is not None and row.attempt == attempt}

    def _ended_scopes(self) -> Iterator[tuple[Row, Scope]]:
        """The scopes that have ended, after what has been loaded, with their sinks."""
        for node, attempt, expander in self._abandonments:
            sink = self.rows.get(node)
            if sink is not None and sink.attempt == attempt and not sink.doomed:
                scope = sink.scope
                while scope.expander != expander and scope.outer is not None:
                    scope = scope.outer
                yield sink, scope

    def _replay_pauses(self) -> None:
        """Graphs that were tried again, and in which something is left to do, open when their delay is over."""
        for scope in self._scopes_in(self._whole):
            if scope.failures and any(row.state != "done" for row in self._rows_in(scope)):
                for row in self._rows_in(scope):
                    row.scope.closed = True
                self._wait_for(scope)


def _end_around(endings: dict[Scope, End], scope: Scope, again: bool) -> End | None:
    """What is to become of a scope around this one, or of itself, if this one goes with that."""
    found = (end for other, end in endings.items() if scope.is_in(other) and (again or not end.again))
    return next(found, None)


def _with_those_inside(endings: dict[Scope, End]) -> Iterator[tuple[Scope, End]]:
    """These ends, and those that go with them."""
    for scope, end in endings.items():
        yield scope, end
        yield from _with_those_inside(end.inside)


def _unsaved_around(sink: Row, scope: Scope) -> Row | None:
    """The outermost task of the scope that has returned a graph with the sink in it and is not saved. What it returned
    need not be kept for the end of the scope: it is taken back, and the task takes the place of the sink."""
    found: Row | None = None
    expander = sink.expander
    while expander is not None and expander.scope.is_in(scope):
        if not expander.fully_saved:
            found = expander
        expander = expander.expander
    return found


def _goes_with_its_graph(row: Row) -> bool:
    """Whether a task through which it came is about to be dropped."""
    expander = row.expander
    while expander is not None and not expander.doomed:
        expander = expander.expander
    return expander is not None


def _is_in_any(scope: Scope, others: Iterable[Scope]) -> bool:
    return any(scope.is_in(other) for other in others)


def _is_under_way(row: Row) -> bool:
    """Whether the end of its scope has to wait for it. What it wrote to variables may be on its way."""
    return row.state == "running" or row.undo is not None or bool(row.writes and row.saving)


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
