"""The nodes of a run together with its nested graphs, named and connected as design 2.9 says."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from onceflow.core.checks.definitions import Member, Shape, blocked
from onceflow.core.model.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a nested graph hangs."""

    expander: str
    prefix: str
    checkpoint: bool


class Structure:
    """A graph with the graphs that its expanders have returned (`graphs`: id of the expander → graph). `handled` are
    the nodes whose output a handler made (2.8): they are nondeterministic and saved, and so are the graphs they are
    in. `joins` are the nodes that have joined others, which stand aside (2.11)."""

    def __init__(
        self,
        graph: Graph,
        graphs: Mapping[str, Graph],
        handled: Iterable[str] = (),
        ended: Mapping[str, str] | None = None,
        joins: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.graph = graph
        self.graphs = dict(graphs)
        self.handled = frozenset(handled)
        self.ended = dict(ended or {})
        """Sink → expander of the graphs that ended before they were done."""
        self.joins = dict(joins or {})
        self.aside: set[str] = set()
        """What stands aside."""
        self.nodes: dict[str, Node] = {}
        self._results: dict[str, str] = {}
        self._members: list[Member] = []
        self.sink = self._add(graph, None)
        if self.handled:
            self._note_handled()
        if self.ended:
            self._note_ended()
        if self.joins:
            self._note_joins()
        self.shape = Shape(self._members)
        self.over: frozenset[str] = frozenset().union(*[self.inside(expander) for expander in self.ended.values()])
        """What is in graphs that have ended."""

    def _add(self, graph: Graph, place: _Place | None) -> str:
        """Adds a graph and what is nested in it. Returns the id of the node that has its result."""
        readable: list[str] = []
        for index, node in enumerate(graph.nodes):
            id = node.id if place is None else f"{place.prefix}/{node.id}"
            parents = {readable[parent]: parts for parent, parts in node.edges}
            checkpoint = node.options.checkpoint
            if index == graph.sink:
                checkpoint = True if place is None else place.checkpoint
            if place is not None:
                parents[place.expander] = 1
            self.nodes[id] = node
            self._members.append(
                Member(
                    id,
                    parents,
                    node.options.effect,
                    node.options.deterministic,
                    checkpoint,
                    1 if id in self.graphs else node.parts,  # what it returned is the graph
                    place.expander if place else None,
                    {readable[node.edges[edge][0]]: parts for edge, parts in node.takes},
                    node.options.writes,
                    forks=id in self.graphs and any(inner.aside for inner in self.graphs[id].nodes),
                )
            )
            nested = self.graphs.get(id)
            if nested is None:
                readable.append(id)
            else:
                prefix = next_prefix(place.prefix) if place and index == graph.sink else id
                self._results[id] = self._add(nested, _Place(id, prefix, checkpoint))
                readable.append(self._results[id])
            if node.aside:
                self.aside.add(id)
        return readable[graph.sink]

    def _note_handled(self) -> None:
        expanders = {member.id: member.expander for member in self._members}
        saved = set(self.handled)
        for node in self.handled:
            expander = expanders[node]
            while expander is not None:
                saved.add(expander)
                expander = expanders[expander]
        self._members = [
            replace(
                member,
                deterministic=member.deterministic and member.id not in self.handled,
                checkpoint=member.checkpoint or member.id in saved,
            )
            for member in self._members
        ]

    def _note_ended(self) -> None:
        """2.8: nobody reads any more what is in there, so nothing of it has to be saved."""
        over = {
            node for sink, expander in self.ended.items() if sink in self.nodes for node in self.inside(expander)
        } - self.ended.keys()
        self._members = [replace(member, checkpoint=False) if member.id in over else member for member in self._members]

    def _note_joins(self) -> None:
        """2.11: what was joined is above those that joined it."""
        self._members = [
            replace(member, parents={**dict.fromkeys(joined, 0), **member.parents}, joins=True)
            if (joined := [child for child in self.joins.get(member.id, ()) if child in self.nodes])
            else member
            for member in self._members
        ]

    def inside(self, expander: str) -> set[str]:
        """The nodes of the graph that this one returned, and of all nested in it; all, if it is empty."""
        if not expander:
            return set(self.nodes)
        found: set[str] = set()
        for member in self._members:
            if member.expander == expander or member.expander in found:
                found.add(member.id)
        return found

    def ended_by(self, ended: Mapping[str, str]) -> dict[str, str]:
        """The nodes in graphs that have ended → the sink with which the innermost of these did."""
        graphs = sorted([(self.inside(expander), sink) for sink, expander in ended.items()], key=lambda it: -len(it[0]))
        return {node: sink for inside, sink in graphs for node in inside}

    def expanders_around(self, node: str) -> list[str]:
        """The tasks that have returned the graphs that a node is in, from inside outwards."""
        found: list[str] = []
        expander = self.member(node).expander
        while expander is not None:
            found.append(expander)
            expander = self.member(expander).expander
        return found

    def result_of(self, expander: str) -> str:
        """The node that has the result of the graph that this one returned."""
        return self._results[expander]

    def sink_of(self, expander: str) -> str:
        """The sink of the graph that this one returned, whatever that returned."""
        graph = self.graphs[expander]
        ids = [member.id for member in self._members if member.expander == expander]
        return ids[graph.sink]

    def repeatable(self, node: str) -> bool:
        """Running it again cannot be noticed downstream."""
        return self.nodes[node].options.repeatable

    def effectful_ancestors(self, node: str) -> tuple[str, ...]:
        """What stands above this node and has an effect."""
        shape = self.shape
        return shape.names(shape.ancestors[shape.position[node]] & (shape.undoable | shape.irrevocable))

    def member(self, node: str) -> Member:
        """The node as the law sees it."""
        return self.shape.members[self.shape.position[node]]

    def accepts(self, expander: str, graph: Graph, done: Container[str], handled: Iterable[str]) -> bool:
        """2.9, 2.11: may this task return this graph? `done` are the nodes that have an output, `handled` those whose
        output a handler made, and that are saved therefore."""
        if self.nodes[expander].aside:
            return False
        if not self.member(expander).checkpoint and any(
            node.options.effect != "none" or node.options.checkpoint for node in graph.nodes
        ):
            return False
        if any(node.aside and graph.consumers[x] for x, node in enumerate(graph.nodes)):
            return False
        around = [expander, *self.expanders_around(expander)]
        if any(node.aside for node in graph.nodes) and any(self.nodes[id].options.transaction for id in around):
            return False
        if self._is_shared_by_turns(expander, graph):
            return False
        whole = structure_of(self.graph, {**self.graphs, expander: graph}, handled, joins=self.joins)
        return not blocked(whole._with_joins(done))

    def _is_shared_by_turns(self, expander: str | None, graph: Graph) -> bool:
        """2.10: whether some nodes take turns, and something that may change and is not saved is read by several, in
        this graph or in one around it whose nodes may change because this one's result may."""
        above: int | None = None
        while True:
            changing: dict[int, bool] = {}
            for x, node in enumerate(graph.nodes):
                inherits = any(changing[parent] for parent, _ in node.edges)
                changes = inherits or not node.options.repeatable
                changing[x] = x == above or (changes and not node.options.checkpoint)
            takes_turns = any(node.turn is not None for node in graph.nodes)
            if takes_turns and any(changes and len(graph.consumers[x]) > 1 for x, changes in changing.items()):
                return True
            around = None if expander is None else self.member(expander).expander
            if expander is None or around is None or self.member(expander).checkpoint or not changing[graph.sink]:
                return False
            siblings = [member.id for member in self._members if member.expander == around]
            expander, graph, above = around, self.graphs[around], siblings.index(expander)

    def is_safe(self, done: Container[str]) -> bool:
        """2.4: could everything get done, from the beginning, if no handler gave anything?"""
        declared = structure_of(self.graph, self.graphs, joins=self.joins)
        return not blocked(declared._with_joins(done))

    def _with_joins(self, done: Container[str]) -> Shape:
        """2.4: what stands aside in a graph is joined when it is settled, and before the graph has its result."""
        if not self.aside:
            return self.shape
        members = {member.id: member for member in self._members}
        for expander, result in self._results.items():
            aside = [member.id for member in self._members if member.expander == expander and member.id in self.aside]
            if aside and result not in done:
                join = Member(f"{expander} (join)", dict.fromkeys(aside, 0), "irrevocable", checkpoint=True)
                members[join.id] = join
                members[result] = replace(members[result], parents={**members[result].parents, join.id: 0})
        return Shape(members.values())

    def without(self, expanders: set[str]) -> Structure:
        """The structure after these nodes have been dropped: what they returned, and all nested in it, is gone."""
        gone = set(expanders)
        for member in self._members:
            if member.expander in gone:
                gone.add(member.id)
        return structure_of(
            self.graph,
            {id: graph for id, graph in self.graphs.items() if id not in gone},
            self.handled - gone,
            {sink: expander for sink, expander in self.ended.items() if sink not in gone},
            {node: joined for node, joined in self.joins.items() if node not in gone},
        )

    def with_handled(
        self, handled: Iterable[str], ended: Mapping[str, str], joins: Mapping[str, tuple[str, ...]]
    ) -> Structure:
        """The same nodes, of which others have been handled, or have joined others."""
        return structure_of(self.graph, self.graphs, handled, ended, joins)


def structure_of(
    graph: Graph,
    graphs: Mapping[str, Graph],
    handled: Iterable[str] = (),
    ended: Mapping[str, str] | None = None,
    joins: Mapping[str, tuple[str, ...]] | None = None,
) -> Structure:
    """A `Structure`, which nobody changes. The latest ones are kept: a schedule comes back to the same few."""
    return _build(
        graph,
        frozenset(graphs.items()),
        frozenset(handled),
        frozenset(ended.items()) if ended else _NOTHING,
        frozenset(joins.items()) if joins else _NOTHING,
    )


_NOTHING: frozenset[tuple[str, Any]] = frozenset()


@lru_cache(maxsize=64)
def _build(
    graph: Graph,
    graphs: frozenset[tuple[str, Graph]],
    handled: frozenset[str],
    ended: frozenset[tuple[str, str]],
    joins: frozenset[tuple[str, tuple[str, ...]]],
) -> Structure:
    return Structure(graph, dict(graphs), handled, dict(ended), dict(joins))


def next_prefix(prefix: str) -> str:
    """The prefix of a graph in tail position: `b`, `b~2`, `b~3`, …"""
    base, mark, depth = prefix.rpartition("~")
    return f"{base}~{int(depth) + 1}" if mark and depth.isdigit() else f"{prefix}~2"
