"""The world outside: the effects that tasks have had on it, and what must never happen to it.

Irrevocable effects are idempotent for equal inputs; one that arrives with other inputs than before contradicts what
somebody has already seen. Undoable effects must not be there twice, and an undo must be given the very inputs of the
attempt it takes back.
"""

from __future__ import annotations

from tests.tools.simulation.attempts import Attempt, Inputs


class Violation(Exception):
    """Raised when a run did something that the law forbids. The text says what."""


class World:
    """What can be seen outside."""

    def __init__(self) -> None:
        self.irrevocable: dict[str, Inputs] = {}
        self.undoable: dict[str, Attempt] = {}

    def has_effect_of(self, node: str) -> bool:
        """Somebody outside can see that the task has run."""
        return node in self.irrevocable or node in self.undoable

    def apply(self, attempt: Attempt) -> None:
        """The effect of an attempt lands."""
        node = attempt.node
        if attempt.task.options.effect == "irrevocable":
            before = self.irrevocable.setdefault(node, attempt.inputs)
            if before != attempt.inputs:
                raise Violation(
                    f"the irrevocable {node} has happened with inputs {before} and now with {attempt.inputs}"
                )
        else:
            if node in self.undoable:
                raise Violation(f"the effect of {attempt!r} is added to that of {self.undoable[node]!r}")
            self.undoable[node] = attempt

    def take_back(self, undo: Attempt) -> None:
        """The effect of an undo lands. It is harmless if there is nothing to take back."""
        applied = self.undoable.get(undo.node)
        if applied is None:
            return
        if applied.inputs != undo.inputs:
            raise Violation(
                f"{undo!r} saw inputs {undo.inputs}, but takes back {applied!r}, which saw {applied.inputs}"
            )
        del self.undoable[undo.node]
