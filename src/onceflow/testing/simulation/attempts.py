"""Attempts of the simulation: what one execution read, what it produced, and whether it can still act.

Values are numbers. A deterministic task computes them from its name and inputs, any other task adds a number that never
comes back, so two values are equal exactly if they are bound to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onceflow.core.graph import Graph, Node

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
    state: State = "pending"
    launched: bool = False
    """It was carried out, so it may have had an effect."""
    landed: bool = False
    """Its effect (or the effect of the undo) is in the world."""
    known_ended: bool = False
    """The run was told that it ended."""
    output: tuple[Value, ...] | None = None
    graph: Graph | None = None
    undoes: Attempt | None = None
    reported: bool = False
    """Finished, Raised or the like was delivered for it."""

    @property
    def effectful(self) -> bool:
        """May change the world outside."""
        return self.task.options.effect != "none"

    @property
    def alive(self) -> bool:
        """May still change the world outside."""
        return self.state in ("running", "stopping", "silent")

    def end(self) -> None:
        """From here on nothing of it happens."""
        self.state = "ended"

    def __repr__(self) -> str:
        return f"{self.kind} {self.node}#{self.number}"


@dataclass(slots=True)
class Values:
    """Computes outputs, and which graph an expander returns (the same one for the same inputs if deterministic)."""

    fresh: int = 0
    chosen: dict[tuple[str, int], int] = field(default_factory=dict)

    def compute(self, attempt: Attempt) -> tuple[Value, ...]:
        """The output of the attempt, part by part."""
        nonce = 0
        if not attempt.task.options.deterministic:
            self.fresh += 1
            nonce = self.fresh
        seen = hash((attempt.node, tuple(attempt.inputs.items()), nonce))
        return tuple(hash((seen, part)) for part in range(attempt.task.parts))
