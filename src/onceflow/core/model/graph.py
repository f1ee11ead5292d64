"""Graphs: what a run is made of. Immutable; the nodes stand in topological order.

A graph knows structure, options and a fingerprint of the arguments. What a node calls is opaque here (`Node.call`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import msgspec

from onceflow.core.model.effects import Options
from onceflow.errors import InvalidGraph

Edge = tuple[int, int]
"""(index of the parent, bit mask of the parts that are read). A mask of 0 is a control-only edge (`after=`)."""


class Turn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a node may start among those that belong together, as the parts of a loop do (design 2.10). All nodes of a
    graph that have a turn belong together."""

    order: int
    """Nodes with lower numbers go first."""
    opens: bool = False
    """The node will return a graph with more nodes of its group. Such nodes go one at a time."""
    limit: int = 0
    """How many may be in flight, in the graph with which a group begins. 0: they belong to the group of the node that
    returned the graph."""
    items: int = 0
    """Number of items that the node stands for; shown to users who inspect a loop."""


class Node(msgspec.Struct, frozen=True):
    """One task of a graph. There is one edge per parent: its mask unites all that the node reads of that parent."""

    id: str
    """Unique in the graph, for users: the task's name, or `name_1`, `name_2`, …"""
    task: str
    options: Options
    edges: tuple[Edge, ...] = ()
    parts: int = 1
    takes: tuple[Edge, ...] = ()
    """(number of an edge, mask of the parts): if one of these parts holds an actor, the node takes it for itself
    (`rules.objects`)."""
    fingerprint: str = ""
    """The argument values as far as they can be compared; part of the digest."""
    call: Any = None
    turn: Turn | None = None
    aside: bool = False
    """No path need lead from it to the sink: a fiber that was forked (design 2.11). Only in graphs that tasks
    return."""
    admission: str | None = None
    """If it is not None, the node asks before it starts (design 2.13), and this is the key under which it counts."""

    @property
    def every_part(self) -> int:
        """The mask of all parts."""
        return (1 << self.parts) - 1


