"""Which guard goes with an attempt (`authoring.handler_guards`): the handlers of its task, and those in force around
it.

What is in force in a scope is made once, from what is in force around it, and kept there. So an attempt costs a look
at its task and at its scope, however deep that is."""

from __future__ import annotations

from typing import Any

from onceflow.core.model.rows import Row, Scope
from onceflow.values.handler_answers import THE_TASK

MOST = 1000
"""Guards that are kept to be used again."""


class Guards:
    """Those of one run."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, int], tuple[Any, Any]] = {}
        """(task, id of what is in force) → guard, and what is in force, which lives as long as its id counts."""

    def of(self, row: Row) -> Any:
        """None if no handler has a say about the row."""
        in_force = None if row.scope.outer is None else _in_force(row.scope)
        call = row.node.call
        if in_force is None and not call.guarded:
            return None
        key = (call.task, id(in_force))
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= MOST:
                self._made.clear()
            found = self._made[key] = (call.guard(in_force), in_force)
        return found[0]


def failures_around(row: Row) -> dict[int, int]:
    """Number of failures of the row, and of each graph around it that was tried again."""
    return {THE_TASK: row.failures, **tries_around(row)}


def tries_around(row: Row) -> dict[int, int]:
    """Depth → how often the graph at it, around the row, was tried again."""
    tries: dict[int, int] = {}
    scope: Scope | None = row.scope
    while scope is not None:
        if scope.failures:
            tries[scope.depth] = scope.failures
        scope = scope.outer
    return tries


def _in_force(scope: Scope) -> Any:
    """What the driver keeps in `Scope.in_force` is a tuple, to distinguish "none" from "not yet known"."""
    inner: list[Scope] = []
    at: Scope | None = scope
    while at is not None and at.in_force is None:
        inner.append(at)
        at = at.outer
    found: Any = None if at is None else at.in_force[0]
    for scope in reversed(inner):
        if scope.node is not None:
            found = scope.node.call.in_force_inside(found, scope.depth)
        scope.in_force = (found,)
    return found
