"""Guards: from lowered code to the two functions that are really executed.

**The live function** is what a call runs. It is the lowered code with little added: before each suspension its number
is noted (`_F_pc`), so that the variables of the paused frame together with this number are the whole continuation.

**The resuming function** is the same code with guards. It is called with the number of a suspension (`_F_r`) and the
saved variables (`_F_s`). While `_F_r` is not 0, every statement that does not lead to that suspension is skipped,
blocks on the way are entered without repeating what entering them does, and at the suspension itself what was being
awaited is taken from the snapshot and `_F_r` becomes 0. From there on it is the live function again. Suspensions are
numbered in source order, so the way is found by comparing numbers: each statement covers an interval of them.

    a handler         the saved exception is raised inside the `try`, and only this handler accepts it
    a `finally`       whatever led there is repeated: the exception, `return`, `break`, `continue`, or nothing
    a loop            goes on with its named iterator, after one round for the current item

**Vanishing.** A paused coroutine that is dropped gets GeneratorExit from the interpreter, which would run `finally`
blocks and handlers. A fiber that is parked elsewhere must not do that, so generated code lets GeneratorExit through:
no handler sees it, and no `finally` acts on it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from onceflow.authoring.fibers import nodes
from onceflow.authoring.fibers.nodes import Finally, Loop, Record, Suspend, call, helper, name, negated, placed

PLACE = "_F_pc"
GOAL = "_F_r"
SAVED = "_F_s"
DEAD = "_F_dead"

RAISED, RETURNED, BROKEN, CONTINUED = 1, 2, 3, 4
"""How a `finally` was reached, other than by the end of its body (0)."""


def number(body: Sequence[ast.stmt]) -> list[Suspend]:
    """All suspensions in source order, which are numbered from 1."""
    found: list[Suspend] = []
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Suspend):
            found.append(node)
            node.number = len(found)
        else:
            waiting += reversed(_blocks(node))
    return found


def _blocks(node: ast.AST) -> list[ast.AST]:
    """The statements of a compound statement, in source order. Only there can suspensions be, after lowering."""
    if isinstance(node, (*nodes.FUNCTIONS, ast.ClassDef)):
        return []
    found: list[ast.AST] = []
    for field in ("body", "handlers", "orelse", "finalbody"):
        found += getattr(node, field, ())
    return found


class Guards:
    """Makes one of the two functions: with `resuming` the one that can be entered anywhere."""

    def __init__(self, *, resuming: bool, mangle: Callable[[str], str] = str) -> None:
        self.resuming = resuming
        self._mangle = mangle
        self.uses_dead = False
        self._leaving: list[Record | None] = []
        """What a `return` here would pass: the records of `finally` blocks, and None for a loop, which is where `break`
        and `continue` stop."""
        self._intervals: dict[int, tuple[int, int] | None] = {}

    def interval(self, part: ast.AST | Sequence[ast.AST]) -> tuple[int, int] | None:
        """The first and the last suspension in a statement or block."""
        if isinstance(part, Suspend):
            return part.number, part.number
        if isinstance(part, ast.AST):
            if id(part) not in self._intervals:
                self._intervals[id(part)] = self.interval(_blocks(part))
            return self._intervals[id(part)]
        all_of_them = [interval for inner in part if (interval := self.interval(inner))]
        return (all_of_them[0][0], all_of_them[-1][1]) if all_of_them else None

    def block(self, body: Sequence[ast.stmt], *, direct: bool = True) -> list[ast.stmt]:
        """`direct`: as long as `_F_r` is set, the block is entered only on the way to a suspension in it. Then what
        follows its last suspension needs no guard."""
        last = max((index for index, statement in enumerate(body) if self.interval(statement)), default=-1)
        done: list[ast.stmt] = []
        skipped: list[ast.stmt] = []
        for index, statement in enumerate(body):
            interval = self.interval(statement)
            if interval is None:
                goal = skipped if self.resuming and (index < last or not direct) else done
                goal += self._opaque(statement)
                continue
            done += self._unless_resuming(skipped)
            skipped = []
            lines = self._statement(statement)
            if self.resuming and not (direct and index == last):
                lines = placed([ast.If(_either(_resting(), _not_beyond(interval[1])), lines, [])], statement)
            done += lines
        done += self._unless_resuming(skipped)
        return done or [ast.Pass()]

    def _unless_resuming(self, body: list[ast.stmt]) -> list[ast.stmt]:
        if not body or not self.resuming:
            return body
        return placed([ast.If(_resting(), body, [])], body[0])

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case Suspend():
                return self._suspend(node)
            case ast.If():
                return self._if(node)
            case Loop():
                return self._for(node)
            case ast.While():
                return self._while(node)
            case Finally():
                return self._try_finally(node)
            case ast.Try():
                return self._try(node)
            case ast.TryStar():
                return self._try_star(node)
        raise AssertionError(f"{type(node).__name__} does not suspend after lowering")

    def _suspend(self, node: Suspend) -> list[ast.stmt]:
        operand = node.operand
        if self.resuming:
            cleared = ast.NamedExpr(nodes.stored(GOAL), ast.Constant(0))
            operand = ast.IfExp(_resting(), operand, call(helper("take"), name(SAVED), cleared))
        kind = {"await": ast.Await, "yield": ast.Yield, "yield from": ast.YieldFrom}[node.how]
        value = ast.copy_location(kind(operand), node)
        statement = ast.Expr(value) if node.target is None else ast.Assign([node.target], value)
        return placed([nodes.assign(PLACE, node.number), statement], node)

    def _if(self, node: ast.If) -> list[ast.stmt]:
        test = self._test(node.test, node.body, node.orelse)
        orelse = self.block(node.orelse) if node.orelse else []
        return placed([ast.copy_location(ast.If(test, self.block(node.body), orelse), node)], node)

    def _test(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.expr:
        """The test, or while resuming: whether the way leads into the body."""
        if not self.resuming:
            return test
        inside = self.interval(body)
        if inside is None:
            return ast.copy_location(ast.BoolOp(ast.And(), [_resting(), test]), test)
        if self.interval(orelse) is None:
            return ast.copy_location(ast.BoolOp(ast.Or(), [name(GOAL), test]), test)
        return ast.copy_location(ast.IfExp(_resting(), test, _not_beyond(inside[1])), test)

    def _while(self, node: ast.While) -> list[ast.stmt]:
        test = self._test(node.test, node.body, node.orelse)
        orelse = self.block(node.orelse) if node.orelse else []
        return placed([ast.copy_location(ast.While(test, self._looping(node.body), orelse), node)], node)

    def _looping(self, body: list[ast.stmt]) -> list[ast.stmt]:
        self._leaving.append(None)
        try:
            return self.block(body)
        finally:
            self._leaving.pop()

    def _for(self, node: Loop) -> list[ast.stmt]:
        first = placed([nodes.assign(node.iterator, call(helper("iter"), node.iter))], node)
        source: ast.expr = name(node.iterator)
        if self.resuming:
            source = ast.IfExp(_resting(), source, self._again(node))
        body, orelse = self._looping(node.body), self.block(node.orelse) if node.orelse else []
        loop = ast.copy_location(ast.For(node.target, source, body, orelse), node)
        return self._unless_resuming(first) + placed([loop], node)

    def _again(self, node: Loop) -> ast.expr:
        """The current item once more, then the rest; nothing at all on the way to the `else` of the loop."""
        assert isinstance(node.target, ast.Name)
        inside = self.interval(node.body)
        if inside is None:
            return ast.Tuple([], ast.Load())
        rest = call(helper("again"), name(node.iterator), name(SAVED), ast.Constant(self._mangle(node.target.id)))
        if self.interval(node.orelse) is None:
            return rest
        return ast.IfExp(_not_beyond(inside[1]), rest, ast.Tuple([], ast.Load()))

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        """Handlers, or a `finally` that does not suspend, or both if neither handlers nor `else` suspend."""
        handled = any(self.interval(handler.body) for handler in node.handlers)
        body: list[ast.stmt] = []
        if self.resuming:
            for handler in node.handlers:
                if within := self.interval(handler.body):
                    assert handler.name
                    body += placed([ast.If(_among(within), [_raise_again(handler.name)], [])], handler)
        body += self.block(node.body, direct=not handled and self.interval(node.orelse) is None)
        where = node.handlers[0] if node.handlers else node.finalbody[0]
        handlers = [self._vanishing(where, remember=bool(node.finalbody))] if self.interval(node.body) else []
        handlers += [self._handler(handler, handled) for handler in node.handlers]
        orelse = self.block(node.orelse) if node.orelse else []
        final = [inner for statement in node.finalbody for inner in self._opaque(statement)]
        if final and handlers:
            final = self._unless_dead(final)
        return placed([ast.copy_location(ast.Try(body, handlers, orelse, final), node)], node)

    def _handler(self, handler: ast.ExceptHandler, handled: bool) -> ast.ExceptHandler:
        """While resuming, only the handler on the way accepts anything."""
        within = self.interval(handler.body)
        kind = handler.type
        body = [inner for statement in handler.body for inner in self._opaque(statement)]
        if within:
            kind = kind or helper("base_exception")
            body = self.block(handler.body)
            assert handler.name
            if self.resuming:
                body = placed([_mend(handler.name)], handler) + body
        if self.resuming and handled:
            nothing: ast.expr = ast.Tuple([], ast.Load())
            closed = ast.IfExp(_among(within), helper("base_exception"), nothing) if within else nothing
            kind = ast.IfExp(_resting(), kind or helper("base_exception"), closed)
        return ast.copy_location(ast.ExceptHandler(kind, handler.name, body), handler)

    def _vanishing(self, node: ast.AST, *, remember: bool) -> ast.ExceptHandler:
        lines: list[ast.stmt] = [ast.Raise()]
        if remember:
            self.uses_dead = True
            lines.insert(0, nodes.assign(DEAD, True))
        return ast.copy_location(ast.ExceptHandler(helper("generator_exit"), None, placed(lines, node)), node)

    def _unless_dead(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return placed([ast.If(negated(name(DEAD)), body, [])], body[0])

    def _try_finally(self, node: Finally) -> list[ast.stmt]:
        record = node.record
        within = self.interval(node.finalbody)
        assert within is not None
        self._leaving.append(record)
        body = self.block(node.body, direct=False)
        if self.resuming:
            body = placed([ast.If(_among(within), self._repeat(record), [])], node.finalbody[0]) + body
        body += self._unless_resuming(placed([nodes.assign(record.kind, 0)], node.finalbody[0]))
        self._leaving.pop()
        error = f"{record.error}_"
        noted: list[ast.stmt] = [
            nodes.assign(record.kind, RAISED),
            nodes.assign(record.error, name(error)),
            ast.Raise(),
        ]
        if self.resuming:
            noted.insert(0, _mend(error))
        caught = ast.ExceptHandler(helper("base_exception"), error, noted)
        final = self._unless_dead([*self.block(node.finalbody), nodes.assign(record.error, None)])
        handlers = [self._vanishing(node.finalbody[0], remember=True), *placed_handlers([caught], node.finalbody[0])]
        return placed([ast.copy_location(ast.Try(body, handlers, [], placed(final, node.finalbody[-1])), node)], node)

    def _repeat(self, record: Record) -> list[ast.stmt]:
        """Leaves the body in the way in which it was left before the pause."""
        inside_loop = None in self._leaving
        ways: dict[int, ast.stmt] = {RAISED: _raise_again(record.error), RETURNED: ast.Return(name(record.value))}
        if inside_loop:
            ways |= {BROKEN: ast.Break(), CONTINUED: ast.Continue()}
        return [
            ast.If(ast.Compare(name(record.kind), [ast.Eq()], [ast.Constant(kind)]), [way], [])
            for kind, way in ways.items()
        ]

    def _try_star(self, node: ast.TryStar) -> list[ast.stmt]:
        """Its handlers could not let GeneratorExit through, so it does not get as far as that."""
        self.uses_dead = True
        body = self.block(node.body, direct=self.interval(node.orelse) is None)
        if self.interval(node.body):
            vanish = ast.ExceptHandler(
                helper("generator_exit"), None, placed([nodes.assign(DEAD, True), ast.Return()], node.handlers[0])
            )
            body = placed([ast.Try(body, [*placed_handlers([vanish], node.handlers[0])], [], [])], node.body[0])
        orelse = self.block(node.orelse) if node.orelse else []
        handlers = [
            ast.copy_location(ast.ExceptHandler(handler.type, handler.name, self._opaque_block(handler.body)), handler)
            for handler in node.handlers
        ]
        return placed([ast.copy_location(ast.TryStar(body, handlers, orelse, []), node)], node)

    def _opaque_block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [inner for statement in body for inner in self._opaque(statement)]

    def _opaque(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement that does not suspend. It stays as it is, but for ways out that pass a `finally` which does."""
        if not any(record is not None for record in self._leaving):
            return [node]
        match node:
            case ast.Return():
                return self._leave(node, [record for record in self._leaving if record is not None])
            case ast.Break() | ast.Continue():
                innermost = len(self._leaving) - self._leaving[::-1].index(None) if None in self._leaving else 0
                return self._leave(node, [record for record in self._leaving[innermost:] if record is not None])
            case ast.For() | ast.While() | ast.If() | ast.With() | ast.Try() | ast.TryStar() | ast.Match():
                return [self._copied(node)]
        return [node]

    def _copied(self, node: ast.stmt) -> ast.stmt:
        new = copy.copy(node)
        loop = isinstance(node, (ast.For, ast.While))
        for field in ("body", "orelse", "finalbody"):
            if hasattr(node, field):
                if loop and field == "body":
                    self._leaving.append(None)
                setattr(new, field, self._opaque_block(getattr(node, field)))
                if loop and field == "body":
                    self._leaving.pop()
        for field in ("handlers", "cases"):
            if hasattr(node, field):
                inner = [copy.copy(part) for part in getattr(node, field)]
                for part in inner:
                    part.body = self._opaque_block(part.body)
                setattr(new, field, inner)
        return new

    def _leave(self, node: ast.stmt, records: list[Record]) -> list[ast.stmt]:
        if not records:
            return [node]
        kind = RETURNED if isinstance(node, ast.Return) else BROKEN if isinstance(node, ast.Break) else CONTINUED
        lines: list[ast.stmt] = []
        if isinstance(node, ast.Return):
            values: list[ast.expr] = [nodes.stored(record.value) for record in records]
            lines.append(ast.Assign(values, node.value or ast.Constant(None)))
            node = ast.copy_location(ast.Return(name(records[0].value)), node)
        kinds: list[ast.expr] = [nodes.stored(record.kind) for record in records]
        return placed([*lines, ast.Assign(kinds, ast.Constant(kind)), node], node)


def placed_handlers(handlers: list[ast.ExceptHandler], where: ast.AST) -> list[ast.ExceptHandler]:
    for handler in handlers:
        ast.copy_location(handler, where)
        placed(handler.body, where)
    return handlers


def _resting() -> ast.expr:
    return negated(name(GOAL))


def _not_beyond(last: int) -> ast.expr:
    return ast.Compare(name(GOAL), [ast.LtE()], [ast.Constant(last)])


def _among(interval: tuple[int, int]) -> ast.expr:
    first, last = interval
    return ast.Compare(ast.Constant(first), [ast.LtE(), ast.LtE()], [name(GOAL), ast.Constant(last)])


def _either(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.BoolOp(ast.Or(), [left, right])


def _raise_again(error: str) -> ast.Raise:
    return ast.Raise(call(helper("raising"), name(SAVED), name(error)), None)


def _mend(error: str) -> ast.stmt:
    """Raising it again has changed its traceback and its context."""
    return ast.If(name(GOAL), [ast.Expr(call(helper("mend"), name(SAVED), name(error)))], [])
