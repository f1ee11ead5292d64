"""The life of an output (design 2.2, 2.12): it becomes visible, is saved, or is lost; and returned graphs (2.9).

The nodes of a returned graph become rows of the run in the step in which the **expander**, which returned it, is done.
All of them are consumers of the expander, because their arguments are part of its output. The expander's own consumers
now read the nested sink, which inherits `checkpoint`. If the expander is dropped, so are the rows.
"""

from __future__ import annotations

from onceflow.core.model import commands, records, walks
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart, bits
from onceflow.core.model.rows import GRAPH, Nested, Row, Scope, forget_handling, new_row
from onceflow.core.rules import objects, settling, starting
from onceflow.core.rules.objects import Makers
from onceflow.core.rules.state import State


def become_done(
    run: State, row: Row, graph: Graph | None, small: bool, refs: tuple[RefPart, ...] = (), *, handled: bool = False
) -> None:
    """The current attempt returned, or a handler gave an outcome in its stead."""
    row.move("done")
    row.small = small
    row.failures = 0
    row.inferred = False
    if row.repeatable != row.node.options.repeatable and not handled:
        trust_again(run, row)
    first_time = not row.visible
    if graph is not None and row.nested is None:
        if first_time:
            expand(run, row, graph)
        else:
            expand_again(run, row, graph)
        _record_expansion(run, row)
    if row.group is not None or row.keeps is not None:
        starting.turn_is_over(run, row)
    row.visible = True
    if first_time and not refs:
        gain(run, row, row.every_part, first_time)
    else:
        _gain_with_refs(run, row, refs, first_time)
    if row.saved != row.every_part:
        if row.checkpoint:
            ask_to_save(run, row)
        elif row.effect != "none" and not row.exported and not any(mask for _, mask, _ in row.consumers):
            # No row reads it, but the rows that wait for it may not wait again: the journal remembers that it is done.
            run.append(records.Done(row.id))
            row.saved = row.every_part
            row.recorded = True
    if row.saved == row.every_part:
        settling.note_saved(run, row)
    else:
        settling.note_done(run, row)


def trust_again(run: State, row: Row) -> None:
    """What was not known of it after a crash is known again, and readers of the old output are dropped."""
    row.repeatable = row.node.options.repeatable
    row.code = run.codes.get(row.id, "")
    run.append(records.Trusted(row.id, row.code))
    forget_handling(row)
    if row.settling is not None:
        settling.release_hindered(run, row.settling)


def gain(run: State, row: Row, parts: int, first_time: bool) -> None:
    """These parts are available now; update the counters of their readers."""
    before = row.available
    row.available |= parts
    ready = run.ready
    for consumer, mask, _ in row.consumers:
        if first_time if mask == 0 else mask & ~before and not mask & ~row.available:
            consumer.missing -= 1
            if consumer.missing == 0:
                ready.append(consumer)


def _gain_with_refs(run: State, row: Row, refs: tuple[RefPart, ...], first_time: bool) -> None:
    """The same for an output with refs, or one that was there before: some of what came in may be lost by now, and rows
    that passed on what this row had may miss it."""
    if refs or row.refs is not None:
        objects.describe(run, row, refs)
        run.suspects[row] = None
    gain(run, row, row.saved | objects.made(run, row) | objects.shared(run, row, row.every_part), first_time)
    if not first_time:
        share(run, row)


def share(run: State, row: Row) -> None:
    """What this row has again, those have again that passed it on. If it has no longer what they passed on, some of
    them may have to run themselves."""
    givers = [row]
    suspects: dict[Row, None] = {}
    while givers:
        for consumer, _, _ in givers.pop().consumers:
            lost = 0 if consumer.refs is None or consumer.released else consumer.every_part & ~consumer.available
            regained = objects.shared(run, consumer, lost)
            if regained or (lost and consumer not in suspects):
                givers.append(consumer)
                suspects[consumer] = None
            if regained:
                gain(run, consumer, regained, first_time=False)
                if consumer.checkpoint:
                    ask_to_save(run, consumer)
    run.suspects.update(dict.fromkeys(suspects))


