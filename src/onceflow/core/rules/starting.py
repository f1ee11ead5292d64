"""When a ready task may start (design 2.3), and the *begun* record before it.

**Turns** (2.10). Of rows that belong together, as the chunks of a loop do, so many may be in flight. A row of a full
group waits, before anything is recorded of it. When there is room, those with lower numbers go first, whenever they
came: so a loop with parts that open into more parts finishes what it has opened before it opens more. Rows that open
into more of their group go one at a time. A row is in flight while an attempt of it runs. If it returned a graph, it
stays in flight until the graph's result is there, unless rows of that graph belong to the group themselves, and have
turns of their own. What runs again waits for no turn: a row in flight may need it.

**Admission** (2.13). A row that could start and needs admission asks for it once (`commands.Ask`), before anything is
recorded of it. The answer (`events.Admitted`) lets it start, if it still could; if not, it asks again when it can. The
queue learns from what happens next whether its answer was used, and counts the row only while its attempt runs. A row
that asks keeps its turn, but an admitted one waits for nothing any more: so there is always one that gets on.

**Task variables** (2.11). A task that writes starts when it is quiet, and what it wrote is committed with the save that
completes its output. From then on it is settled, so nothing that is committed is ever rolled back: to a saga it is like
something irrevocable that has begun. Consumers alone never settle such a task: unsaved, it would never be committed.
What is written is in the memory of the driver until it is committed, so after a crash what is saved of a writer counts
as a whole or not at all (`loading`). An outcome that a handler gave in its stead is no write. What the graph orders
after a writer sees what it wrote: its consumers start when that is durable.

**Joins** (2.11). Nothing leads from a node that stands aside to those that wait for its outcome: which these are is not
known when it starts, and each is given what can never change any more, because it is settled. But what is settled can
be taken back all the same, by a saga. (Nothing stands aside in a transaction.) So when an attempt has been given such
outcomes, their nodes become **parents** of its node, until that is dropped. They are saved and settled, so this changes
nothing for them or for it, except

- what is taken back with them: the node and its descendants are theirs as well (2.8);
- what they carry: something irrevocable below the node stands on them (2.8).

The journal learns of it with the save of the node, and those that read the node start when it is saved: so nothing is
built on a join that a crash could forget. A graph that ends before its result is there has joined what was joined in
it: what it ends with may have come of that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from onceflow.core.model import commands, records, walks
from onceflow.core.model.rows import GRAPH, Group, Row, Scope
from onceflow.core.rules import objects, settling
from onceflow.core.rules.state import State


def start_ready(run: State) -> None:
    ready, run.ready = run.ready, []
    for row in ready:
        _start_if_allowed(run, row)


def _start_if_allowed(run: State, row: Row) -> None:
    if row.state != "waiting" or row.missing or row.undo is not None or row.foreign:
        return
    if row.scope.closed or row.asking:
        return
    if run.stalled:
        run.held[row] = None
    elif row.uncommitted or (row.expander is not None and not has_begun(row.expander)):
        return  # looked at again when it sees what its parents wrote, or when its graph is saved
    elif row.node.takes and objects.is_in_use(run, row):
        run.takers[row] = None
    elif _changes_nothing(row) or may_begin(row):
        if row.group is None:
            _go(run, row)
        elif row.visible:
            _take_turn(row)
            _go(run, row)
        else:
            _queue(run, row)


def _go(run: State, row: Row) -> None:
    if row.node.admission is not None:
        _ask(run, row)
    elif row.effect == "none" or run.has_place is None or run.has_place(row.id):
        _begin_and_start(run, row)
    else:
        _ask(run, row)


def _begin_and_start(run: State, row: Row) -> None:
    if row.effect != "none":
        _begin(run, row)
    _start(run, row)


def give_turns(run: State) -> None:
    """Start as many rows as its group has room for."""
    groups, run.eager = run.eager, {}
    for group in groups:
        while group.is_open:
            _, _, row = heapq.heappop(group.waiting)
            row.queued = False
            if _may_go(run, row):
                _take_turn(row)
                _go(run, row)


def start_admitted(run: State) -> None:
    """Start the admitted rows that may still start."""
    admitted, run.admitted = run.admitted, {}
    for row in admitted:
        row.asking = False
        if not _may_go(run, row):
            end_turn(run, row)
        elif row.group is None or row in row.group.flying:
            _begin_and_start(run, row)
        else:  # it was dropped meanwhile, and with it its turn
            run.ready.append(row)


def _may_go(run: State, row: Row) -> bool:
    """Whether a row that waited for its turn, or for admission, is still there, and could still start."""
    if row.state != "waiting" or row.missing or row.undo is not None or run.rows.get(row.id) is not row:
        return False
    if row.scope.closed:
        return False
    if run.stalled:
        run.held[row] = None
        return False
    if row.uncommitted or (row.expander is not None and not has_begun(row.expander)):
        return False
    if row.node.takes and objects.is_in_use(run, row):
        run.takers[row] = None
        return False
    return _changes_nothing(row) or may_begin(row)


def has_begun(expander: Row) -> bool:
    """Whether the graph that it returned has begun: one in which something stands aside begins when the journal has
    it. Else a crash could forget that, and keep what was built on the result of the graph."""
    return not expander.forks or bool(expander.saved & GRAPH)


def may_begin(row: Row) -> bool:
    """May this row, whose inputs are all there, have its effect, or write what it writes?

    A nested row also waits until its expander is saved: after a crash the journal must know what has begun.
    """
    if row.expander is not None and not row.expander.fully_saved:
        return False
    if row.effect == "undoable":
        return row.irreproducible == 0 and not row.zombies
    return row.begun or row.unquiet == 0  # what has begun is repeated with the same inputs


def _begin(run: State, row: Row) -> None:
    if row.effect == "undoable":
        row.begun = True
        row.carried = tuple(
            (parent.id, part)
            for parent, mask in row.parents
            if parent.small
            for part in range(mask.bit_length())
            if mask >> part & 1
        )
        run.append(records.Begun(row.id, run.last_attempt + 1, row.carried))
        settling.pin(run, row)
    elif not row.begun:
        row.begun = True
        row.begun_with = run.last_attempt + 1
        run.append(records.Begun(row.id, row.begun_with))
    else:
        count_as_started(run, row)  # the attempt before this one may have


def _start(run: State, row: Row) -> None:
    row.move("running")
    row.attempt = run.new_attempt()
    run.running += 1
    run.emit(commands.Start(row.id, row.attempt, row.effect != "none" or row.follows_writer))
    if row.node.takes:
        objects.take(run, row)


def start_takers(run: State) -> bool:
    """Look again at those that waited for readers. Whether one of them has started, or waits for its turn."""
    started = run.running
    takers, run.takers = run.takers, {}
    for row in takers:
        _start_if_allowed(run, row)
    return run.running > started or bool(run.eager)


def resume_starts(run: State) -> None:
    """The run is no longer stalled."""
    run.stalled = False
    held, run.held = run.held, {}
    run.ready.extend(held)


def _changes_nothing(row: Row) -> bool:
    return row.effect == "none" and not row.writes


# -- turns -------------------------------------------------------------------------------------------------------------


def groups_of(run: State) -> dict[str, Group]:
    """By the id of their loop, as long as one of their rows is there."""
    return {row.group.id: row.group for row in run.rows.values() if row.group is not None}


def form_group(run: State, expander: Row, rows: list[Row], sink: Row) -> None:
    """These are the rows of the graph that the expander has returned."""
    members = [(row, row.node.turn) for row in rows if row.node.turn is not None]
    if members:
        limit = max(turn.limit for _, turn in members)
        group = expander.group
        if limit or group is None:
            limit = run.limits.get(expander.id, limit or len(members))
            group = Group(expander.id, limit, sum(turn.items for _, turn in members))
        for row, _ in members:
            row.group = group
    if expander.group is not None and not (members and members[0][0].group is expander.group):
        expander.group.flying[expander] = None
        sink.keeps = sink.stands_for = expander
    else:
        sink.keeps, expander.keeps = expander.keeps, None
        sink.stands_for = expander.stands_for


def dissolve_group(run: State, expander: Row, sink: Row) -> None:
    """The graph of the expander is gone."""
    kept, sink.keeps = sink.keeps, None
    if kept is expander:
        end_turn(run, expander)
    else:
        expander.keeps = kept


def _queue(run: State, row: Row) -> None:
    """The row could start."""
    group, turn = row.group, row.node.turn
    assert group is not None
    assert turn is not None
    if not row.queued:
        row.queued = True
        run.queued += 1
        heapq.heappush(group.waiting, (turn.order, run.queued, row))
    run.eager[group] = None


def _take_turn(row: Row) -> None:
    assert row.group is not None
    row.group.flying[row] = None


def end_turn(run: State, row: Row) -> None:
    """The row of a group is not in flight any more, unless it returned a graph whose result is not there."""
    group = row.group
    if group is not None and row in group.flying and not _is_kept_in_flight(row):
        del group.flying[row]
        run.eager[group] = None


def turn_is_over(run: State, row: Row) -> None:
    """The row is done; unless it returned a graph, its output is there."""
    last = row if row.nested is None else row.nested.sink
    if last.keeps is not row:
        end_turn(run, row)
    while last.keeps is not None and (last is row or last.visible):
        kept, last.keeps = last.keeps, None
        if not kept.is_in_flight:  # else it runs once more, which is its turn as well
            end_turn(run, kept)
        last = row = kept  # which may have been a sink in turn


def keep_turns(sink: Row) -> None:
    """The result of a graph is dropped, and the graph is not: the rows that are in flight until it is there are so
    again."""
    kept = sink.stands_for
    while kept is not None:
        assert kept.group is not None
        kept.group.flying[kept] = None
        sink.keeps = kept
        sink, kept = kept, kept.stands_for


def set_limit(run: State, id: str, limit: int) -> None:
    """How many rows of this group may be in flight from now on."""
    run.limits[id] = limit
    group = groups_of(run).get(id)
    if group is not None:
        group.limit = limit
        run.eager[group] = None


def _is_kept_in_flight(row: Row) -> bool:
    """Whether it is in flight for the sake of the graph that it returned."""
    last = row
    while last.nested is not None:
        last = last.nested.sink
    kept = None if last.visible else last.keeps
    while kept is not None and kept is not row:
        kept = kept.keeps  # which is a sink in turn
    return kept is row


# -- admission ---------------------------------------------------------------------------------------------------------


def _ask(run: State, row: Row) -> None:
    if not row.asking:
        row.asking = True
        run.emit(commands.Ask(row.id))


def answer_to(run: State, row: Row) -> None:
    """The host admits the row."""
    if row.asking:
        run.admitted[row] = None


# -- writes of variables -----------------------------------------------------------------------------------------------


def commit_writes(run: State, row: Row) -> None:
    """The last part of its output is saved."""
    row.wrote = True
    run.append(records.Wrote(row.id, row.attempt))
    cover_above(run, row)


def show_writes(run: State, row: Row) -> None:
    """The rows after it see what it wrote, or may build on what it joined."""
    for consumer, _, _ in row.consumers:
        consumer.uncommitted -= 1
        if consumer.uncommitted == 0 and consumer.missing == 0:
            run.ready.append(consumer)


def count_as_started(run: State, row: Row) -> None:
    """An irrevocable row that has begun may have had its effect: what it reads is never taken back."""
    row.begun_with = 0
    cover_above(run, row)


def prove_ended(run: State, row: Row | None, attempt: int) -> None:
    """However that was learnt: if the attempt was not withdrawn before, it may have started. `row` is None if the run
    has forgotten it."""
    if row is not None and row.begun_with == attempt:
        count_as_started(run, row)
    run.zombies.pop(attempt, None)
    if row is not None and row.zombies is not None:
        row.zombies.discard(attempt)
        if not row.zombies:
            row.zombies = None
            run.ready.append(row)


def withdraw(run: State, row: Row, attempt: int) -> None:
    """This attempt never started. If the row has begun with it, it has not."""
    if row.begun_with == attempt:
        row.begun_with = 0
        row.begun = False
        run.append(records.Withdrawn(row.id))


def cover_above(run: State, row: Row) -> None:
    """The row has an effect that cannot be taken back; unless it may yet turn out never to have started."""
    if not row.begun_with:
        run.retirable += settling.cover(run, [parent for parent, _ in row.parents])


# -- joining -----------------------------------------------------------------------------------------------------------


def may_join(run: State, child: str) -> bool:
    """Whether a node that stands aside has ended for good."""
    row = run.rows.get(child)
    return row is None or row.settled


def may_be_taken_back(run: State, node: str) -> bool:
    """Whether a transaction around it whose result is not settled would take it back if something failed there."""
    row = run.rows.get(node)
    scope = None if row is None else row.scope
    outermost: Scope | None = None
    while scope is not None:
        if scope.is_transaction and scope.sink is not None and not scope.sink.settled:
            outermost = scope
        scope = scope.outer
    if row is None or outermost is None:
        return False
    above = [row, *walks.reach([row], _may_go_with)]
    return any(
        other.effect == "undoable" and other.begun and not other.covered and other.scope.is_in(outermost)
        for other in above
    )


def is_part_of(run: State, node: str, child: str) -> bool:
    """Whether this node is in the graph whose result is the outcome of what stands aside: it has to come to its end
    first."""
    row = run.rows.get(child)
    if row is None:
        return False
    inside = run.rows[node].scope
    for parent, _ in row.parents:
        scope = parent.scope
        while scope.depth > row.scope.depth + 1 and scope.outer is not None:
            scope = scope.outer
        if scope.depth > row.scope.depth and inside.is_in(scope):
            return True
    return False


def join(run: State, row: Row, joined: Iterable[Row]) -> None:
    """The row has been given what these gave. What is forgotten can never be taken back."""
    known = {parent for parent, _ in row.parents}
    news = [child for child in dict.fromkeys(joined) if not child.retired and child not in known]
    if not news:
        return
    held_up = row.holds_up
    for child in news:
        walks.link(child, row, 0)
    row.joined += tuple(news)
    if row.holds_up and not held_up:
        for consumer, _, _ in row.consumers:
            consumer.uncommitted += 1
    if any(child.abandoned or child.follows_writer for child in news):
        follow_writes(row)


def join_ends(run: State, abandoned: Iterable[Row]) -> None:
    """A join of what was abandoned gives `CannotJoin`, because its graph has ended: so what was abandoned has
    joined what the graph ended with."""
    aside = [row for row in abandoned if row.node.aside]
    ended = {row.ended: row for row in run.rows.values() if row.ended is not None} if aside else {}
    for row in aside:
        scope: Scope | None = row.scope
        while scope is not None and scope not in ended:
            scope = scope.outer
        if scope is not None:
            join(run, row, [ended[scope]])


def follow_writes(row: Row) -> None:
    """What was written where it has joined something may be on its way: those that read it, or join it, see it."""
    row.follows_writer = True
    for consumer, _, _ in row.consumers:
        consumer.follows_writer = True


def leave(run: State, row: Row) -> None:
    """Its joins no longer count."""
    if not row.joined:
        return
    if not row.writes and not row.fully_saved:
        show_writes(run, row)
    for child in row.joined:
        if child.retired:
            continue
        child.consumers = [edge for edge in child.consumers if edge[0] is not row]
        child.unsettled -= not row.settled
        if child.settling is not None:
            child.settling.consumer = 0
        row.missing -= not child.gives(0)
        row.unquiet -= not child.quiet
        row.irreproducible -= not child.reproducible
        row.uncommitted -= child.holds_up
        row.unretired -= 1
        run.retirable.append(child)
    row.parents = [edge for edge in row.parents if edge[0] not in row.joined]
    row.joined = ()


def joined_in(run: State, scope: Scope) -> list[Row]:
    """The nodes outside of this graph that were joined in it."""
    rows = [row for row in run.rows.values() if row.joined and row.scope.is_in(scope)]
    return [child for row in rows for child in row.joined if not child.scope.is_in(scope)]


def _may_go_with(row: Row) -> list[Row]:
    """If one of these is taken back, this row may be as well: its parents, and the rows for which it would have to be
    made anew. Nothing takes back what something irrevocable stands on."""
    return [] if row.covered else walks.stood_on_with(row)
