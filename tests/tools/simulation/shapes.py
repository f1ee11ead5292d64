"""The five shapes of design 2.3 on which weaker rules than ours fail, as graphs. Random graphs rarely hit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onceflow.core.model.effects import Effect, Options
from onceflow.core.model.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph, the task that must wait, and what it must wait for although a weaker rule would let it start."""

    graph: Graph
    waiting: str
    until: str


def node(
    id: str,
    *parents: str,
    effect: Effect = "none",
    deterministic: bool = False,
    checkpoint: bool = False,
    after: tuple[str, ...] = (),
) -> tuple[Node, Mapping[str, int]]:
    """A node and what it reads; `graph` turns the names into edges."""
    options = Options(checkpoint=checkpoint, deterministic=deterministic, effect=effect, retries=1)
    return Node(id=id, task=id, options=options), {**dict.fromkeys(after, 0), **dict.fromkeys(parents, 1)}


def graph(*nodes: tuple[Node, Mapping[str, int]]) -> Graph:
    """The graph of these nodes, the last of which is the sink."""
    position = {node.id: index for index, (node, _) in enumerate(nodes)}
    return Graph(
        [
            Node(
                id=node.id,
                task=node.task,
                options=node.options,
                edges=tuple(sorted((position[parent], parts) for parent, parts in reads.items())),
            )
            for node, reads in nodes
        ]
    )


def read_again() -> Shape:
    """1. `a → s(saved) → n(irrevocable)`, and `m` reads `a` again. Losing `a` re-runs `s` and `n`."""
    return Shape(
        graph(
            node("a"),
            node("s", "a", checkpoint=True),
            node("n", "s", effect="irrevocable", checkpoint=True),
            node("m", "a", checkpoint=True),
            node("z", "n", "m"),
        ),
        waiting="n",
        until="m",
    )


def dropped_neighbour() -> Shape:
    """2. Losing `c` before `d` ran drops `b`, which needs `a` again, which drops `e` and `n`."""
    return Shape(
        graph(
            node("a"),
            node("c"),
            node("b", "a", "c", checkpoint=True),
            node("e", "a", checkpoint=True),
            node("d", "c", checkpoint=True),
            node("n", "e", effect="irrevocable", checkpoint=True),
            node("z", "b", "d", "n"),
        ),
        waiting="n",
        until="d",
    )


def undo_under_irrevocable() -> Shape:
    """3. `T` undoable, unsaved, is read by `n` irrevocable and by `m`. A crash after `n` would undo `T` under `n`."""
    return Shape(
        graph(
            node("T", effect="undoable", deterministic=True),
            node("s", "T", deterministic=True, checkpoint=True),
            node("n", "s", effect="irrevocable", checkpoint=True),
            node("m", "T", checkpoint=True),
            node("z", "n", "m"),
        ),
        waiting="n",
        until="m",
    )


def undo_of_undoable_input() -> Shape:
    """4. `u → T`, both undoable. Until `u` is saved, undoing `T` would run `u` twice."""
    return Shape(
        graph(
            node("u", effect="undoable", deterministic=True, checkpoint=True),
            node("T", "u", effect="undoable", checkpoint=True),
            node("z", "T"),
        ),
        waiting="T",
        until="u",
    )


def kept_neighbour() -> Graph:
    """Found by the simulation (design 2.8): a saga must not take `c` back once `h` has begun. It would drop `g`, which
    would need `b` again, which would run `f` and `h` again."""
    return graph(
        node("b"),
        node("f", "b", checkpoint=True),
        node("h", "f", effect="irrevocable", checkpoint=True),
        node("c", effect="undoable", checkpoint=True),
        node("g", "b", "c", checkpoint=True),
        node("z", "h", "g"),
    )


def mutual_wait() -> Graph:
    """5. `n1` and `n2` each wait for a consumer that waits for the other: unsafe, whatever is done."""
    return graph(
        node("a"),
        node("b"),
        node("s1", "a", checkpoint=True),
        node("s2", "b", checkpoint=True),
        node("n1", "s1", effect="irrevocable", checkpoint=True),
        node("n2", "s2", effect="irrevocable", checkpoint=True),
        node("k1", "a", checkpoint=True, after=("n2",)),
        node("k2", "b", checkpoint=True, after=("n1",)),
        node("z", "k1", "k2"),
    )


def unsaved_undoable_input() -> Graph:
    """4, as it must not be: `u` is never saved, so `T` could never start."""
    return graph(
        node("u", effect="undoable", deterministic=True),
        node("T", "u", effect="undoable", checkpoint=True),
        node("z", "T"),
    )


WAITING = (read_again, dropped_neighbour, undo_under_irrevocable, undo_of_undoable_input)
"""The shapes in which a task must wait."""
UNSAFE = (unsaved_undoable_input, mutual_wait)
"""The shapes that the check refuses."""
