"""How graphs end before their result is there, and how the run ends (design 2.8).

A **scope** is the run, or a returned graph with all that is nested in it. A failure may concern a scope, and a handler
answer for it: that closes it: nothing in it starts any more, what has no effect is stopped, what has begun comes to its
end. Then, in this order,

- if the failure went through a **transaction**, what can be taken back in it is undone and dropped: a saga for this
  part of the run;
- the scope is opened again, after a delay, if the answer is to try again: what was dropped starts afresh, the rest
  stays;
- otherwise what has not been done is **abandoned**, and the scope's sink is done with the outcome that the answer
  gives.

The outcome is saved before any task sees it, after the record that names it (*abandoned*), which counts only together
with all of it. So a crash before that forgets the answer and goes on with what the journal has, and one after that
finds the scope ended. An abandoned row counts as done and saved, with nothing: nothing will read it.

Where the sink is in a graph that the journal does not have, what was returned there is taken back first, like anything
else (`recovery`), and the task that returned it is the sink again.

A graph whose **time is over** ends, whatever goes on in it. Nothing in it has failed, so no handler in it is asked. It
is closed like any other, and what has begun in it is ended as well: of something irrevocable it is not known then
whether it has happened, as after the timeout of a task. Transactions in it that have no result are taken back. If the
graph gets its result while it is being ended, that counts, and it opens again for what stands aside in it.

**The run** succeeds, fails, is undone (a saga), or is cancelled. When a run that was stopped is quiet, and an undo of
the whole was asked for, a last recovery takes back every begun undoable task that nothing irrevocable stands on, and
all that descends from them; without one, the same for the transactions in which something failed.

A run of which nothing can go on, and that no event will ever reach, fails: what a handler gave may have made a graph
safe, and have been lost (2.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from onceflow.core.model import commands, records, walks
from onceflow.core.model.rows import End, Row, Scope, with_those_inside
from onceflow.core.rules import failures, objects, outputs, recovery, settling, slices, starting, state
from onceflow.core.rules.objects import Makers
from onceflow.core.rules.state import State
from onceflow.errors import BrokenPromise, RunStuck


def answered_for(run: State, row: Row, failed: int, ends: int, small: bool, again: bool) -> None:
    """The current attempt raised, and a handler takes it as a failure of the scope at depth `failed` (if that is
    negative, of the task alone), and decides what becomes of the scope at depth `ends`."""
    if run.stopping is not None or row.visible or row.scope.at(ends).has_result:
        failures.attempt_raised(run, row, permanent=True)
        return
    run.running -= 1
    starting.end_turn(run, row)
    row.move("waiting")
    row.attempt = 0
    if row.effect == "undoable":
        recovery.undo_locally(run, row)
    scope = row.scope
    undo: list[Scope] = []
    while scope.depth > ends or (0 <= failed <= scope.depth):
        if 0 <= failed <= scope.depth and scope.is_transaction:
            undo.append(scope)
        if scope.depth <= ends or scope.outer is None:
            break
        scope = scope.outer
    _end_with_what_is_around(run, scope, End(row.id, small, undo, again=again))


def _end_with_what_is_around(run: State, scope: Scope, end: End) -> None:
    """The scope ends, or is tried again, with a scope around it of which that is certain; or by itself."""
    around = _end_around(run.endings, scope, end.again)
    if around is None:
        _end_scope(run, scope, end)
        return
    while around is not None and (around.expired or not end.expired):  # else it ends as it would
        inside = around.inside
        around = _end_around(inside, scope, end.again)
        if around is None:
            if scope in inside:  # it was to be tried again: what is taken back for that still is
                end.inside[scope] = inside[scope]
                end.joined += inside[scope].joined
            inside[scope] = end
    close(run, scope, [scope] if end.expired else end.undo)


def _end_scope(run: State, scope: Scope, end: End) -> None:
    inside = [other for other in run.endings if other.is_in(scope)]
    for other in inside:
        if end.again and not run.endings[other].again:
            continue  # it ends all the same
        end.inside[other] = run.endings.pop(other)
        end.joined += end.inside[other].joined
        sink = other.sink
        if sink is not None and sink.ends is other:  # it ends with this one, whatever it was given
            recovery.end_attempt(run, sink)
            run.append(records.Dropped((sink.id,)))  # a part of it may be saved
            recovery.drop(run, [sink])
    run.endings[scope] = end
    close(run, scope, [scope] if end.expired else end.undo)


def close(run: State, scope: Scope, groups: list[Scope]) -> None:
    for row in state.rows_in(run, scope):
        row.scope.closed = True
        taken_back = row.scope.is_in_any(groups)
        if row.state == "running" and (row.effect == "none" or (row.effect == "undoable" and taken_back)):
            recovery.end_attempt(run, row)
            if row.effect == "undoable":
                recovery.undo_locally(run, row)
        elif row.effect == "irrevocable" and row.state == "running":
            run.emit(commands.Withdraw(row.id, row.attempt))
    scope.closed = True


def _advance_endings(run: State) -> bool:
    """Take the next step with a closed scope. True if there may be another."""
    for scope, end in list(run.endings.items()):
        sink = scope.sink
        if sink is None or not (sink.retired or run.rows.get(sink.id) is sink):  # dropped, with all around it
            del run.endings[scope]
            continue
        if end.expired and sink.visible:  # it was quicker, whatever becomes of the result
            del run.endings[scope]
            for inner, its_end in end.inside.items():
                _end_with_what_is_around(run, inner, its_end)
            recovery.open_scope(run, scope)
            return True
        if sink.ends is scope or any(_is_under_way(row) for row in state.rows_in(run, scope)):
            continue
        groups = _failed_in(run, scope)
        if groups and (rows := _group_saga(run, groups)):
            for row in rows:
                recovery.end_attempt(run, row)
            recovery.begin_recovery(run, rows)
            for group in groups:
                _reassess(run, group)
            return True
        if end.again:
            del run.endings[scope]
            _pause(run, scope)
        elif sink.visible:
            del run.endings[scope]
            _fail_too_late(run, end.cause, scope)
        elif (expander := walks.unsaved_around(sink, scope)) is not None:
            recovery.take_back(run, walks.with_what_is_below([expander]))  # which takes the place of the sink
        else:
            _give(run, scope, sink, end)
        return True
    return False


def _failed_in(run: State, scope: Scope) -> list[Scope]:
    """The transactions in this scope that are to be taken back now, whichever answer said so: a scope around it may
    be tried again later, or one in it may end later. Those that got their results meanwhile are over. (It is asked
    again after each recovery: what was saved meanwhile may have been all that kept something from being undone.)"""
    found: list[Scope] = []
    for other, end in with_those_inside(run.endings):
        if not (end.expired and other.has_result):  # it was quicker, also if it ends with one around it
            found += [group for group in end.undo if group.is_in(scope)]
    return [group for group in dict.fromkeys(found) if not group.has_result]


def _fail_too_late(run: State, node: str, scope: Scope) -> None:
    """A row that stands aside has failed, and an answer was to be the result of its scope; but the scope has its own
    result now."""
    row = run.rows.get(node)  # it may have been taken back with the graph that it was in
    count = 1
    if row is not None:
        count = row.failures = row.failures + 1
        row.move("failed")
    run.append(records.Failed(node, count, True))
    failures.fail(run, node, scope if row is None else row.scope)


# -- tried again -------------------------------------------------------------------------------------------------------


def _pause(run: State, scope: Scope) -> None:
    _forget_pauses(run, scope)
    count_from_zero(run, scope, scope.failures + 1)
    run.append(records.Again(scope.expander, scope.failures))
    _wait_for(run, scope)


def _forget_pauses(run: State, scope: Scope) -> None:
    """Scopes that wait in it to be tried again are tried again with it, or never."""
    run.pausing = {attempt: other for attempt, other in run.pausing.items() if not other.is_in(scope)}


def count_from_zero(run: State, scope: Scope, count: int) -> None:
    """The scope has failed this often, and is tried again: the failures inside it count from zero."""
    for inner in state.scopes_in(run, scope):
        inner.failures = 0
    for row in state.rows_in(run, scope):
        row.failures = 0
        if row.state == "backoff":
            row.move("waiting")
            row.attempt = 0
    scope.failures = count


def _wait_for(run: State, scope: Scope) -> None:
    attempt = run.new_attempt()
    run.pausing[attempt] = scope
    run.emit(commands.Wait(scope.expander, attempt, scope.failures))


def is_pausing(run: State, attempt: int) -> bool:
    """Whether this attempt stands for a scope that waits for being tried again."""
    scope = run.pausing.get(attempt)
    return scope is not None and any(True for _ in state.rows_in(run, scope))  # else its graph was dropped meanwhile


# -- ended -------------------------------------------------------------------------------------------------------------


def _give(run: State, scope: Scope, sink: Row, end: End) -> None:
    """The outcome is saved as soon as the journal knows the graph."""
    joined = [*starting.joined_in(run, scope), *end.joined]
    starting.join(run, sink, [child for child in joined if not child.scope.is_in(scope)])  # not what ends with it
    sink.move("handled")
    sink.attempt = run.new_attempt()
    sink.small = end.small
    sink.ends = scope
    run.emit(commands.Give(sink.id, sink.attempt, end.cause))
    expander = sink.expander
    if expander is None or expander.fully_saved:
        _save_outcome(run, sink)
    else:
        outputs.save_around(run, sink)
        assert expander.nested is not None
        expander.nested.held.append(sink)


def advance_outcomes(run: State) -> None:
    outcomes, run.outcomes = run.outcomes, {}
    for sink in outcomes:
        if sink.fully_saved:
            _outcome_saved(run, sink)
        else:
            _save_outcome(run, sink)


def _save_outcome(run: State, sink: Row) -> None:
    assert sink.ends is not None
    run.append(records.Abandoned(sink.id, sink.attempt, sink.ends.expander))
    sink.saving = sink.every_part
    for part in range(sink.node.parts):
        run.saving += 1
        run.emit(commands.Save(sink.id, part, sink.attempt))


def _outcome_saved(run: State, sink: Row) -> None:
    scope, sink.ends = sink.ends, None
    assert scope is not None
    run.endings.pop(scope, None)
    sink.ended, scope.given = scope, sink
    if sink.begun:  # irrevocable: from now on it stands on what was joined in the scope as well
        starting.cover_above(run, sink)
    _abandon(run, scope, sink)
    for consumer, _, _ in sink.consumers:
        consumer.follows_writer = True  # what was written in the scope may be on its way
    failures.make_handled(run, sink)
    outputs.become_done(run, sink, None, sink.small, handled=True)


def _abandon(run: State, scope: Scope, sink: Row) -> None:
    """Outputs in the scope have no readers left, so those not saved yet need not be saved."""
    _forget_pauses(run, scope)
    abandoned: list[Row] = []
    for row in state.rows_in(run, scope):
        row.scope.over = True
        if row is sink or _goes_with_its_graph(row):
            continue
        row.checkpoint = row.forced = False
        objects.forget_saves(run, row, row.saving)
        if row.settled:
            run.retirable.append(row)  # its save may have been all that kept it
        if row.visible and row.state != "done":  # it was lost; only an undo may have to make it again
            row.move("done")
            row.attempt = 0
            settling.note_done(run, row)
            starting.end_turn(run, row)  # which it keeps while it asks
        is_whole = row.state == "done" and not row.holds_up  # else what it wrote, or has joined, never counts
        if not is_whole or not (row.consumers or row.fully_saved):  # what stands aside would never be settled
            abandoned.append(row)
    recovery.abandon_rows(run, abandoned)


# -- what is taken back ------------------------------------------------------------------------------------------------


def _group_saga(run: State, scopes: Iterable[Scope]) -> list[Row]:
    """Every begun undoable row in these scopes that nothing irrevocable stands on, and what has happened below."""
    inside = list(scopes)
    untouchable = stood_on(run)
    rows = walks.with_what_is_below(
        row
        for row in run.rows.values()
        if row.effect == "undoable"
        and row.begun
        and row not in untouchable
        and any(row.scope.is_in(scope) for scope in inside)
    )
    return recovery.with_abandoned(run, rows)


def stood_on(run: State) -> set[Row]:
    """What begun irrevocable rows stand on now. (Later it may be less: what is saved can be made again.)"""
    found = {row for row in run.rows.values() if row.covered}
    found |= {parent for row in run.rows.values() if row.begun_with for parent, _ in row.parents}
    return found.union(walks.reach(found, walks.stood_on_with))


def _reassess(run: State, group: Scope) -> None:
    """What is settled in a transaction is not, once the transaction is to be taken back: find out anew. Nothing outside
    depends on that: nothing stands aside in it."""
    rows = list(state.rows_in(run, group))
    for row in rows:
        row.settled = row.quiet = False
        for mark in (row.settling, row.quieting):
            if mark is not None:
                settling.release_hindered(run, mark)
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
    for row in walks.topological(run.rows):
        if row not in inside or row.doomed:
            continue
        if row.state != "done":
            run.reconsider.append(row)  # it may have been seen before it was lost
        elif row.fully_saved:
            settling.note_saved(run, row)
        else:
            settling.note_done(run, row)


# -- loaded ------------------------------------------------------------------------------------------------------------


def replay_endings(run: State) -> None:
    """Find the scopes that have ended."""
    given = ended_with(run)
    for sink, scope in list(ended_scopes(run)):
        failures.make_handled(run, sink)
        sink.ended, scope.given = scope, sink
        inside = list(state.rows_in(run, scope))
        for row in inside:
            if not row.fully_saved:
                starting.leave(run, row)  # what is not saved of a join never counts
        have_read = [row for row in inside if row.begun or (row.saved and not row.abandoned and row not in given)]
        done = walks.reach(have_read, walks.unsaved_parents)  # it was not abandoned, because something was built on it
        for row in inside:
            row.scope.closed = row.scope.over = True
            if row in done:
                row.checkpoint = row.forced = False
            elif not row.fully_saved:
                row.saved = row.every_part
                row.attempt = 0
                row.abandoned = True
                row.repeatable = False
                starting.join_ends(run, [row])


def ended_with(run: State) -> set[Row]:
    """What scopes have ended with, or were about to."""
    rows = [(run.rows.get(node), attempt) for node, attempt, _ in run.abandonments]
    return {row for row, attempt in rows if row is not None and row.attempt == attempt}


def ended_scopes(run: State) -> Iterator[tuple[Row, Scope]]:
    """The scopes that have ended, after what has been loaded, with their sinks."""
    for node, attempt, expander in run.abandonments:
        sink = run.rows.get(node)
        if sink is not None and sink.attempt == attempt and not sink.doomed:
            scope = sink.scope
            while scope.expander != expander and scope.outer is not None:
                scope = scope.outer
            yield sink, scope


def replay_pauses(run: State) -> None:
    """Graphs that were tried again, and in which something is left to do, open when their delay is over."""
    for scope in state.scopes_in(run, run.whole):
        if scope.failures and any(row.state != "done" for row in state.rows_in(run, scope)):
            for row in state.rows_in(run, scope):
                row.scope.closed = True
            _wait_for(run, scope)


def _end_around(endings: dict[Scope, End], scope: Scope, again: bool) -> End | None:
    """The planned end of a scope around this one, or of this one, if they end together."""
    found = (end for other, end in endings.items() if scope.is_in(other) and (again or not end.again))
    return next(found, None)


def _goes_with_its_graph(row: Row) -> bool:
    """Whether a task through which it came is about to be dropped."""
    expander = row.expander
    while expander is not None and not expander.doomed:
        expander = expander.expander
    return expander is not None


def _is_under_way(row: Row) -> bool:
    """Whether the end of its scope has to wait for it. Its writes to variables may be under way."""
    return row.state == "running" or row.undo is not None or bool(row.writes and row.saving)


# -- time is over ------------------------------------------------------------------------------------------------------


def expire(run: State, scope: Scope, small: bool) -> None:
    sink = scope.sink
    if run.stopping is not None or sink is None or sink.visible:
        return
    _end_with_what_is_around(
        run, scope, End(scope.expander, small, _transactions_in(run, scope), again=False, expired=True)
    )
    for row in state.rows_in(run, scope):
        if row.state == "running":
            run.emit(commands.Stop(row.id, row.attempt))


def _transactions_in(run: State, scope: Scope) -> list[Scope]:
    """Those in this graph, and the graph itself if it is one."""
    return [inner for inner in state.scopes_in(run, scope) if inner.is_transaction]


# -- the end of the run ------------------------------------------------------------------------------------------------


def conclude(run: State) -> bool:
    """Take the next step towards the end, if it is time. True if there may be another."""
    if run.final is not None:
        return False
    if run.recovering:
        if run.uncleared:
            return False
        if run.undoing_all:
            run.append(records.Dropped(tuple(row.id for row in run.recovering)))
            for row in run.recovering:
                run.emit(commands.Drop(row.id, run.last_attempt))
            run.recovering.clear()
        else:
            recovery.end_recovery(run)
            if run.stopping is None:
                starting.resume_starts(run)
        return True
    if run.stopping is None:
        if run.endings:
            if _advance_endings(run):
                return True
        elif succeeded(run):
            _finish(run, "succeeded")
            return False
        if run.running or run.saving or not is_stuck(run):
            return False
        if not _run_edited(run):
            _fail_stuck(run)
        return True
    if run.running or run.saving or run.undoing or run.zombies:
        return False
    if not run.undoing_all:
        run.undoing_all = True
        rows = saga(run) if run.undo_all else _group_saga(run, failures.failed_groups(run))
        if rows:
            recovery.begin_recovery(run, rows)
            return True
    if run.stopping == "cancelled":
        _finish(run, "cancelled")
    else:
        _finish(run, "undone" if run.undo_all and not _kept_effects(run) else "failed")
    return False


def succeeded(run: State) -> bool:
    if run.saving:
        return False
    if slices.is_partial(run):
        return slices.is_done(run)
    return run.sink is not None and run.sink.settled and not run.aside


def is_stuck(run: State) -> bool:
    """While nothing runs and nothing is being saved: whether no event will ever come, because nothing else is under
    way, and nothing waits for a delay or for admission."""
    if run.zombies or run.undoing or run.pausing or slices.is_partial(run):
        return False
    return not any(row.state == "backoff" or row.asking for row in run.rows.values())


def _run_edited(run: State) -> bool:
    """What was edited and has not run by its new code may be all that keeps the others from starting: it runs now,
    unless something irrevocable was built on it."""
    makers: Makers = {}
    for row in run.rows.values():
        if outputs.is_edited(run, row) and not row.scope.closed:
            seeds = dict.fromkeys(objects.makers_of_lost(run, row, row.every_part, makers))
            with suppress(BrokenPromise):
                recovery.rerun_set(run, seeds, makers)
                run.seeds.update(seeds)
    return bool(run.seeds)


def _fail_stuck(run: State) -> None:
    """An outcome that a handler gave was lost, and without it nothing may start: the run fails rather than wait for
    ever."""
    waiting = [row for row in run.rows.values() if row.state == "waiting" and not row.scope.closed]
    blocked = [row for row in waiting if row.missing == 0] or waiting or slices.ends(run)
    row = blocked[0]
    if row.state == "waiting":
        row.move("failed")
    row.failures += 1
    run.emit(commands.Stuck(row.id, RunStuck(tuple([other.id for other in blocked]), _obstacles(row))))
    run.append(records.Failed(row.id, row.failures, True))
    failures.fail(run, row.id, row.scope)


def saga(run: State) -> list[Row]:
    """Every begun undoable row that nothing irrevocable stands on, and what has happened below them."""
    for row in run.rows.values():
        if row.begun_with:
            starting.count_as_started(run, row)
    settling.cover_readers(run)
    begun = [row for row in run.rows.values() if row.effect == "undoable" and row.begun and not row.covered]
    return walks.with_what_is_below(begun)


def _kept_effects(run: State) -> list[str]:
    rows = [row for row in run.rows.values() if row.effect == "undoable" and row.begun]
    standing = [*run.kept.items(), *((row.id, row.scope) for row in rows)]
    if run.undo_all:
        return [id for id, _ in standing]
    groups = failures.failed_groups(run)
    return [id for id, scope in standing if any(scope.is_in(group) for group in groups)]


def _finish(run: State, status: commands.Status) -> None:
    run.final = status
    for row in run.rows.values():
        if row.state == "running":  # made again for a row that no longer needs it
            run.emit(commands.Stop(row.id, row.attempt))
    kept: list[str] = []
    uncertain: list[str] = []
    if status != "succeeded":
        if run.undo_all or run.stopping == "failed":
            kept = _kept_effects(run)
        uncertain = [
            row.id
            for row in run.rows.values()
            if row.begun and (row.state != "done" or row.doomed)  # irrevocable: what is undoable was undone
        ]
    run.append(records.Finished(status))
    run.emit(commands.Finish(status, tuple(run.failed), tuple(kept), tuple(uncertain)))


def _obstacles(row: Row) -> tuple[str, ...]:
    """The inputs that keep it from starting."""
    if row.missing:
        return tuple([parent.id for parent, mask in row.parents if not parent.gives(mask)])
    undoable = row.effect == "undoable"
    return tuple([p.id for p, _ in row.parents if not (p.reproducible if undoable else p.quiet) or p.holds_up])
