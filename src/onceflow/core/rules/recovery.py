"""Recovery: which tasks run again after a loss (design 2.5), and the undos that this takes (2.5, 2.6).

The set R is the least set that contains what is needed again (`State.seeds`) and

(a) the producer of every unavailable input, and the maker of every unavailable ref, of a member (`objects`);
(b) all descendants of every member that is not repeatable and had been visible: such members and their descendants are
    **tainted**, their outputs, effects and saves belong to a past that is no longer true.

Clause (c), a checkpoint that was lost before it was saved, puts rows among the seeds (`outputs`).

A tainted member is dropped; another one (repeatable, or never visible) just runs again. If nothing durable has to be
taken back (no save, no begun undoable attempt), that happens on the spot. Otherwise R is journaled first, nothing else
of the run starts, the begun undoable members are undone in reverse topological order, R is dropped, and the run goes
on. What is lost meanwhile joins R: it may stand above members, and is then dropped together with them. A row that never
started has no descendants that did, so the search ends there: its cost is what is taken back, not the graph.

**Undos** take back the effects of undoable tasks. An undo starts only when every earlier attempt and undo of its task
is known to have ended, and when it can see the very inputs that the attempt saw. Small inputs are in the *begun*
record. A large one that was lost is **rebuilt**: its producer (reproducible, or the attempt would not have begun) runs
once more, privately: only undos see that output.

- A **local** undo takes back an attempt that never became visible (it raised, or was lost). No other row is affected or
  waits. It needs no record of its own: a begun row that is not saved is undone after a crash anyway.
- Undos that belong to a **recovery** go in reverse topological order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onceflow.core.model import commands, records, walks
from onceflow.core.model.rows import Effort, Row, Scope, Undo, forget_handling, with_those_inside
from onceflow.core.rules import objects, outputs, settling, slices, starting, state
from onceflow.core.rules.objects import Makers
from onceflow.core.rules.state import State
from onceflow.errors import BrokenPromise


def recover(run: State) -> None:
    seeds, run.seeds = run.seeds, {}
    makers: Makers = {}
    again, tainted = rerun_set(run, seeds, makers)
    for row in again:
        if row.state == "done":
            row.move("waiting")
            row.attempt = 0
            objects.forget_saves(run, row, row.saving)
            outputs.needs_inputs(run, row, makers)
    take_back(run, tainted)


def rerun_set(run: State, seeds: Iterable[Row], makers: Makers) -> tuple[list[Row], dict[Row, Row]]:
    """R, as the members that just run again and the tainted ones → why (the member that is not repeatable)."""
    again: dict[Row, None] = {}
    tainted: dict[Row, Row] = {}
    stack: list[tuple[Row, Row | None]] = [(row, None) for row in seeds]
    while stack:
        row, cause = stack.pop()
        if row.foreign:
            slices.ask_for(run, row)
            continue
        if cause is None and not row.repeatable:
            cause = row
        if cause is not None and cause is not row and _is_for_good(row):
            raise BrokenPromise(row.id, cause.id)
        if row in tainted:
            continue
        if row not in again:
            for parent, mask in row.parents:
                stack.extend((maker, None) for maker in objects.makers_of_lost(run, parent, mask, makers))
        if cause is None:
            again[row] = None
            continue
        again.pop(row, None)
        tainted[row] = cause
        stack.extend((consumer, cause) for consumer, _, _ in row.consumers if consumer.touched)
    return list(again), tainted


def take_back(run: State, tainted: Iterable[Row]) -> None:
    """These rows are undone where that is needed, and dropped. If something that a scope has ended with is among them,
    the scope has not ended."""
    rows = list(tainted)
    if any(row.ended is not None for row in rows):
        rows = with_abandoned(run, rows)
    rows = [row for row in rows if row not in run.recovering]
    if not rows:
        return
    for row in rows:
        end_attempt(run, row)
    if run.recovering or any(row.effect == "undoable" or row.handled or _left_a_trace(row) for row in rows):
        begin_recovery(run, rows)
    else:
        drop(run, rows)


def end_attempt(run: State, row: Row) -> None:
    """The attempt no longer counts."""
    if row.state == "running":
        run.running -= 1
        starting.end_turn(run, row)
        run.emit(commands.Stop(row.id, row.attempt))
        run.bury(row, row.attempt)
        row.move("waiting")
        row.attempt = 0
    elif row.state in ("backoff", "handled", "failed"):
        row.move("waiting")
        row.attempt = 0
        row.ends = None
    objects.forget_saves(run, row, row.saving)


def begin_recovery(run: State, rows: list[Row]) -> None:
    """These rows are R. What scopes end with may have come of what was joined in them, also if that is taken back
    before."""
    for scope, end in with_those_inside(run.endings):
        end.joined += starting.joined_in(run, scope)
    run.stalled = True
    run.recovering.update(dict.fromkeys(rows))
    for row in rows:
        row.doomed = True
    run.append(records.Recovering(tuple(row.id for row in rows)))
    for row in rows:
        if row.effect == "undoable" and row.begun and row.undo is None:
            row.undo = Undo()
            run.undoing[row] = None
    order_undos(run)


def doom_nested(run: State, expander: Row) -> None:
    """Rows that turn up below a member while the recovery is under way go the same way."""
    assert expander.nested is not None
    if expander.doomed:
        for row in expander.nested.rows:
            row.doomed = True
            run.recovering[row] = None
        order_undos(run)


def order_undos(run: State) -> None:
    run.uncleared = dict.fromkeys(run.recovering, 0)
    for row in run.recovering:
        for parent, _ in row.parents:
            if parent in run.uncleared:
                run.uncleared[parent] += 1
    for row in [row for row, count in run.uncleared.items() if count == 0 and row.undo is None]:
        if row in run.uncleared:
            _clear(run, row)


def end_recovery(run: State) -> None:
    """Everything is undone: drop R. The caller decides how the run goes on."""
    rows = list(run.recovering)
    run.recovering.clear()
    run.append(records.Dropped(tuple(row.id for row in rows)))
    drop(run, rows)


def drop(run: State, rows: list[Row]) -> None:
    for row in rows:
        run.emit(commands.Drop(row.id, run.last_attempt))
        _reset(run, row)
    for row in sorted((row for row in rows if row.nested is not None), key=lambda row: -row.depth):
        outputs.collapse(run, row)
    outputs.trust_around(run, rows)
    left = [row for row in rows if run.rows.get(row.id) is row]
    abandon_rows(run, [row for row in left if row.scope.over])
    makers: Makers = {}
    for row in left:
        outputs.needs_inputs(run, row, makers)
    afresh, run.afresh = run.afresh, {}
    if run.stopping is None:
        for scope in afresh:
            open_scope(run, scope)


def abandon_rows(run: State, rows: list[Row]) -> None:
    """Their graph has ended, and they never run: they count as done and saved, with nothing."""
    for row in rows:
        starting.leave(run, row)  # what is not saved of a join never counts
    starting.join_ends(run, rows)
    before = [(row, not row.visible, row.holds_up) for row in rows]
    for row in rows:
        row.move("done")
        row.abandoned = row.visible = True
        row.attempt = 0
        row.repeatable = False
        row.ends = None
        row.saved = row.every_part
        _take_reproducible_back(row)
    for row, first_time, held_up in before:
        outputs.gain(run, row, row.every_part, first_time)
        if held_up:
            starting.show_writes(run, row)
        if row.group is not None or row.keeps is not None:
            starting.turn_is_over(run, row)
        settling.note_saved(run, row)


def _reset(run: State, row: Row) -> None:
    """Reset the row as if it had never run, except that an irrevocable one stays begun: it runs again with the same
    inputs."""
    starting.leave(run, row)
    _end_rebuilding(run, row)
    written = row.writes and row.fully_saved  # a handler gave it: what was written is never dropped
    if row.refs is not None:
        objects.set_refs(row, None)
    _take_reproducible_back(row)
    for consumer, mask, _ in row.consumers:
        if row.gives(mask):
            consumer.missing += 1
        consumer.unquiet += row.quiet
        consumer.uncommitted += written
    for parent, _ in row.parents:
        if parent.settling is not None:
            parent.settling.consumer = 0
    for mark in (row.settling, row.quieting):
        if mark is not None:
            mark.why = None
            mark.consumer = mark.parent = 0
    starting.end_turn(run, row)
    if row.nested is None and row.keeps is None:
        starting.keep_turns(row)
    row.move("waiting")
    row.attempt = row.available = row.saved = row.failures = 0
    if row.abandoned:
        row.abandoned = False
        row.repeatable = row.node.options.repeatable
    if row.ended is not None:
        row.ended.given = None
        row.ended = None
    row.visible = row.inferred = row.quiet = row.doomed = row.distrusted = row.recorded = False
    forget_handling(row)
    if row.code != run.codes.get(row.id, ""):
        row.repeatable = False  # until the journal knows by which code it has run
    if row.settling is not None and row.repeatable:
        settling.release_hindered(run, row.settling)  # those below what a handler gave waited for it to be settled


def _take_reproducible_back(row: Row) -> None:
    """It holds nothing any more, or nothing that could be had again."""
    if row.reproducible:
        row.reproducible = False
        for consumer, _, _ in row.consumers:
            consumer.irreproducible += 1


def _is_for_good(row: Row) -> bool:
    """Whether the row had an effect that cannot be taken back. A row whose outcome a handler gave never began."""
    return (row.effect == "irrevocable" and row.begun) or row.wrote


def _left_a_trace(row: Row) -> bool:
    """Whether the journal has anything of the row, or about it."""
    return bool(row.saved) or row.distrusted or (row.refs is not None and row.refs.replaced)


# -- graphs that had ended ---------------------------------------------------------------------------------------------


def with_abandoned(run: State, rows: list[Row]) -> list[Row]:
    """These rows, and what was abandoned in graphs that have ended with one of them: they have not ended then,
    unless with one around them."""
    found = dict.fromkeys(rows)
    sinks = [(row, row.ended) for row in run.rows.values() if row.ended is not None]
    while True:
        afresh = [scope for sink, scope in sinks if sink in found]
        over = [scope for sink, scope in sinks if sink not in found]  # with all that is nested in them
        inside = [row for scope in afresh for row in state.rows_in(run, scope) if not row.scope.is_in_any(over)]
        abandoned = [row for row in inside if row.abandoned and row not in found]
        if not abandoned:
            break
        found.update(dict.fromkeys(walks.with_what_is_below(abandoned)))
    run.afresh.update(dict.fromkeys(afresh))
    for row in inside:
        row.scope.over = False
        row.checkpoint = row.is_to_be_saved
    for row in inside:
        if row.handled or row.saved:  # a row that has saved a part is to be saved as a whole
            outputs.force(row)
    return list(found)


def open_scope(run: State, scope: Scope) -> None:
    """What is in this graph may start again, unless it is about to end, or to be tried again, with another one."""
    closed = [*run.endings, *run.pausing.values()]  # about to end, or to be tried again: in it, or around it
    for row in state.rows_in(run, scope):
        if row.scope.over or row.scope.is_in_any(closed):
            continue
        row.scope.closed = False
        if row.state == "waiting":
            outputs.needs_inputs(run, row, {})
            continue
        run.suspects[row] = None
        if row.handled:
            outputs.save_around(run, row)
        if row.checkpoint and not row.released:  # it was not while a graph around it had ended
            outputs.ask_to_save(run, row)
    scope.closed = scope.is_in_any(closed)


# -- undos -------------------------------------------------------------------------------------------------------------


EFFORT_TRIES = 5
"""How often an undo may raise before the run is parked for a person."""


def undo_locally(run: State, row: Row) -> None:
    """Take back an attempt that never became visible."""
    row.undo = Undo()
    run.undoing[row] = None


def advance_undos(run: State) -> None:
    """Start every undo, and every rebuilding, that may start."""
    for row in list(run.undoing):
        undo = row.undo
        assert undo is not None
        if undo.idle and not row.zombies and not run.uncleared.get(row) and _has_inputs(run, row, row.carried):
            undo.attempt = run.new_attempt()
            run.emit(commands.Undo(row.id, undo.attempt, _readable_attempt(row)))
    if run.undoing:
        _advance_rebuilding(run)
    elif run.rebuilt or run.rebuilding:
        for row in [*run.rebuilt, *run.rebuilding]:
            _end_rebuilding(run, row)


def _end_rebuilding(run: State, row: Row) -> None:
    """No undo reads the row's output any more."""
    if run.rebuilt.pop(row, 0):
        run.emit(commands.Release(row.id, private=True))
    rebuild = run.rebuilding.pop(row, None)
    if rebuild is not None and rebuild.attempt and not rebuild.waiting:
        run.emit(commands.Stop(row.id, rebuild.attempt))
        run.bury(row, rebuild.attempt)


