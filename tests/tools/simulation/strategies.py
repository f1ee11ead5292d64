"""Hypothesis strategies: graphs that shrink to few nodes with dull options, and schedules that shrink to few steps.

`schedules()` gives a source of choices for `Simulation`; a violation found with it comes with the smallest graph and
the shortest story that hypothesis could find.
"""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from onceflow.core.model.effects import Effect, Options
from onceflow.core.model.graph import Edge, Graph, Node
from tests.tools.simulation.scenarios import make_safe

EFFECTS: tuple[Effect, ...] = ("none", "undoable", "irrevocable")


def schedules() -> st.SearchStrategy[Random]:
    """A source of choices that hypothesis controls."""
    return st.randoms(use_true_random=False)


@st.composite
def graphs(draw: st.DrawFn, largest: int = 6, depth: int = 0, plain: bool = False) -> Graph:
    """A safe graph. `plain`: only tasks without effect that are not saved. The last node reads all that is unread."""
    size = draw(st.integers(1 if depth else 2, largest))
    nodes: list[Node] = []
    unread: set[int] = set()
    for position in range(size):
        last = position == size - 1
        parents = set(unread) if last else draw(_parents(position))
        unread = (unread - parents) | {position}
        edges = tuple(draw(_edges(nodes, parent)) for parent in sorted(parents))
        nodes.append(draw(_nodes(position, edges, depth, plain, last)))
    graph = Graph(nodes)
    return graph if plain else make_safe(graph)


def _parents(position: int) -> st.SearchStrategy[set[int]]:
    if position == 0:
        return st.just(set())
    return st.sets(st.integers(0, position - 1), max_size=3)


def _edges(nodes: list[Node], parent: int) -> st.SearchStrategy[Edge]:
    every = nodes[parent].every_part
    return st.sampled_from(sorted({every, 1, 0}, reverse=True)).map(lambda parts: (parent, parts))


@st.composite
def _nodes(draw: st.DrawFn, position: int, edges: tuple[Edge, ...], depth: int, plain: bool, last: bool) -> Node:
    effect: Effect = "none" if plain else draw(st.sampled_from(EFFECTS))
    writes = not plain and effect != "undoable" and draw(st.sampled_from((False, False, False, True)))
    options = Options(
        checkpoint=writes or (not plain and draw(st.booleans())),
        deterministic=draw(st.booleans()),
        effect=effect,
        retries=draw(st.integers(0, 1)),
        writes=writes,
    )
    expands = depth < 2 and draw(st.sampled_from((False, False, False, False, True)))
    alternatives = None
    if expands:
        unsaved = not options.checkpoint and not (last and depth == 0)
        nested = graphs(largest=3, depth=depth + 1, plain=plain or unsaved)
        alternatives = tuple(draw(st.lists(st.none() | nested, min_size=1, max_size=2)))
    name = "abcdefghijkl"[position]
    parts = 1 if expands or last else draw(st.sampled_from((1, 1, 2)))
    return Node(id=name, task=name, options=options, edges=edges, parts=parts, call=alternatives)