def lose_parts(run: State, lost: dict[Row, int]) -> None:
    """One failure took these parts from memory."""
    there: dict[tuple[Row, int], bool] = {}
    makers: Makers = {}
    for row, parts in lost.items():
        if row.recorded and parts & row.every_part:
            row.attempt = 0  # no task reads it, but an undo would be given it
        kept = objects.still_shared(run, row, parts, lost, there)
        lose(run, row, parts & ~kept, makers)
        for part in bits(kept & row.saving):  # the save that read the lost copy may never be answered
            run.emit(commands.Save(row.id, part, row.attempt))


def lose(run: State, row: Row, parts: int, makers: Makers) -> None:
    """These parts are no longer in memory. Saved ones stay available."""
    before = row.available
    row.available &= ~parts | row.saved
    if row.available == before:
        return
    objects.forget_saves(run, row, ~row.available)
    if row.settled:
        run.retirable.append(row)
    for consumer, mask, _ in row.consumers:
        if not mask & ~before and mask & ~row.available:
            consumer.missing += 1
    note_loss(run, row, makers)


def look_for_losses(run: State) -> None:
    suspects, run.suspects = run.suspects, {}
    makers: Makers = {}
    for row in suspects:
        note_loss(run, row, makers)


def note_loss(run: State, row: Row, makers: Makers) -> None:
    """If the row was done and is lost: is it needed again? It is if a consumer has yet to read it, or if it was
    to be saved and may still be dropped."""
    if row.available == row.every_part or row.scope.closed:  # what is closed is looked at when it opens
        return
    needed = 0
    if row.checkpoint and not row.settled and not row.foreign:
        needed = row.every_part
    else:
        for consumer, mask, _ in row.consumers:
            if consumer.state == "waiting" and not consumer.scope.closed:
                needed |= mask
        if keeps_effects_waiting(run, row):
            needed = row.every_part
    run.seeds.update(dict.fromkeys(objects.makers_of_lost(run, row, needed, makers)))


def is_edited(run: State, row: Row) -> bool:
    """Whether the code that exists now is not what the row ran by, and that may still matter."""
    return row.code != run.codes.get(row.id, "") and not row.settled


def keeps_effects_waiting(run: State, row: Row) -> bool:
    """Whether something with an effect starts when this row has run by the code that exists now, and not before: it
    waits for the row to be settled, which is settled with it only, because nothing between them is saved."""
    return is_edited(run, row) and any(map(_has_yet_to_begin, walks.reach([row], _settled_with)))


def needs_inputs(run: State, row: Row, makers: Makers) -> None:
    """The row is to run (again): its lost inputs must be made again."""
    if row.scope.closed:
        return  # looked at when it opens
    if row.missing:
        for parent, mask in row.parents:
            run.seeds.update(dict.fromkeys(objects.makers_of_lost(run, parent, mask, makers)))
    else:
        run.ready.append(row)


# -- saves -------------------------------------------------------------------------------------------------------------


def ask_to_save(run: State, row: Row) -> None:
    """The available parts of its output are to be saved, as soon as the journal has the graph that it is in."""
    if row.state != "done" or row.doomed or not row.attempt:
        return  # it is asked for when it is done, or done again: some of it was lost when its graph ended
    expander = row.expander
    if expander is not None and not expander.fully_saved:
        assert expander.nested is not None
        expander.nested.held.append(row)
        return
    wanted = row.every_part & row.available & ~row.saved & ~row.saving
    if row.nested is not None and not row.saved & GRAPH:
        wanted &= GRAPH  # before its refs: any saved part then implies that it is known whether it returned a graph
    row.saving |= wanted
    for part in range(wanted.bit_length()):
        if wanted >> part & 1:
            run.saving += 1
            run.emit(commands.Save(row.id, part, row.attempt))