def _end_rebuilding_for(run: State, row: Row) -> None:
    """It is undone: what was to be made again for that alone need not be, and may be forgotten from now on."""
    made = [parent for parent in row.pinned or () if parent in run.rebuilding]
    if made:
        others = {parent for other in run.undoing for parent in other.pinned or ()}
        for parent in made:
            if parent not in others:
                _end_rebuilding(run, parent)


def _has_inputs(run: State, row: Row, carried: tuple[tuple[str, int], ...] = ()) -> bool:
    """Whether all inputs of the row are available for an undo. Asks for those that are not."""
    in_record: dict[str, int] = {}
    for node, part in carried:
        in_record[node] = in_record.get(node, 0) | 1 << part
    complete = True
    for parent, mask in row.parents:
        if mask & ~(parent.readable | run.rebuilt.get(parent, 0) | in_record.get(parent.id, 0)):
            complete = False
            if parent.foreign:
                slices.ask_for(run, parent)
            elif parent not in run.rebuilding:
                run.rebuilding[parent] = Effort()
    return complete


def _advance_rebuilding(run: State) -> None:
    for row in [row for row in run.rebuilding if row.fully_saved]:
        _end_rebuilding(run, row)  # it was saved meanwhile: undos read that
    looked_at = 0
    while looked_at < len(run.rebuilding):  # looking for inputs adds the producers of those that are missing
        rows = list(run.rebuilding)
        for row in rows[looked_at:]:
            rebuild = run.rebuilding[row]
            if rebuild.idle and not row.repeatable:
                _park(run, row, rebuild)  # its code was edited: it would not give what the attempt has seen
            elif rebuild.idle and _has_inputs(run, row) and not objects.is_being_read(run, row):
                rebuild.attempt = run.new_attempt()
                run.emit(commands.Start(row.id, rebuild.attempt, row.effect != "none", private=True))
                objects.take(run, row, besides=run.rebuilt)
        looked_at = len(rows)


