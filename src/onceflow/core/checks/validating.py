"""Validate mode: every state that a run keeps incrementally, compared with its definition."""

from __future__ import annotations

from onceflow.core.checks import definitions
from onceflow.core.model import walks
from onceflow.core.model.rows import Row
from onceflow.core.rules import objects, slices
from onceflow.core.rules.state import State


def facts_of(run: State) -> definitions.Facts:
    """What the definitions need to know of a run."""
    rows = list(run.rows.values())
    forgotten = {row for row in _neighbours(rows) if row.retired}
    members = [
        definitions.Member(
            id=row.id,
            parents={parent.id: mask & parent.node.every_part for parent, mask in row.parents},
            effect=row.effect,
            deterministic=row.repeatable or row.effect == "undoable",
            checkpoint=row.checkpoint,
            writes=row.writes,
            joins=bool(row.joined),
            forks=row.forks,
            parts=row.declared.bit_length(),
            expander=row.expander.id if row.expander is not None and not row.expander.retired else None,
            takes={row.parents[edge][0].id: mask for edge, mask in row.node.takes if row.parents},
        )
        for row in rows
    ]
    for row in forgotten:  # settled, and so is everything that reads it: a stand-in that is read and saved once more
        readers = {row.id: 1} | {parent.id: 1 for parent in rows if any(c is row for c, _, _ in parent.consumers)}
        parts = row.every_part.bit_length()  # whatever refs it held
        members.append(definitions.Member(row.id, {}, deterministic=row.reproducible, parts=parts))
        members.append(definitions.Member(f"after {row.id}", readers))
    shape = definitions.Shape(members)
    facts = definitions.Facts(shape)
    for row in (*rows, *forgotten):
        x = shape.position[row.id]
        bit = 1 << x
        facts.done |= bit * (row.state == "done" and not row.doomed)
        facts.visible |= bit * row.visible
        facts.begun |= bit * row.begun
        facts.wrote |= bit * row.wrote
        facts.empty |= bit * row.is_empty
        end = walks.end_of(row)
        if end is not None:
            facts.given[x] = shape.position[end.id]
        facts.running |= bit * (row.state == "running")
        facts.memory[x] = row.available
        facts.saved[x] = 0 if row.ends is not None else row.saved  # what a graph ends with counts as a whole
        if row.refs is not None:
            facts.refs[x] = dict(enumerate(row.refs.parts, row.node.parts))
    for row in forgotten:
        x = shape.position[f"after {row.id}"]
        facts.done |= 1 << x
        facts.saved[x] = 1
    return facts


def _neighbours(rows: list[Row]) -> set[Row]:
    parents = {parent for row in rows for parent, _ in row.parents}
    return parents | {consumer for row in rows for consumer, _, _ in row.consumers}


def validate(run: State) -> None:
    """Raise AssertionError if anything that the run believes is not so."""
    if slices.is_partial(run) or run.final is not None or run.undoing_all:
        return
    facts = facts_of(run)
    shape = facts.shape
    settled = definitions.settled(facts)
    quiet = definitions.quiet(facts) & facts.visible
    reproducible = definitions.reproducible(facts) & facts.visible
    for row in run.rows.values():
        bit = 1 << shape.position[row.id]
        _same(run, row, "settled", row.settled, bool(settled & bit))
        if not row.doomed:  # what was abandoned, and is in R for that, is repeatable again after a crash
            _same(run, row, "quiet", row.quiet, bool(quiet & bit))
        _same(run, row, "unquiet", row.unquiet, sum(not parent.quiet for parent, _ in row.parents))
        _same(run, row, "unsettled", row.unsettled, sum(not consumer.settled for consumer, _, _ in row.consumers))
        _same(run, row, "uncommitted", row.uncommitted, sum(p.holds_up for p, _ in row.parents))
        if not row.settled and not row.doomed:
            x = shape.position[row.id]
            reads = {shape.members[parent].id: parts for parent, parts in facts.reads(x)}
            _same(run, row, "what it reads", {parent.id: mask for parent, mask in row.parents}, reads)
            _same(run, row, "available", row.available, facts.available(x))
            _same(run, row, "reproducible", row.reproducible, bool(reproducible & bit))
            _same(run, row, "irreproducible", row.irreproducible, sum(not p.reproducible for p, _ in row.parents))
            _same(run, row, "missing", row.missing, sum(not parent.gives(mask) for parent, mask in row.parents))
        if row.state == "running" and row.effect != "none":
            assert row.begun, f"{row.id} runs and has not begun"
        _validate_turn(row)
        held = run.stalled or row.scope.closed or row.queued or row.asking
        if not held and row.state == "waiting" and row.undo is None and not row.zombies:
            waits = row.parents and objects.is_in_use(run, row)  # for an undo that reads what it takes, say
            assert waits or not definitions.may_start(facts, row.id), f"{row.id} may start, but was not started"
    _same(run, None, "running", run.running, sum(row.state == "running" for row in run.rows.values()))
    _same(run, None, "saving", run.saving, sum(row.saving.bit_count() for row in run.rows.values()))
    exposed = [row for row in run.rows.values() if row.effect == "undoable" and row.begun and not row.covered]
    _same(run, None, "exposed", run.exposed, len(exposed))
    for row in run.rows.values():
        assert run.zombies.keys() >= (row.zombies or set()), f"{row.id} remembers attempts that have ended"


def _validate_turn(row: Row) -> None:
    """A running node has its turn; a waiting node has none because those before it are many enough, or because
    one of them is opening."""
    group = row.group
    if group is None:
        return
    is_kept = _has_open_graph(row)
    assert row in group.flying or row.state != "running", f"{row.id} runs, and it is not its turn"
    assert row in group.flying or not _is_to_be_kept(row), f"{row.id} has returned a graph, and has lost its turn"
    has_reason = row.state == "running" or row.asking or is_kept
    assert row not in group.flying or has_reason, f"{row.id} has a turn for nothing"
    if row.queued:
        assert not group.is_open, f"{row.id} waits, and it could be its turn"


def _is_to_be_kept(row: Row) -> bool:
    """Whether its graph has no result yet, and no nodes of the same loop, which would have turns of their own."""
    last = row
    while last.nested is not None:
        if any(inner.group is row.group for inner in last.nested.rows):
            return False
        last = last.nested.sink
    return last is not row and not last.visible


def _has_open_graph(row: Row) -> bool:
    """Whether it returned a graph whose result is not there yet."""
    last = row
    while last.nested is not None:
        last = last.nested.sink
    return last is not row and not last.visible


def _same(run: State, row: Row | None, what: str, kept: object, defined: object) -> None:
    about = "the run" if row is None else row.id
    assert kept == defined, (
        f"{about}: {what} is kept as {kept}, by definition it is {defined}; {list(run.rows.values())}"
    )