def become_saved(run: State, row: Row, part: int) -> None:
    row.saving &= ~(1 << part)
    run.saving -= 1
    row.saved |= 1 << part
    if not row.checkpoint:  # what was handled in its graph was dropped meanwhile: a part of it is saved all the same
        row.checkpoint = row.forced = True
    nested = row.nested
    graph = nested.graph if nested is not None and part == 0 else None
    joined = tuple([child.id for child in row.joined]) if row.joined else ()
    if row.refs is None or row.refs.told:
        run.append(records.Saved(row.id, part, row.attempt, graph, (), joined))
    else:
        row.refs.told = True
        run.append(records.Saved(row.id, part, row.attempt, graph, row.refs.parts, joined))
    if nested is not None and graph is not None:
        row.distrusted = False
        _record_expansions_in(run, nested)
        run.ready.extend(inner for inner in nested.rows if inner.missing == 0)
        if row.saved != row.every_part:
            ask_to_save(run, row)
    if row.saved == row.every_part:
        if nested is not None:
            let_nested_begin(run, nested)
        if row.writes and not row.handled and row.ends is None:
            starting.commit_writes(run, row)
        if row.writes or row.joined:
            starting.show_writes(run, row)
        if row.ends is None:
            settling.note_saved(run, row)
        else:
            run.outcomes[row] = None


def let_nested_begin(run: State, nested: Nested) -> None:
    """The expander is saved, with all that it holds: what is in its graph may have effects, and be saved."""
    held, nested.held = nested.held, []
    for row in dict.fromkeys(held):  # it may have been dropped since, and need not be saved any more
        if row.state == "done" and row.checkpoint and not row.released:
            ask_to_save(run, row)
        elif row.ends is not None:
            run.outcomes[row] = None
    run.ready.extend(row for row in nested.rows if row.missing == 0)


def _has_yet_to_begin(row: Row) -> bool:
    """Whether it has an effect that has yet to begin. An irrevocable one that has begun is repeated without waiting."""
    if row.state == "done" or (row.effect == "irrevocable" and row.begun):
        return False
    return row.effect != "none" or row.writes


def _settled_with(row: Row) -> list[Row]:
    """The rows that it is settled together with, and not before."""
    return [] if row.checkpoint or row.fully_saved else [consumer for consumer, _, _ in row.consumers]


# -- returned graphs ---------------------------------------------------------------------------------------------------


def expand(run: State, expander: Row, graph: Graph) -> None:
    base, depth = walks.inside(expander)
    prefix = base if depth == 1 else f"{base}~{depth}"
    rows: list[Row] = []
    outer = expander.scope
    tail = outer.sink is expander
    options = expander.node.options
    scope = outer if tail and not options.guards and not options.transaction else Scope(outer, expander)
    for node in graph.nodes:
        row = new_row(f"{prefix}/{node.id}", node, scope)
        row.expander = expander
        row.depth = expander.depth + 1
        rows.append(row)
        run.rows[row.id] = row
        run.codes.pop(row.id, None)  # it comes with the code that exists now
        if node.aside:
            expander.forks = True
            run.aside[row] = None
        _inherit_zombies(run, row)
    sink = rows[graph.sink]
    sink.prefix = (base, depth)
    scope.ends_with(sink)
    if tail and scope is not outer:
        outer.ends_with(None, scope)
    sink.checkpoint = expander.checkpoint  # if that is not saved, nothing in its graph is
    sink.exported, expander.exported = expander.exported, False
    walks.hand_over(expander, sink)
    for row, node in zip(rows, graph.nodes, strict=True):
        walks.link_new(row, node.edges, rows)
        walks.link(expander, row, expander.with_refs(1))
    starting.form_group(run, expander, rows, sink)
    expander.nested = Nested(graph, rows, sink)
    refs = expander.every_part & ~expander.node.every_part
    expander.every_part = 1 | refs  # what it returned, and what is saved, is the graph
    if expander is run.sink:
        run.sink = sink


def _inherit_zombies(run: State, row: Row) -> None:
    """A node of this id may have been there before, in a graph that was dropped."""
    if run.zombies:
        row.zombies = {attempt for attempt, node in run.zombies.items() if node == row.id} or None


