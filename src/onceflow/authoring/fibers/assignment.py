"""Assignment: which variables certainly have a value at a suspension.

A forward must-analysis over lowered code, the counterpart of `liveness`. It only serves the report on edited code: a
variable that has a value in the old code and was saved with it is not missing in the new one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from onceflow.authoring.fibers.nodes import Suspend

Assigned = frozenset[str] | None
"""None where control never comes: everything is true there."""


class Assignment:
    """`at[number]` are the names that certainly have a value while the function is paused at that suspension."""

    def __init__(self, parameters: Sequence[str], body: Sequence[ast.stmt]) -> None:
        self.at: dict[int, frozenset[str]] = {}
        self._block(body, frozenset(parameters))

    def _block(self, body: Sequence[ast.stmt], known: Assigned) -> Assigned:
        for statement in body:
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: Assigned) -> Assigned:
        if known is None:
            known = frozenset()  # unreachable code: nothing depends on what is said of it
        match node:
            case Suspend():
                self.at[node.number] = known
                return known | _targets([node.target])
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return None
            case ast.If():
                return _both(self._block(node.body, known), self._block(node.orelse, known))
            case ast.While():
                self._block(node.body, known)
                self._block(node.orelse, known)
                return known
            case ast.For():
                self._block(node.body, known | _targets([node.target]))
                self._block(node.orelse, known)
                return known
            case ast.Try() | ast.TryStar():
                return self._try(node, known)
            case ast.Assign():
                return known | _targets(node.targets)
            case ast.Delete():
                return known - {name.id for name in node.targets if isinstance(name, ast.Name)}
        return known

    def _try(self, node: ast.Try | ast.TryStar, known: frozenset[str]) -> Assigned:
        after = self._block(node.orelse, self._block(node.body, known))
        for handler in node.handlers:
            after = _both(after, self._block(handler.body, known))
        final = self._block(node.finalbody, known)
        return after if after is None or final is None else after | final


def _both(one: Assigned, other: Assigned) -> Assigned:
    return other if one is None else one if other is None else one & other


def _targets(targets: Sequence[ast.expr | None]) -> frozenset[str]:
    return frozenset(
        node.id
        for target in targets
        if target is not None
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
