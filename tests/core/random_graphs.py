"""Random small graphs that favour shared consumers, for tests that compare with a definition."""

from __future__ import annotations

import random

from onceflow.core.checks.definitions import Member, Shape
from onceflow.core.model.graph import Graph
from tests.core.building import graph

KINDS = ["pure", "loose", "loose", "kept", "undoable", "undoable,unsaved", "undoable,deterministic,unsaved"]
KINDS += ["default", "default,unsaved", "default,deterministic,unsaved", "kept,deterministic"]
KINDS += ["writer", "writer,deterministic", "default,writing"]


def random_graph(source: random.Random, nodes: int) -> Graph:
    """Every node reads up to three of the earlier ones; a last one gathers what nobody read."""
    lines: list[str] = []
    unread: set[str] = set()
    for position in range(nodes - 1):
        parents = source.sample(range(position), min(position, source.choice([0, 1, 1, 2, 2, 3])))
        reads = [source.choice(["", "", "", "after:"]) + f"t{parent}" for parent in parents]
        unread -= {f"t{parent}" for parent in parents}
        unread.add(f"t{position}")
        lines.append(f"t{position} {source.choice(KINDS)} {' '.join(reads)}")
    lines.append(f"z {source.choice(KINDS)} {' '.join(sorted(unread))}")
    return graph("; ".join(lines))


def shape_of(whole: Graph, saved: frozenset[str] = frozenset()) -> Shape:
    """The graph as the definitions know it, with these tasks saved as well; its result always is."""
    return Shape(
        Member(
            node.id,
            {whole.nodes[parent].id: mask for parent, mask in node.edges},
            node.options.effect,
            node.options.deterministic,
            node.options.checkpoint or node.id in saved or position == whole.sink,
            node.parts,
            takes={whole.nodes[node.edges[edge][0]].id: mask for edge, mask in node.takes},
            writes=node.options.writes,
        )
        for position, node in enumerate(whole.nodes)
    )