class Graph:
    """Nodes in topological order and the sink, whose output is the graph's result. Every other node leads to the
    sink, or to one that is aside."""

    __slots__ = ("__dict__", "nodes", "sink")

    def __init__(self, nodes: Sequence[Node], sink: int | None = None) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.sink: int = len(self.nodes) - 1 if sink is None else sink
        self._validate()

    def _validate(self) -> None:
        if not self.nodes:
            raise InvalidGraph("a graph needs at least one node")
        if not 0 <= self.sink < len(self.nodes):
            raise InvalidGraph(f"the sink {self.sink} is not one of the {len(self.nodes)} nodes")
        consumed = bytearray(len(self.nodes))
        ids = set()
        for index, node in enumerate(self.nodes):
            if node.options.writes and (node.options.effect == "undoable" or not node.options.checkpoint):
                raise InvalidGraph(f"{node.id!r} writes task variables, so it must be saved and cannot be undone")
            if node.id in ids:
                raise InvalidGraph(f"two nodes have the id {node.id!r}")
            ids.add(node.id)
            if node.parts < 1:
                raise InvalidGraph(f"{node.id!r} must have at least one part")
            seen = set()
            for parent, mask in node.edges:
                if not 0 <= parent < index:
                    raise InvalidGraph(f"{node.id!r} reads a node that does not come before it")
                if parent in seen:
                    raise InvalidGraph(f"{node.id!r} has two edges from {self.nodes[parent].id!r}")
                if mask & ~self.nodes[parent].every_part:
                    raise InvalidGraph(f"{node.id!r} reads a part that {self.nodes[parent].id!r} does not have")
                seen.add(parent)
                consumed[parent] = 1
            for edge, mask in node.takes:
                if not 0 <= edge < len(node.edges) or mask & ~node.edges[edge][1]:
                    raise InvalidGraph(f"{node.id!r} takes what it does not read")
        dead = [
            node.id
            for index, node in enumerate(self.nodes)
            if not consumed[index] and index != self.sink and not node.aside
        ]
        for index, node in enumerate(self.nodes):
            if node.aside and index == self.sink:
                raise InvalidGraph(f"{node.id!r} is the sink, so it cannot stand aside of it")
            if node.aside and not node.options.checkpoint:
                raise InvalidGraph(f"{node.id!r} stands aside of the sink, so it must be saved")
            if node.aside and (node.options.effect != "none" or node.options.writes):
                raise InvalidGraph(
                    f"{node.id!r} stands aside of the sink, so it can neither have an effect nor write variables. "
                    "Let it read another task, which may."
                )
        if dead:
            raise InvalidGraph(f"nothing leads from {', '.join(map(repr, dead))} to the sink")
        if consumed[self.sink]:
            raise InvalidGraph(f"the sink {self.nodes[self.sink].id!r} is read by another node")

    @cached_property
    def index(self) -> dict[str, int]:
        """Node id → position."""
        return {node.id: position for position, node in enumerate(self.nodes)}

    @cached_property
    def digest(self) -> str:
        """Equal for graphs that are the same to a user: structure, task names, options, comparable arguments; not
        code."""
        seen = hashlib.blake2b(digest_size=16)
        for node in self.nodes:
            options = msgspec.structs.replace(node.options, guards=False) if node.options.guards else node.options
            told = (node.id, node.task, options, pack(node.edges), node.parts, node.fingerprint)
            seen.update(msgspec.msgpack.encode((*told, pack(node.takes)) if node.takes else told))
        seen.update(str(self.sink).encode())
        return seen.hexdigest()

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the positions of those that have an edge from it."""
        consumers: list[list[int]] = [[] for _ in self.nodes]
        for position, node in enumerate(self.nodes):
            for parent, _ in node.edges:
                consumers[parent].append(position)
        return tuple(map(tuple, consumers))

    def with_checkpoints(self, ids: set[str]) -> Self:
        """The same graph with `checkpoint=True` on these nodes."""
        graph = type(self)(
            [
                msgspec.structs.replace(n, options=msgspec.structs.replace(n.options, checkpoint=True))
                if n.id in ids
                else n
                for n in self.nodes
            ],
            self.sink,
        )
        for name, value in vars(self).items():
            if not isinstance(getattr(type(self), name, None), cached_property):  # those were derived from the nodes
                setattr(graph, name, value)
        return graph

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} nodes, sink {self.nodes[self.sink].id!r}>"


def pack(edges: tuple[Edge, ...]) -> Sequence[tuple[int, int | str]]:
    """The same edges for msgpack, whose integers have 64 bits: a wider mask (of a task with more parts) as text."""
    if all(mask < _WIDE for _, mask in edges):
        return edges
    return [(parent, narrow(mask)) for parent, mask in edges]


def unpack(edges: Sequence[tuple[int, int | str]]) -> tuple[Edge, ...]:
    """What was packed."""
    return tuple([(parent, widen(mask)) for parent, mask in edges])


def narrow(mask: int) -> int | str:
    """A mask for msgpack."""
    return mask if mask < _WIDE else hex(mask)


def widen(mask: int | str) -> int:
    """The mask that was narrowed."""
    return int(mask, 16) if isinstance(mask, str) else mask


_WIDE = 1 << 63


def number_ids(names: Sequence[str]) -> list[str]:
    """Stable human ids for tasks in topological order: `name`, `name_1`, `name_2`, …; never two alike."""
    taken = set(names)
    counts: dict[str, int] = {}
    ids: list[str] = []
    for name in names:
        count = counts.get(name, 0)
        candidate = name if count == 0 else f"{name}_{count}"
        while count and candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        counts[name] = count + 1
        taken.add(candidate)
        ids.append(candidate)
    return ids