# -- how they end ------------------------------------------------------------------------------------------------------


def efforts(run: State) -> Iterator[Effort]:
    for row in run.undoing:
        assert row.undo is not None
        yield row.undo
    yield from run.rebuilding.values()


def effort_of(run: State, row: Row, attempt: int) -> Effort | None:
    """The undo or rebuilding that this attempt belongs to."""
    if row.undo is not None and row.undo.attempt == attempt:
        return row.undo
    rebuild = run.rebuilding.get(row)
    return rebuild if rebuild is not None and rebuild.attempt == attempt else None


def rebuild_finished(run: State, row: Row) -> None:
    del run.rebuilding[row]
    run.rebuilt[row] = row.every_part


def effort_raised(run: State, row: Row, effort: Effort) -> None:
    effort.failures += 1
    if effort.failures >= EFFORT_TRIES:
        _park(run, row, effort)
    else:
        effort.waiting = True
        run.emit(commands.Wait(row.id, effort.attempt, effort.failures))


def _park(run: State, row: Row, effort: Effort) -> None:
    effort.parked = True
    effort.attempt = 0
    run.append(records.Parked(row.id))
    run.emit(commands.Park(row.id))


def effort_elapsed(effort: Effort) -> None:
    effort.waiting = False
    effort.attempt = 0


def effort_lost(run: State, row: Row, effort: Effort) -> None:
    if not effort.waiting:
        run.bury(row, effort.attempt)
        effort.attempt = 0


def note_undone(run: State, row: Row) -> None:
    row.undo = None
    row.begun = False
    row.carried = ()
    run.undos[row.id] = run.undos.get(row.id, 0) + 1
    if not row.covered:
        settling.no_longer_exposed(run, row)
    del run.undoing[row]
    _end_rebuilding_for(run, row)
    settling.unpin(run, row)
    run.append(records.Undone(row.id))
    if row in run.uncleared:
        _clear(run, row)


def _clear(run: State, row: Row) -> None:
    """Nothing is left to undo at or below this member of the recovery: those above it come next."""
    cleared = [row]
    while cleared:
        row = cleared.pop()
        del run.uncleared[row]
        for parent, _ in row.parents:
            if parent in run.uncleared:
                run.uncleared[parent] -= 1
                if run.uncleared[parent] == 0 and parent.undo is None:
                    cleared.append(parent)


def _readable_attempt(row: Row) -> int | None:
    """The attempt of this undoable row whose output can still be read, if any."""
    if not row.attempt or row.readable != row.every_part:
        return None
    return row.attempt
