"""Attempts of the simulation: what one execution read, what it produced, and whether it can still act.

Values are numbers. A deterministic task computes them from its name and inputs, any other task adds a number that never
comes back, so two values are equal exactly if they are bound to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onceflow.core.model.graph import Graph, Node
from onceflow.core.model.refs import RefPart

Value = int
Inputs = Mapping[tuple[str, int], Value]
"""What an attempt read: (node, part) → value."""

Kind = Literal["run", "private", "undo"]
State = Literal["pending", "running", "stopping", "silent", "ended"]
"""`pending`: the command waits for its commit. `stopping`: told to end. `silent`: lost, will not report, may live."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One execution of a task, or one undo of it."""

    node: str
    number: int
    kind: Kind
    task: Node
    inputs: Inputs
    versions: Mapping[str, Attempt]
    """For every parent, also control-only ones, the attempt whose output was the present one when this was begun."""
    carried: frozenset[tuple[str, int]] = frozenset()
    """The inputs that are stored with its *begun* record."""
    taken: frozenset[tuple[str, int]] = frozenset()
    """The versions of actors that it has taken for itself."""
    state: State = "pending"
    launched: bool = False
    """It was carried out, so it may have had an effect."""
    withdrawn: bool = False
    """If it has not started, it shall not."""
    landed: bool = False
    """Its effect (or the effect of the undo) is in the world."""
    known_ended: bool = False
    """The run was told that it ended."""
    output: tuple[Value, ...] | None = None
    """The declared parts, then what is behind the refs."""
    graph: Graph | None = None
    refs: Mapping[int, RefPart] = field(default_factory=dict)
    """The refs in the output, by part."""
    undoes: Attempt | None = None
    handled: bool = False
    """It raised, and a handler gave this output."""
    abandoned: bool = False
    """It never ran: the graph that the node is in ended before."""
    joined: tuple[str, ...] = ()
    """The nodes that stand aside, whose outcomes it was given, without those that the run had forgotten: what they gave
    can never be taken back."""
    came_of: Attempt | None = None
    """For what a graph ends with: the attempt that raised."""
    reported: bool = False
    """Finished, Raised or the like was delivered for it."""

    @property
    def effectful(self) -> bool:
        """May change the world outside."""
        return self.task.options.effect != "none"

    @property
    def repeatable(self) -> bool:
        """Whoever runs it again has the same output."""
        return self.task.options.repeatable and not self.handled

    @property
    def alive(self) -> bool:
        """May still change the world outside."""
        return self.state in ("running", "stopping", "silent")

    @property
    def is_under_way(self) -> bool:
        """It was asked for, and nothing has become of it yet."""
        return self.state in ("pending", "running")

    @property
    def every_part(self) -> int:
        """The mask of all parts of its output: a graph is one."""
        declared = self.task.every_part if self.graph is None else 1
        return declared | sum(1 << part for part in self.refs)

    def with_refs(self, parts: int) -> int:
        """These declared parts of its output, and the refs that they hold."""
        return parts | sum(1 << part for part, ref in self.refs.items() if ref.holders & parts)

    def end(self) -> None:
        """From here on nothing of it happens."""
        self.state = "ended"

    def __repr__(self) -> str:
        return f"{self.kind} {self.node}#{self.number}"


def nothing(node: str, task: Node, sink: str) -> Attempt:
    """What stands for the output of a node that was abandoned when its graph ended with this sink. Whoever joins it
    learns of that end."""
    output, joined = (0,) * task.parts, (sink,) * task.aside
    return Attempt(
        node, 0, "run", task, {}, {}, state="ended", output=output, handled=True, abandoned=True, joined=joined
    )


@dataclass(slots=True)
class Values:
    """Computes outputs, and which graph and refs a task returns (the same for the same inputs if deterministic)."""

    fresh: int = 0
    chosen: dict[tuple[str, int], int] = field(default_factory=dict)
    refs: dict[tuple[str, int], tuple[RefPart, ...]] = field(default_factory=dict)

    def compute(self, attempt: Attempt) -> tuple[Value, ...]:
        """The output of the attempt, part by part. Behind a ref that came in is what was behind it before."""
        nonce = 0
        if attempt.handled or not attempt.task.options.deterministic:
            self.fresh += 1
            nonce = self.fresh
        seen = hash((attempt.node, tuple(attempt.inputs.items()), nonce))
        declared = tuple(hash((seen, part)) for part in range(attempt.task.parts))
        return declared + tuple(
            hash((seen, part)) if ref.origin is None else attempt.inputs[ref.origin]
            for part, ref in attempt.refs.items()
        )
