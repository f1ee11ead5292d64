"""Rebuilding a run from its journal (design 2.5, 2.6): any committed prefix of the records will do.

The records say what is saved, begun, undone. That an unsaved node had been done is not recorded, but follows if
anything below it has left a trace. With that, an engine crash is nothing but the loss of all that was not saved, and
the recovery is the usual one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onceflow.core.model import commands, records, walks
from onceflow.core.model.rows import Row, Scope, Undo, forget_handling
from onceflow.core.rules import ending, failures, objects, outputs, recovery, settling, starting
from onceflow.core.rules.objects import Makers
from onceflow.core.rules.state import State


def replay(run: State, history: Iterable[records.Record], straggling: Iterable[tuple[str, int]]) -> None:
    """Make a new run what it was when the journal ended. `straggling`: (node, attempt) of those that may still run."""
    run.loaded = True
    for record in history:
        _replay_record(run, record)
    forget_torn(run)
    _replay_joins(run)
    for node, attempt in straggling:
        run.zombies[attempt] = node  # its row may come back with the graph that a crash took
        for row in _known(run, [node]):
            run.bury(row, attempt)


def note_changed(run: State, codes: Mapping[str, str]) -> None:
    """To be called before `begin()`: the code of these nodes is no longer what it was when their graph was stored,
    but has these versions. Unsaved, they count as nondeterministic, unless they ran by that version; and `begin()`
    raises `BrokenPromise` if something irrevocable was built on one of them."""
    run.codes.update(codes)


def distrust_changed(run: State) -> None:
    """What was made by other code than exists now would not come again."""
    for row in run.rows.values():
        if row.code != run.codes.get(row.id, "") and not row.fully_saved:
            row.repeatable = False


def _replay_record(run: State, record: records.Record) -> None:
    match record:
        case records.Begun(node, _, carried):
            row = run.rows[node]
            row.begun = True
            row.carried = carried
        case records.Withdrawn(node):
            run.rows[node].begun = False
        case records.Saved():
            _replay_save(run, record)
        case records.Done(node):
            row = run.rows[node]
            row.saved = row.every_part
        case records.Wrote(node):
            run.rows[node].wrote = True
        case records.Expanded(node):
            run.rows[node].repeatable = False
        case records.Handled(node):
            failures.make_handled(run, run.rows[node])
        case records.Trusted(node, code):
            for row in _known(run, [node]):
                row.code = code
                row.repeatable = row.node.options.repeatable
                forget_handling(row)
        case records.Failed(node, count, final):
            for row in _known(run, [node]):
                row.failures = count
            if final:
                failures.note_failed(run, node, _scope_of(run, node))
        case records.Again(node, count):
            for row in _known(run, [node]):
                if row.nested is not None:  # else a crash took the graph, and what had failed in it
                    ending.count_from_zero(run, row.nested.rows[0].scope, count)
        case records.Recovering(nodes):
            run.to_be_dropped.update(dict.fromkeys(nodes))
            _replay_doom(run)
            run.undoing_all = run.stopping is not None
        case records.Undone(node):
            row = run.rows[node]
            row.begun = False
            row.carried = ()
            run.undos[node] = run.undos.get(node, 0) + 1
            run.were_parked.clear()  # a user took care of it; whatever still fails is parked again
        case records.Dropped(nodes):
            _replay_drop(run, _known(run, nodes))
        case records.Abandoned(node, attempt, expander):
            run.abandonments[(node, attempt, expander)] = None
        case records.Parked(node):
            run.were_parked[node] = None
        case records.Cancelled(undo):
            run.stopping = run.stopping or "cancelled"
            run.undo_all = undo
        case records.Limited(group, limit):
            starting.set_limit(run, group, limit)
        case records.Finished(status):
            run.final = status
        case records.Resumed():
            _forget_stop(run)


def _replay_save(run: State, record: records.Saved) -> None:
    row = run.rows[record.node]
    if record.graph is not None:
        forget_handling(row)  # something in its graph was handled, which is known from now on
        if row.nested is None:
            outputs.expand(run, row, record.graph)
            _replay_doom(run)
    if record.refs or (row.refs is not None and record.attempt != row.attempt):
        objects.describe(run, row, record.refs, told=True)
    if record.joined:
        run.were_joined[row.id] = record.joined
    else:
        run.were_joined.pop(row.id, None)
    row.saved |= 1 << record.part
    outputs.force(row)  # whatever it declares: a row that saved a part is to be saved as a whole
    if row.saved & row.node.every_part and not row.handled:  # else not yet known whether it returned a graph
        row.repeatable = row.node.options.repeatable
    row.attempt = record.attempt
    row.failures = 0


def _scope_of(run: State, node: str) -> Scope | None:
    """The scope that a node is in, or one around it: a crash may have taken the graph that it was in."""
    row = run.rows.get(node)
    if row is not None:
        return row.scope
    around = walks.row_around(run.rows, node)
    if around is None:
        return None
    return around.scope if around.nested is None else around.nested.rows[0].scope


def _known(run: State, nodes: Iterable[str]) -> list[Row]:
    """Their rows, without those of a graph whose expander was not saved: a crash forgets them altogether."""
    return [run.rows[node] for node in nodes if node in run.rows]


def _replay_doom(run: State) -> None:
    for row in _known(run, run.to_be_dropped):
        run.recovering[row] = None
        row.doomed = True


def _replay_drop(run: State, rows: list[Row]) -> None:
    for row in rows:
        starting.leave(run, row)
        run.were_joined.pop(row.id, None)
        if row.refs is not None:
            objects.set_refs(row, None)
        row.saved = row.attempt = row.failures = 0
        row.repeatable = row.node.options.repeatable
        row.doomed = False
        forget_handling(row)
        run.recovering.pop(row, None)
        run.to_be_dropped.pop(row.id, None)
    if not run.recovering:
        run.to_be_dropped.clear()
    for row in sorted((row for row in rows if row.nested is not None), key=lambda row: -row.depth):
        outputs.collapse(run, row)


def forget_torn(run: State) -> None:
    """What counts as a whole or not at all, and is saved in part: no row has read it. What tasks wrote was lost with
    the previous driver, and they run again; what has joined others may have been forgotten when they were taken back;
    and a scope that was about to end has not ended."""
    given = ending.ended_with(run)
    run.torn = [
        row
        for row in run.rows.values()
        if row.saved
        and not row.fully_saved
        and (row.writes or row.id in run.were_joined or (row in given and not row.doomed))
    ]
    _replay_drop(run, run.torn)


def _replay_joins(run: State) -> None:
    for node, children in run.were_joined.items():
        for row in _known(run, [node]):
            starting.join(run, row, _known(run, children))
    run.were_joined.clear()


def _forget_stop(run: State) -> None:
    run.final = None
    run.stopping = None
    run.undo_all = run.undoing_all = False
    run.were_parked.clear()
    run.failed.clear()
    for row in run.rows.values():
        row.failures = row.scope.failures = 0


def resume(run: State, again: list[Row]) -> None:
    run.append(records.Resumed())
    _forget_stop(run)
    if again:
        run.append(records.Dropped(tuple(row.id for row in again)))
        for row in again:
            run.emit(commands.Drop(row.id, run.last_attempt))
        _replay_drop(run, again)
        distrust_changed(run)
    wake(run)
    refuse_broken_promises(run)


def wake(run: State) -> None:
    run.dormant = False
    run.were_parked.clear()
    take_stock(run)


def droppable(run: State, nodes: Iterable[str]) -> list[Row]:
    """Of these nodes those of which what is saved can be dropped together, unnoticed, when a run that was just loaded
    is resumed: what they read is there, or can be made again; nothing has to be taken back; and nothing below them has
    left a trace. (What was written to variables counts for good, what stands aside others may have seen, also that its
    graph has its result, and nothing is done again in a graph that has ended, unless what it ended with is dropped.)"""
    ended = list(ending.ended_scopes(run))
    seen = _results_around(run.aside)
    rows: dict[Row, None] = {} if run.recovering else dict.fromkeys(_known(run, nodes))
    rows = {row: None for row in rows if seen.isdisjoint([row, *walks.reach([row], walks.unsaved_parents)])}
    given = ending.ended_with(run)
    while True:
        over = [scope for sink, scope in ended if sink not in rows]
        left = {
            row: None
            for row in rows
            if _is_droppable(row, rows, has_read=row not in given) and not any(row.scope.is_in(scope) for scope in over)
        }
        if len(left) == len(rows):
            return list(left)
        rows = left


def _results_around(rows: Iterable[Row]) -> set[Row | None]:
    """What gives the results of the graphs that these are in."""
    found: set[Row | None] = set()
    for row in rows:
        scope: Scope | None = row.scope
        while scope is not None:
            found.add(scope.sink)
            scope = scope.outer
    return found


# -- what the records mean ---------------------------------------------------------------------------------------------


def take_stock(run: State) -> None:
    run.stalled = True
    ending.replay_endings(run)
    _drop_torn(run)
    order = walks.topological(run.rows)
    _infer_done(order, ending.ended_with(run))
    for row in order:
        if row.state != "done" and row.repeatable != row.node.options.repeatable:
            outputs.trust_again(run, row)  # nothing is left of what it gave
    answer, run.decided = run.decided, []
    for row in order:
        if row.begun and row.effect == "undoable":
            settling.pin(run, row)
    for row in order:
        if (row.begun and row.effect == "irrevocable") or row.wrote:
            starting.cover_above(run, row)
        row.uncommitted = sum(parent.holds_up for parent, _ in row.parents)
    done = [row for row in order if row.state == "done"]
    for row in done:
        if row.keeps is not None:
            starting.turn_is_over(run, row)
        outputs.gain(run, row, row.saved | objects.shared(run, row, row.every_part), first_time=True)
        if row.fully_saved and not row.is_empty:
            settling.set_reproducible(run, row)
    for row in done:
        if not row.doomed:
            if row.fully_saved:
                settling.note_saved(run, row)
            else:
                settling.note_done(run, row)
            settling.work_off_marks(run)
    settling.retire_rows(run)
    run.decided = answer  # what was released in passing is not in this process's memory anyway
    _continue_undos(run)
    ending.replay_pauses(run)
    if run.stopping is None:
        makers: Makers = {}
        for row in run.rows.values():
            outputs.note_loss(run, row, makers)
            _save_the_rest(run, row)
        if not run.recovering:
            starting.resume_starts(run)
    run.ready.extend(row for row in run.rows.values() if row.missing == 0)


def refuse_broken_promises(run: State) -> None:
    """What waits for its delay, is in a graph that does, or is about to be dropped needs what it reads only later;
    but if something irrevocable would fall into R then, the run is refused now."""
    was_edited = bool(run.codes) or any(row.code for row in run.rows.values())  # and restored since
    if not was_edited or run.stopping is not None:
        return
    makers: Makers = {}
    seeds: dict[Row, None] = {}
    for row in run.rows.values():
        if row.scope.over:
            continue
        if row.state != "done" or row.doomed:
            for parent, mask in row.parents:
                seeds.update(dict.fromkeys(objects.makers_of_lost(run, parent, mask, makers)))
        elif (row.checkpoint and not row.settled) or outputs.keeps_effects_waiting(run, row):
            seeds.update(dict.fromkeys(objects.makers_of_lost(run, row, row.every_part, makers)))
    recovery.rerun_set(run, seeds, makers)


def _drop_torn(run: State) -> None:
    torn, run.torn = [row for row in run.torn if not row.abandoned], []
    if torn:
        run.append(records.Dropped(tuple(row.id for row in torn)))
        for row in torn:
            run.emit(commands.Drop(row.id, run.last_attempt))


def _save_the_rest(run: State, row: Row) -> None:
    """What is not saved of an output may be there all the same: refs whose origin is saved. In a graph that has
    ended it need not be."""
    if row.refs is not None and row.checkpoint and row.available == row.every_part:
        outputs.ask_to_save(run, row)


def _continue_undos(run: State) -> None:
    for row in run.recovering:
        if row.effect == "undoable" and row.begun:
            row.undo = Undo()
            run.undoing[row] = None
    recovery.order_undos(run)
    for row in run.rows.values():
        if row.state == "done" or row in run.recovering:
            continue
        unfinished = row.effect == "undoable" and row.begun
        if row.failures:
            row.move("backoff")
            row.attempt = run.new_attempt()
            if not unfinished and run.stopping is None:
                run.emit(commands.Wait(row.id, row.attempt, row.failures))
        if unfinished:
            recovery.undo_locally(run, row)


def _is_droppable(row: Row, together: dict[Row, None], *, has_read: bool) -> bool:
    """`has_read`: it ran, and was not given to end its graph."""
    if not row.saved or row.nested is not None or row.writes:
        return False
    if row.node.aside or not row.consumers:
        return False
    if row.effect == "undoable" and row.begun:
        return False
    if has_read and not all(parent.repeatable for parent in walks.reach([row], walks.unsaved_parents)):
        return False
    return not any(other.begun or (other.saved and other not in together) for other in walks.reach([row], _consumers))


def _consumers(row: Row) -> list[Row]:
    return [consumer for consumer, _, _ in row.consumers]


def _infer_done(order: list[Row], given: set[Row]) -> None:
    """A node has been done if any of it is saved, or if anything that waited for it has begun or been done, but for
    what was `given` to end a graph. A node that has saved only refs returned no graph: that would have been
    saved before."""
    for row in reversed(order):
        if row.saved or any(
            consumer.begun or (consumer.state == "done" and consumer not in given) for consumer, _, _ in row.consumers
        ):
            row.move("done")
            row.visible = True
            row.failures = 0
            row.inferred = not row.saved & row.node.every_part
