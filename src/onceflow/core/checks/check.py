"""The check before a run (design 2.4), and of a nested graph when it appears (2.9).

A dry run of the law itself: with nothing done, let every task that may start be done, and saved at once if it has
`checkpoint=True`; repeat. The graph is safe if everything gets done. The dry run is the real state machine, fed with
the best of all possible events. An output that another node takes is assumed to be an actor (`objects`), and nodes that
stand aside in a graph to be joined before the graph has its result, as fibers do (2.11).
"""

from __future__ import annotations

from collections.abc import Collection
from graphlib import TopologicalSorter

import msgspec

from onceflow.core.model import commands, walks
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Edge, Graph, Node
from onceflow.core.model.refs import RefPart
from onceflow.core.model.rows import Row
from onceflow.core.rules import outputs, settling, slices, starting, state
from onceflow.core.rules.state import State
from onceflow.errors import InvalidGraph, OnceflowError, UnsafeGraph

Read = tuple[str, int]
"""(id of the parent, mask), as in `graph.Edge`."""

JOIN = "(join)"
"""Waits in a dry run until what stands aside is settled."""


class DryRun(State):
    """Runs a graph to where it gets if nothing ever fails. `saved`: tasks to be saved beyond what their options say;
    `settled`: tasks that lie behind us."""

    saved: Collection[str] = ()
    settled: Collection[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for id in self.saved:
            self.rows[id].checkpoint = True
        for id in self.settled:
            row = self.rows[id]
            row.effect = "none"
            if row.writes:
                row.writes = False
                starting.show_writes(self, row)
            row.checkpoint = True
        self.ready.extend(row for row in self.rows.values() if row.missing == 0)
        _play(self)

    @property
    def blocked(self) -> list[Row]:
        """Tasks that have all they read and still may not start, in topological order; also those that find an actor
        taken. Those that only wait for a reader are left out, unless they wait for each other."""
        waiting = [row for row in self.rows.values() if row.state == "waiting"]
        found = [row for row in waiting if (row.missing == 0 or taken_from(row)) and row not in self.takers]
        return found or [row for row in waiting if row in self.takers]

    def is_done(self, id: str) -> bool:
        return id not in self.rows or self.rows[id].state == "done"


def _play(dry: DryRun) -> None:
    while True:
        settling.work_off_marks(dry)
        settling.retire_rows(dry)
        starting.start_ready(dry)
        starting.start_admitted(dry)
        starting.start_takers(dry)
        _make_again(dry)
        pending, dry.decided = dry.decided, []
        if not pending:
            return
        for command in pending:
            match command:
                case commands.Ask(node):  # everything is admitted sooner or later
                    starting.answer_to(dry, dry.rows[node])
                case commands.Start(node):
                    row = dry.rows[node]
                    outputs.become_done(dry, row, graph=None, small=False, refs=actors_taken(row))
                    pending += dry.decided
                    dry.decided = []
                case commands.Save(node, part):
                    outputs.become_saved(dry, dry.rows[node], part)


def _make_again(dry: DryRun) -> None:
    """What was taken from a row that is reproducible runs again for the rows that need it; no other row is affected."""
    for row in dry.suspects:
        if row.reproducible:
            outputs.gain(dry, row, row.every_part, first_time=False)
    dry.suspects.clear()


def check(graph: Graph) -> None:
    """Raise `UnsafeGraph` if some task of the graph could never start."""
    error = _find_problem(graph)
    if error is not None:
        raise error


def _find_problem(graph: Graph, prefix: str = "") -> UnsafeGraph | None:
    if is_plainly_safe(graph):
        return None
    played = with_join(graph)
    dry = DryRun(played)
    return describe(played, dry, prefix) if dry.blocked else None


def is_plainly_safe(graph: Graph) -> bool:
    """Whether one look at each task is enough to know that the dry run would end well.

    If nothing has an effect and nothing is joined, nothing ever waits. If every task is saved or repeatable, then the
    tasks that are not repeatable settle one after the other as they are saved, so everything becomes quiet, and all is
    reproducible.
    """
    options = [node.options for node in graph.nodes]
    if any(node.takes for node in graph.nodes) and not all(o.checkpoint for o in options):
        return False
    effortless = [o.effect == "none" and not (o.writes or n.aside) for o, n in zip(options, graph.nodes, strict=True)]
    return all(o.checkpoint or o.repeatable for o in options) or all(effortless)


def with_join(graph: Graph) -> Graph:
    """The graph with a node before its sink that waits for what stands aside, if anything does."""
    aside = [node.id for node in graph.nodes if node.aside]
    if not aside:
        return graph
    nodes = {node.id: node for node in graph.nodes}
    reads = {node.id: [(graph.nodes[parent].id, mask) for parent, mask in node.edges] for node in graph.nodes}
    sink = graph.nodes[graph.sink].id
    return _assemble(nodes, reads, {sink: aside}, sink)


def _assemble(nodes: dict[str, Node], reads: dict[str, list[Read]], joins: dict[str, list[str]], sink: str) -> Graph:
    """A graph of nodes and what they read. Those that give results have to wait until what stands aside (`joins`) is
    quiet: for that there are nodes of their own."""
    for result, aside in joins.items():
        join = f"{result} {JOIN}"
        nodes[join] = Node(id=join, task=JOIN, options=Options(effect="irrevocable"))
        reads[join] = [(child, 0) for child in aside]
        reads[result].append((join, 0))
    order = TopologicalSorter({id: [parent for parent, _ in reads[id]] for id in nodes}).static_order()
    position = {id: place for place, id in enumerate(order)}
    made = [
        msgspec.structs.replace(nodes[id], id=id, edges=tuple([(position[parent], mask) for parent, mask in reads[id]]))
        for id in position
    ]
    return Graph(made, position[sink])


def describe(graph: Graph, dry: DryRun, prefix: str = "") -> UnsafeGraph:
    """The error that tells a user what is wrong and what would help."""
    from onceflow.core.checks.proposals import propose

    paths = {row.id: _path_to(row) for row in dry.blocked}
    blocked = list(paths)
    proposals = propose(graph, {id: [row.id for row in path] for id, path in paths.items()})
    return UnsafeGraph(
        tuple(prefix + id for id in blocked),
        {prefix + id: draw(path, prefix) for id, path in paths.items()},
        {prefix + id: tuple(prefix + name for name in proposals[id].nodes) for id in blocked},
        {prefix + id: tuple(prefix + name for name in proposals[id].instead) for id in blocked},
        {prefix + id: proposals[id].smallest for id in blocked},
    )


def draw(path: list[Row], prefix: str = "") -> str:
    """The path from what may still change to the task that must not start before it cannot, and why it may change."""
    source, blocked = path[0], path[-1]
    if taker := _taker_before(blocked):
        return _draw_taken(source, blocked, taker, prefix)
    origin, task = f"{prefix}{source.id}", f"{prefix}{blocked.id}"
    kind = "has an effect that an undo takes back" if source.effect == "undoable" else "is nondeterministic"
    lines = [" ──▶ ".join(f"{prefix}{row.id}" for row in path), f"{origin} {kind}, and is not saved."]
    if blocked.effect == "undoable":
        lines.append(f"{task} must be undone with the inputs it was run with, and those could not be made again.")
    else:
        if blocked.node.task == JOIN:
            forked = f"{prefix}{path[-2].id}"
            lines.append(f"{forked} was forked, and cannot be joined while {origin} might have to run again.")
        else:
            lines.append(f"{task} cannot be taken back, so it must not start while {origin} might have to run again.")
        waiting = [
            f"{prefix}{consumer.id}"
            for consumer, _, _ in source.consumers
            if consumer.state != "done" and consumer not in path
        ]
        if waiting:
            readers = f"{', '.join(waiting)} {'reads' if len(waiting) == 1 else 'read'}"
            lines.append(f"{readers} {origin} too, and would still be waiting.")
    return "\n".join(f"  {line}" for line in lines)


def _path_to(blocked: Row) -> list[Row]:
    """From the nearest unsaved ancestor that is not repeatable and keeps the task waiting."""
    if source := taken_from(blocked) or _waits_to_take(blocked):
        return [source, blocked]
    undoable = blocked.effect == "undoable"
    came_from: dict[Row, Row] = {}
    queue = [blocked]
    for row in queue:
        for parent, _ in row.parents:
            if parent in came_from or (parent.reproducible if undoable else parent.quiet):
                continue
            came_from[parent] = row
            queue.append(parent)
            if not parent.repeatable and not parent.fully_saved:
                path = [parent]
                while path[-1] is not blocked:
                    path.append(came_from[path[-1]])
                return path
    raise AssertionError(f"nothing keeps {blocked.id} from starting")


def actors_taken(row: Row) -> tuple[RefPart, ...]:
    """An actor for each part of its output that another row takes."""
    taken = 0
    for consumer, _, position in row.consumers:
        for edge, mask in consumer.node.takes:
            if edge == position:
                taken |= mask
    return tuple([RefPart(1 << part, actor=True) for part in range(taken.bit_length()) if taken >> part & 1])


def taken_from(row: Row) -> Row | None:
    """The rows that made what this row should read and another row has taken."""
    for parent, mask in row.parents:
        if parent.state == "done" and mask & ~parent.available:
            return parent
    return None


def _waits_to_take(row: Row) -> Row | None:
    """The rows that made what this row is to take and another row has yet to read."""
    if row.missing:
        return None
    for parent, part in walks.taken_by(row):
        if not parent.checkpoint and any(reader.state == "waiting" for reader in walks.readers_of(parent, part)):
            return parent
    return None


def _taker_before(row: Row) -> Row | None:
    """Another row that takes the same version, or has to wait because this one reads it."""
    source = taken_from(row) or _waits_to_take(row)
    if source is None:
        return None
    for consumer, _, position in source.consumers:
        if consumer is not row and any(edge == position for edge, _ in consumer.node.takes):
            return consumer
    return next(consumer for consumer, _, _ in source.consumers if consumer is not row)


def _draw_taken(source: Row, blocked: Row, other: Row, prefix: str) -> str:
    origin, task, taker = f"{prefix}{source.id}", f"{prefix}{blocked.id}", f"{prefix}{other.id}"
    lines = [
        f"{origin} ──▶ {task}",
        f"{origin} ──▶ {taker}",
        f"{origin} is not saved, so an actor that it returns can be taken by one task, after all others have read it.",
        f"{task} and {taker} stand in each other's way: one of them would find it changed by the other.",
    ]
    return "\n".join(f"  {line}" for line in lines)


def find_misfit(expander: Row, graph: Graph) -> OnceflowError | None:
    """What forbids this graph as the output of this row, whatever else has to start in the run?"""
    sink = graph.nodes[graph.sink]
    if sink.parts != expander.node.parts:
        return InvalidGraph(
            f"{expander.id!r} has {expander.node.parts} outputs, but the graph that it returned has {sink.parts} "
            f"(those of its sink {sink.id!r})"
        )
    if expander.node.aside:
        return InvalidGraph(
            f"{expander.id!r} stands aside of the graph that it is in, so it cannot return a graph. Let it read "
            "another task, which may."
        )
    read = [node for index, node in enumerate(graph.nodes) if node.aside and graph.consumers[index]]
    if read:
        return InvalidGraph(
            f"{read[0].id!r} stands aside in the graph that {expander.id!r} returned, so nothing in that graph can "
            "read it. Let a task join it."
        )
    shared = _find_shared_by_turns(expander, graph)
    if shared is not None:
        return InvalidGraph(
            f"{shared.id!r} is not saved, may change if it runs again because of the graph that {expander.id!r} "
            "returned, and is read by several tasks, while some tasks of its graph take turns: one that is in flight "
            f"might wait for another one that has no turn. Save {shared.id!r}."
        )
    if not expander.checkpoint:
        kept = [n.id for n in graph.nodes if n.options.effect != "none" or n.options.checkpoint]
        if kept:
            return InvalidGraph(
                f"{expander.id!r} is not saved (checkpoint=False), so the graph that it returns may contain only tasks "
                f"without effect and with checkpoint=False; these are not: {', '.join(kept)}. Save {expander.id!r}."
            )
    return _find_forked_in_transaction(expander, graph)


def _find_shared_by_turns(expander: Row, graph: Graph) -> Node | None:
    """What could be settled only after others have had their turn (2.10): something in flight may wait for that. What
    may change and is read by one task only is settled with that task. If the result of this graph may change, so may
    what reads it in the graph around."""
    if expander.checkpoint and all(node.turn is None for node in graph.nodes):
        return None
    changing: set[int] = set()
    while True:
        takes_turns = any(node.turn is not None for node in graph.nodes)
        for index, node in enumerate(graph.nodes):
            options = node.options
            inherits = any(parent in changing for parent, _ in node.edges)
            if index in changing or (not options.checkpoint and (inherits or not options.repeatable)):
                changing.add(index)
                if takes_turns and len(graph.consumers[index]) > 1:
                    return node
        if expander.expander is None or expander.checkpoint or graph.sink not in changing:
            return None
        outer = expander.expander.nested
        assert outer is not None
        graph, changing = outer.graph, {outer.rows.index(expander)}
        expander = expander.expander


def find_nested_problem(run: State, expander: Row, graph: Graph) -> OnceflowError | None:
    """What forbids this graph as the output of this row?"""
    misfit = find_misfit(expander, graph)
    if misfit is not None:
        return misfit
    if expander.checkpoint and expander.unquiet == 0:
        # It is settled once it is saved, whatever happens below: the nested graph stands for itself.
        return _find_problem(graph, f"{expander.id}/")
    if expander.repeatable and all(_keeps_nobody_waiting(node) for node in graph.nodes):
        return None
    whole = _with_nested(run, expander, graph)
    behind_us = [
        row.id for row in run.rows.values() if (row.settled or row.foreign or row.scope.over) and row.id in whole.index
    ]
    dry = DryRun(whole, settled=behind_us)
    return describe(whole, dry) if dry.blocked else None


def _find_forked_in_transaction(expander: Row, graph: Graph) -> OnceflowError | None:
    """Nothing stands aside in a transaction (2.11): what is settled in one may be taken back with it."""
    scope = expander.scope
    around = expander if expander.node.options.transaction else scope.group
    forked = [node.id for node in graph.nodes if node.aside]
    if around is None or not forked:
        return None
    transaction = around.id if isinstance(around, Row) else around.expander
    return InvalidGraph(
        f"{expander.id!r} forks {forked[0]!r} in the transaction {transaction!r}, which may be taken back while others "
        "have joined it. Await it there (several at once with `gather`), or fork it outside of the transaction."
    )


def _keeps_nobody_waiting(node: Node) -> bool:
    """Whether this node can stand in the place of a repeatable task, and every row that waits for it would also wait
    for that task."""
    options = node.options
    return options.repeatable and options.effect == "none" and not (options.writes or node.takes or node.aside)


def _with_nested(run: State, expander: Row, graph: Graph) -> Graph:
    """What is left of the run as one graph, with the nested one in its place."""
    nodes: dict[str, Node] = {}
    reads: dict[str, list[Read]] = {}

    def add(
        node: Node,
        id: str,
        parents: list[Read],
        checkpoint: bool,
        takes: tuple[Edge, ...],
        aside: bool,
        trusted: bool = True,
    ) -> None:
        deterministic = trusted and node.options.deterministic
        options = msgspec.structs.replace(node.options, checkpoint=checkpoint, deterministic=deterministic)
        nodes[id] = msgspec.structs.replace(node, id=id, options=options, takes=takes, aside=aside)
        reads[id] = parents

    inner = [f"{expander.id}/{node.id}" for node in graph.nodes]
    result = {expander.id: inner[graph.sink]}
    ends = slices.ends(run)
    aside = state.ends_aside(run)
    for row in {**dict.fromkeys([*ends, *aside]), **walks.reach([*ends, *aside], _known_parents)}:
        left_of = [edge for edge, (p, _) in enumerate(row.parents) if not p.retired]
        parents = [(result.get(p.id, p.id), _as_read(p, mask)) for p, mask in row.parents if not p.retired]
        takes = tuple([(left_of.index(edge), mask) for edge, mask in row.node.takes if edge in left_of])
        saved = row.checkpoint or row.writes  # also of what has ended
        trusted = row.repeatable or outputs.is_edited(run, row)  # else a crash took a graph of it, say (2.9)
        add(row.node, row.id, parents, saved, takes, row in aside, trusted)
    for index, node in enumerate(graph.nodes):
        parents = [*[(inner[parent], mask) for parent, mask in node.edges], (expander.id, 1)]
        checkpoint = node.options.checkpoint or (index == graph.sink and expander.checkpoint)
        add(node, inner[index], parents, checkpoint, node.takes, node.aside)
    joins: dict[str, list[str]] = {}
    for row in aside:
        last = _result_of(row)
        if not last.visible:
            joins.setdefault(result.get(last.id, last.id), []).append(row.id)
    for index, node in enumerate(graph.nodes):
        if node.aside:
            joins.setdefault(inner[graph.sink], []).append(inner[index])
    last_of_all = [result.get(row.id, row.id) for row in ends]
    is_read = any(parent == last_of_all[0] for parents in reads.values() for parent, _ in parents)
    if len(ends) == 1 and not is_read:  # else something that was abandoned has joined it
        return _assemble(nodes, reads, joins, last_of_all[0])
    end = Node(id="", task="", options=Options(effect="none"))
    add(end, "the end", [(id, 0) for id in last_of_all], True, (), False)
    return _assemble(nodes, reads, joins, "the end")


def _as_read(parent: Row, mask: int) -> int:
    """What of its values is read. An effectful task that was done, and of which the journal has nothing although others
    only wait for it, has returned a graph that a crash took: that was read, and no *done* record will come."""
    if mask or parent.effect == "none" or parent.checkpoint or parent.saved or parent.state != "done":
        return mask & parent.node.every_part
    return int(parent.nested is None and not any(read for _, read, _ in parent.consumers))


def _result_of(aside: Row) -> Row:
    """The rows that give the result of the graph that this one stands aside in."""
    assert aside.expander is not None
    row = aside.expander
    while row.nested is not None:
        row = row.nested.sink
    return row


def _known_parents(row: Row) -> list[Row]:
    return [parent for parent, _ in row.parents if not parent.retired]
