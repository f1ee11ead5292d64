"""Liveness: which variables may still be read after a suspension. The others need not be saved.

A backward may-analysis over lowered code. It errs on the safe side: whatever a handler or a `finally` reads is live
throughout the body before it, and a name that occurs anywhere in a statement, even in an inner function, is read by it.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Sequence

from onceflow.authoring.fibers.nodes import Loop, Suspend

Live = frozenset[str]
NOTHING: Live = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Ways:
    """What is live where control may go from here, other than to the next statement."""

    error: Live = NOTHING
    leave: Live = NOTHING
    """By `return`."""
    stop: Live = NOTHING
    """By `break`."""
    again: Live = NOTHING
    """By `continue`."""


class Liveness:
    """`at[number]` are the names that are live while the function is paused at that suspension."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.at: dict[int, Live] = {}
        self._block(body, NOTHING, Ways())

    def _block(self, body: Sequence[ast.stmt], after: Live, ways: Ways) -> Live:
        for statement in reversed(body):
            after = self._statement(statement, after, ways) | ways.error
        return after

    def _statement(self, node: ast.stmt, after: Live, ways: Ways) -> Live:
        match node:
            case Suspend():
                paused = (after - _names([node.target])) | ways.error
                self.at[node.number] = self.at.get(node.number, NOTHING) | paused
                return paused | _names([node.operand])
            case ast.Return():
                return ways.leave | _names([node.value])
            case ast.Raise():
                return ways.error | _names([node.exc, node.cause])
            case ast.Break():
                return ways.stop
            case ast.Continue():
                return ways.again
            case ast.If():
                either = self._block(node.body, after, ways) | self._block(node.orelse, after, ways)
                return either | _names([node.test])
            case ast.While():
                return self._loop(node, _names([node.test]), NOTHING, after, ways)
            case ast.For():
                return self._for(node, after, ways)
            case ast.With():
                inside = self._block(node.body, after, ways) | after
                return inside | _names(node.items)
            case ast.Try() | ast.TryStar():
                return self._try(node, after, ways)
            case ast.Match():
                bodies = [self._block(case.body, after, ways) for case in node.cases]
                return after.union(_names([node.subject]), _names(node.cases), *bodies)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                certain = {target.id for target in targets if isinstance(target, ast.Name)}
                if node.value is None:
                    certain = set()
                others = [target for target in targets if not isinstance(target, ast.Name)]
                return (after - certain) | _names([node.value, *others])
        return after | _names([node])

    def _loop(self, node: ast.While | ast.For, head: Live, assigned: Live, after: Live, ways: Ways) -> Live:
        """`head` is read at the start of each round, `assigned` set there."""
        otherwise = self._block(node.orelse, after, ways)
        live = head | otherwise | after
        while True:
            inner = dataclasses.replace(ways, stop=after, again=live)
            grown = live | (self._block(node.body, live, inner) - assigned)
            if grown == live:
                return live
            live = grown

    def _for(self, node: ast.For, after: Live, ways: Ways) -> Live:
        assigned = _names([node.target]) if isinstance(node.target, ast.Name) else NOTHING
        iterator = frozenset({node.iterator}) if isinstance(node, Loop) else NOTHING
        others = NOTHING if assigned else _names([node.target])
        return (self._loop(node, iterator | others, assigned, after, ways) - iterator) | _names([node.iter])

    def _try(self, node: ast.Try | ast.TryStar, after: Live, ways: Ways) -> Live:
        if node.finalbody:
            beyond = after.union(ways.error, ways.leave, ways.stop, ways.again)
            final = self._block(node.finalbody, beyond, ways)
            ways = Ways(final, final, final, final)
            after = final
        handlers = NOTHING
        for handler in node.handlers:
            name = frozenset({handler.name} if handler.name else ())
            handlers |= (self._block(handler.body, after, ways) - name) | _names([handler.type])
        otherwise = self._block(node.orelse, after, ways)
        return self._block(node.body, otherwise, dataclasses.replace(ways, error=handlers | ways.error))


def _names(parts: Iterable[ast.AST | None]) -> Live:
    """Every name that occurs."""
    return NOTHING.union(*(_names_in(part) for part in parts if part is not None))


def _names_in(part: ast.AST) -> Live:
    known: Live | None = part.__dict__.get("_names")
    if known is None:
        known = frozenset(node.id for node in ast.walk(part) if isinstance(node, ast.Name))
        part.__dict__["_names"] = known  # loops are gone through several times
    return known
