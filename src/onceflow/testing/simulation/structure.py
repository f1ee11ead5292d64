"""The nodes of a run together with its nested graphs, named and connected as design 2.9 says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onceflow.core.definitions import Member, Shape, blocked
from onceflow.core.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a nested graph hangs."""

    expander: str
    prefix: str
    checkpoint: bool


class Structure:
    """A graph with the graphs that its expanders have returned (`graphs`: id of the expander → graph)."""

    def __init__(self, graph: Graph, graphs: Mapping[str, Graph]) -> None:
        self.graph = graph
        self.graphs = dict(graphs)
        self.nodes: dict[str, Node] = {}
        self._members: list[Member] = []
        self.sink = self._add(graph, None)
        self.shape = Shape(self._members)
        self.effectful_ancestors: dict[str, tuple[str, ...]] = {}
        effectful = self.shape.undoable | self.shape.irrevocable
        for x, member in enumerate(self.shape.members):
            self.effectful_ancestors[member.id] = self.shape.names(self.shape.ancestors[x] & effectful)

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
                    node.parts,
                    place.expander if place else None,
                    {readable[node.edges[edge][0]]: parts for edge, parts in node.takes},
                    node.options.writes,
                )
            )
            nested = self.graphs.get(id)
            if nested is None:
                readable.append(id)
            else:
                prefix = next_prefix(place.prefix) if place and index == graph.sink else id
                readable.append(self._add(nested, _Place(id, prefix, checkpoint)))
        return readable[graph.sink]

    def repeatable(self, node: str) -> bool:
        """Running it again cannot be noticed downstream."""
        return self.nodes[node].options.repeatable

    def member(self, node: str) -> Member:
        """The node as the law sees it."""
        return self.shape.members[self.shape.position[node]]

    def accepts(self, expander: str, graph: Graph) -> bool:
        """2.9: may this task return this graph?"""
        if not self.member(expander).checkpoint and any(
            node.options.effect != "none" or node.options.checkpoint for node in graph.nodes
        ):
            return False
        return not blocked(Structure(self.graph, {**self.graphs, expander: graph}).shape)

    def without(self, expanders: set[str]) -> Structure:
        """The structure after these nodes have been dropped: what they returned, and all nested in it, is gone."""
        gone = set(expanders)
        for member in self._members:
            if member.expander in gone:
                gone.add(member.id)
        return Structure(self.graph, {id: graph for id, graph in self.graphs.items() if id not in gone})


def next_prefix(prefix: str) -> str:
    """The prefix of a graph in tail position: `b`, `b~2`, `b~3`, …"""
    base, mark, depth = prefix.rpartition("~")
    return f"{base}~{int(depth) + 1}" if mark and depth.isdigit() else f"{prefix}~2"
