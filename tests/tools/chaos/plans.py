"""What an iteration plays: a random graph, told as plain data, of which both the tasks and the judge can be made.

Workers import this, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from onceflow.core.model.effects import Effect, Options
from onceflow.core.model.graph import Edge, Graph, Node
from onceflow.core.rules.state import OnFailure

FOREVER = 1_000_000
"""`Step.raises` of a task that raises until the world is healed."""

Way = Literal["plain", "threads", "async"]
"""How a worker runs a task."""


class Step(msgspec.Struct, frozen=True):
    """One task of a graph, with everything that its function has to know about itself."""

    name: str
    effect: Effect
    deterministic: bool
    checkpoint: bool
    retries: int
    parts: int
    edges: tuple[Edge, ...]
    size: int = 0
    """Bytes that each part of its output carries along."""
    refs: bool = False
    """Whether they are put, and the parts carry refs to them."""
    raises: int = 0
    """How often it raises before it returns. More often than `retries` only if that is `FOREVER`."""
    late: bool = False
    """Whether it raises after its effect, not before."""
    pause: float = 0.0
    """Seconds that it takes."""
    way: Way = "plain"
    writes: bool = False
    """Whether it writes the value that it returns to a task variable."""
    takes: tuple[Edge, ...] = ()
    """The edges whose actors it takes for itself, by their numbers. None if it may return a graph."""
    actors: int = 0
    """How many actors it makes, if it returns a value."""
    alternatives: tuple[tuple[Step, ...] | None, ...] = ()
    """The graphs that it may return; None stands for a value."""
    queue: str | None = None
    """The queue in which it needs a place."""


class Plan(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    """In topological order. The last one is the sink."""
    on_failure: OnFailure
    ballast: int = 0
    """Bytes of a buffer among the arguments of the first step."""
    queue: str | None = None
    """A queue of some steps, which has one place."""


def graph_of(steps: tuple[Step, ...]) -> Graph:
    """The graph as core sees it. `Node.call` has the graphs that a task may return."""
    return Graph(
        [
            Node(
                id=step.name,
                task=step.name,
                options=Options(step.checkpoint, step.deterministic, step.effect, step.retries, step.writes),
                edges=step.edges,
                parts=step.parts,
                takes=step.takes,
                call=tuple(None if nested is None else graph_of(nested) for nested in step.alternatives) or None,
            )
            for step in steps
        ]
    )


def all_steps(steps: tuple[Step, ...], prefix: str = "") -> Iterator[tuple[str, Step]]:
    """Every step that may be played, with its id. Alternatives may give the same id to different steps."""
    for position, step in enumerate(steps):
        id = f"{prefix}/{step.name}" if prefix else step.name
        yield id, step
        for nested in step.alternatives:
            if nested is not None:
                tail = prefix and position == len(steps) - 1
                yield from all_steps(nested, _next_prefix(prefix) if tail else id)


def _next_prefix(prefix: str) -> str:
    """Of a graph in tail position: `b`, `b~2`, `b~3`, …"""
    base, mark, depth = prefix.rpartition("~")
    return f"{base}~{int(depth) + 1}" if mark else f"{prefix}~2"