def expand_again(run: State, expander: Row, graph: Graph) -> None:
    """It returned this graph before a crash. If what reads the sink has left a trace, all of it was done."""
    expand(run, expander, graph)
    assert expander.nested is not None
    settling.pin_nested(run, expander, expander.nested.rows)
    if not any(consumer.touched for consumer, _, _ in expander.nested.sink.consumers):
        return
    for row in expander.nested.rows:
        row.move("done")
        row.visible = row.inferred = True
        for consumer, mask, _ in row.consumers:
            if mask == 0:
                consumer.missing -= 1
        settling.note_done(run, row)
        run.suspects[row] = None
    if not expander.is_in_flight:  # else it was rebuilt for an undo while it runs for the others
        starting.turn_is_over(run, expander)


def _record_expansion(run: State, expander: Row) -> None:
    """The journal learns of the graph when the expander is saved. What matters of it before that is noted now, for
    the outermost expander that the journal knows."""
    assert expander.nested is not None
    if not all(row.repeatable for row in expander.nested.rows):
        _distrust(run, expander)


def _distrust(run: State, expander: Row) -> None:
    known = walks.outermost_known(expander)
    if known.node.options.repeatable:
        known.distrusted = True
        run.append(records.Expanded(known.id))


def trust_around(run: State, dropped: list[Row]) -> None:
    """What was noted for the sake of these rows need not hold any more for the tasks around them."""
    for known in dict.fromkeys([walks.outermost_known(row) for row in dropped]):
        if not known.distrusted or known.nested is None:
            continue
        if known.nested.is_repeatable:
            known.distrusted = False
            run.append(records.Trusted(known.id, known.code))
        elif known.forced and not known.nested.is_answered_for:  # it need not be saved any more
            run.append(records.Trusted(known.id, known.code))
            run.append(records.Expanded(known.id))
    for expander in walks.reach(dropped, _around):
        if expander.forced and not expander.saved and expander.nested and not expander.nested.is_answered_for:
            expander.forced = expander.checkpoint = False


def _record_expansions_in(run: State, nested: Nested) -> None:
    """The journal has this graph now, so what was noted for its expander is noted for those that it contains."""
    for row in nested.rows:
        if row.handled and row.node.options.repeatable:
            run.append(records.Handled(row.id))
        if row.nested is not None and row.node.options.repeatable and not row.nested.is_repeatable:
            row.distrusted = True
            noted = records.Handled if row.nested.is_answered_for else records.Expanded
            run.append(noted(row.id))


def collapse(run: State, expander: Row) -> None:
    """Undo `_expand`. The nested rows are dropped already."""
    assert expander.nested is not None
    sink = expander.nested.sink
    expander.consumers = []
    expander.unsettled = 0
    expander.every_part = expander.node.every_part
    if expander.settling is not None:
        expander.settling.consumer = 0
    expander.exported = sink.exported
    walks.hand_over(sink, expander)
    if expander.scope.sink is sink:
        expander.scope.ends_with(expander)
    if sink is run.sink:
        run.sink = expander
    starting.dissolve_group(run, expander, sink)
    for row in expander.nested.rows:
        del run.rows[row.id]
        run.aside.pop(row, None)
        starting.end_turn(run, row)  # which it keeps while it asks
        for mark in (row.settling, row.quieting):
            if mark is not None:
                settling.forget_mark(run, mark)
    expander.nested = None
    expander.forks = False


def _around(row: Row) -> list[Row]:
    return [] if row.expander is None else [row.expander]


def force(row: Row) -> None:
    if not row.checkpoint:
        row.checkpoint = row.forced = True


def save_around(run: State, row: Row) -> None:
    """The graphs that it is in are saved after all."""
    expander = row.expander
    assert expander is not None
    if expander.saved & GRAPH:
        return
    known = walks.outermost_known(expander)
    if known.node.options.repeatable:
        known.distrusted = True
        run.append(records.Handled(known.id))
    while expander is not None and not expander.saved & GRAPH:
        if not expander.checkpoint:
            force(expander)
            ask_to_save(run, expander)
            run.suspects[expander] = None
        expander = expander.expander
