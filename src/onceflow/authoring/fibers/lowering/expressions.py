"""Expressions that suspend."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from onceflow.authoring.fibers import nodes, restrictions
from onceflow.authoring.fibers.lowering import telling
from onceflow.authoring.fibers.nodes import Around, Invented, Suspend, call, helper, name, negated, stored
from onceflow.authoring.fibers.scopes import Names


class Expressions:
    """Takes a function apart. Statements that have to come first go to `out`; `expr` returns what is left of an
    expression, which is to be evaluated right after them."""

    def __init__(self, file: str, names: Names) -> None:
        self.file = file
        self.variables = names.bound
        """All of the function; every other name is global or built in."""
        self.steady = names.bound - names.captured - names.deleted
        """Those that, once they have a value, always have one, and do not share it."""
        self.out: list[ast.stmt] = []
        self.around: list[Around] = []
        self.holds: dict[str, str] = {}
        """Generated variable → what it holds, in the user's words."""
        self.cases: dict[str, int] = {}
        """As `Suspend` has them."""
        self._count = 0

    def fresh(self, role: str, holds: ast.AST | str) -> str:
        self._count += 1
        id = f"{nodes.PREFIX}{role}{self._count}"
        self.holds[id] = holds if isinstance(holds, str) else self.meaning(holds)
        return id

    def meaning(self, node: ast.AST) -> str:
        return telling.meaning_of(node, self.holds)

    def source(self, node: ast.AST) -> str:
        return telling.source_of(node, self.holds)

    def emit(self, where: ast.AST, *statements: ast.stmt) -> None:
        self.out += nodes.placed(statements, where)

    def suspend(self, node: ast.expr, target: ast.Name | None) -> None:
        value: ast.expr | None = getattr(node, "value", None)
        operand = self.expr(value) if value is not None else ast.copy_location(ast.Constant(None), node)
        text = node.text if isinstance(node, Invented) else self.source(node)
        suspension = Suspend.of(node, operand, target, self.around, text)
        suspension.cases = dict(self.cases)
        self.emit(node, suspension)

    def expr(self, node: ast.expr) -> ast.expr:
        if not nodes.suspends(node):
            return node
        lower: Callable[[Any], ast.expr] | None = getattr(self, f"expr_{type(node).__name__}", None)
        if lower is None:
            restrictions.refuse(
                self.file, node, f"await in {type(node).__name__} is not supported in a durable function"
            )
        lowered = lower(node)
        # A name for a value that was computed before is read where it is used, not where it came from.
        return lowered if isinstance(lowered, ast.Name) else ast.copy_location(lowered, node)

    def pin(self, node: ast.expr) -> ast.expr:
        """A name (or a constant) for the value that the expression has now."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.startswith(nodes.PREFIX)):
            return node
        pinned = self.fresh("t", node)
        self.emit(node, nodes.assign(pinned, node))
        return name(pinned)

    def siblings(self, parts: Sequence[ast.expr]) -> list[ast.expr]:
        """Parts that are evaluated one after the other."""
        last = max((index for index, part in enumerate(parts) if nodes.suspends(part)), default=-1)
        return [
            self._pin_part(self._part(part)) if index < last else self._part(part) for index, part in enumerate(parts)
        ]

    def _part(self, part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Starred):
            return ast.copy_location(ast.Starred(self.expr(part.value), ast.Load()), part)
        return self.expr(part)

    def _pin_part(self, part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Starred):
            unpacked = ast.copy_location(ast.List([part], ast.Load()), part)
            return ast.copy_location(ast.Starred(self.pin(unpacked), ast.Load()), part)
        if isinstance(part, _Mapping):
            merged = ast.copy_location(ast.Dict([None], [part.value]), part)
            return _Mapping.at(self.pin(merged))
        if isinstance(part, ast.Slice):
            ends = [end or ast.Constant(None) for end in (part.lower, part.upper, part.step)]
            return self.pin(ast.copy_location(call(helper("slice"), *ends), part))
        return self.pin(part)

    def expr_Await(self, node: ast.expr) -> ast.expr:
        result = self.fresh("t", node.text if isinstance(node, Invented) else node)
        self.suspend(node, ast.copy_location(stored(result), node))
        return name(result)

    expr_Invented = expr_Yield = expr_YieldFrom = expr_Await

    def expr_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.siblings([node.left, node.right])
        return ast.BinOp(left, node.op, right)

    def expr_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return ast.UnaryOp(node.op, self.expr(node.operand))

    def expr_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Attribute(self.expr(node.value), node.attr, node.ctx)

    def expr_Subscript(self, node: ast.Subscript) -> ast.expr:
        value, index = self.siblings([node.value, node.slice])
        return ast.Subscript(value, index, node.ctx)

    def expr_Slice(self, node: ast.Slice) -> ast.expr:
        there = [end for end in (node.lower, node.upper, node.step) if end is not None]
        ends = iter(self.siblings(there))
        lower, upper, step = (next(ends) if end is not None else None for end in (node.lower, node.upper, node.step))
        return ast.Slice(lower, upper, step)

    def expr_Tuple(self, node: ast.Tuple) -> ast.expr:
        return ast.Tuple(self.siblings(node.elts), node.ctx)

    def expr_List(self, node: ast.List) -> ast.expr:
        return ast.List(self.siblings(node.elts), node.ctx)

    def expr_Set(self, node: ast.Set) -> ast.expr:
        return ast.Set(self.siblings(node.elts))

    def expr_Dict(self, node: ast.Dict) -> ast.expr:
        parts: list[ast.expr] = []
        for key, value in zip(node.keys, node.values, strict=True):
            parts += [key, value] if key is not None else [_Mapping.at(value)]
        done = iter(self.siblings(parts))
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        for key in node.keys:
            keys.append(next(done) if key is not None else None)
            values.append(_unwrapped(next(done)))
        return ast.Dict(keys, values)

    def expr__Mapping(self, node: _Mapping) -> ast.expr:
        return _Mapping.at(self.expr(node.value))

    def expr_Call(self, node: ast.Call) -> ast.expr:
        callee = [] if self._is_global(node.func) else [node.func]
        given = [word.value if word.arg is not None else _Mapping.at(word.value) for word in node.keywords]
        done = self.siblings([*callee, *node.args, *given])
        function = done.pop(0) if callee else node.func
        arguments, rest = done[: len(node.args)], done[len(node.args) :]
        words = [
            ast.copy_location(ast.keyword(word.arg, _unwrapped(value)), word)
            for word, value in zip(node.keywords, rest, strict=True)
        ]
        return ast.Call(function, arguments, words)

    def _is_global(self, callee: ast.expr) -> bool:
        """Whether it is a plain dotted name from outside the function. Such a callee is looked up when it is called:
        pinning it would put whatever it belongs to into the snapshot."""
        while isinstance(callee, ast.Attribute):
            callee = callee.value
        return isinstance(callee, ast.Name) and callee.id not in self.variables

    def expr_Starred(self, node: ast.Starred) -> ast.expr:
        return ast.Starred(self.expr(node.value), node.ctx)

    def expr_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.pin(self.expr(node.value))
        self.emit(node, nodes.assign(node.target, value))
        return value

    def expr_Lambda(self, node: ast.Lambda) -> ast.expr:
        return ast.Lambda(self.defaults(node.args), node.body)

    def defaults(self, arguments: ast.arguments) -> ast.arguments:
        """The same parameters; defaults that suspend are evaluated."""
        there = [default for default in arguments.kw_defaults if default is not None]
        done = iter(self.siblings([*arguments.defaults, *there]))
        defaults = [next(done) for _ in arguments.defaults]
        return ast.arguments(
            posonlyargs=arguments.posonlyargs,
            args=arguments.args,
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=[next(done) if default is not None else None for default in arguments.kw_defaults],
            kwarg=arguments.kwarg,
            defaults=defaults,
        )

    def expr_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        result = self.fresh("t", node)
        nested = any(isinstance(value, ast.BoolOp) for value in node.values)
        self._choose(node, result, None, self.fresh("b", node) if nested else None)
        return name(result)

    def condition(self, node: ast.expr) -> ast.expr:
        """For what only wants to know whether it is true: no operand is asked for that twice."""
        if nodes.suspends(node):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return ast.copy_location(negated(self.condition(node.operand)), node)
            if isinstance(node, ast.BoolOp):
                truth = self.fresh("b", node)
                self._choose(node, self.fresh("t", node), truth, truth)
                return name(truth)
        return self.expr(node)

    def _choose(self, node: ast.BoolOp, result: str, truth: str | None, known: str | None) -> None:
        """Leaves the value in `result`, and whether it is true in `truth`, if that is wanted. `known` is where the
        truth of operands is noted on the way, if they are asked more than once for it."""
        outermost = self.out
        for value, following in itertools.zip_longest(node.values, node.values[1:]):
            noted = truth if following is None else known
            if isinstance(value, ast.BoolOp):
                self._choose(value, result, noted, known)
            else:
                self._into(result, value)
                if noted is not None:
                    asked = ast.IfExp(name(result), ast.Constant(True), ast.Constant(False))
                    self.emit(value, nodes.assign(noted, asked))
            if following is not None:
                told = name(known or result)
                branch = ast.If(told if isinstance(node.op, ast.And) else negated(told), [], [])
                self.emit(following, branch)
                self.out = branch.body
        self.out = outermost

    def expr_IfExp(self, node: ast.IfExp) -> ast.expr:
        result = self.fresh("t", node)
        test = self.condition(node.test)
        body = self.inside(lambda: self._into(result, node.body))
        orelse = self.inside(lambda: self._into(result, node.orelse))
        self.emit(node, ast.If(test, body, orelse))
        return name(result)

    def _into(self, target: str, value: ast.expr) -> None:
        self.emit(value, nodes.assign(target, self.expr(value)))

    def inside(self, lower: Callable[[], None]) -> list[ast.stmt]:
        """What `lower` emits."""
        before, self.out = self.out, []
        try:
            lower()
            return self.out
        finally:
            self.out = before

    def expr_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            left, right = self.siblings([node.left, node.comparators[0]])
            return ast.Compare(left, node.ops, [right])
        result = self.fresh("t", node)
        outermost = self.out
        left = self.pin(self.expr(node.left))
        for index, (operator, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.pin(self.expr(comparator))
            comparison = ast.copy_location(ast.Compare(left, [operator], [right]), node)
            self.emit(comparator, nodes.assign(result, comparison))
            if index + 1 < len(node.ops):
                branch = ast.If(name(result), [], [])
                self.emit(node.comparators[index + 1], branch)
                self.out = branch.body
            left = right
        self.out = outermost
        return name(result)

    def expr_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        last = max(index for index, piece in enumerate(node.values) if nodes.suspends(piece))
        pieces: list[ast.expr] = []
        for index, piece in enumerate(node.values):
            done = self._piece(piece) if isinstance(piece, ast.FormattedValue) else piece
            if index < last and isinstance(done, ast.FormattedValue):
                text = self.pin(ast.copy_location(ast.JoinedStr([done]), piece))
                done = ast.copy_location(ast.FormattedValue(text, -1, None), piece)
            pieces.append(done)
        return ast.JoinedStr(pieces)

    def _piece(self, piece: ast.FormattedValue) -> ast.FormattedValue:
        """A value with its format, which may suspend as well."""
        done = self.siblings([piece.value, *([piece.format_spec] if piece.format_spec else [])])
        form = done[1] if piece.format_spec else None
        return ast.copy_location(ast.FormattedValue(done[0], piece.conversion, form), piece)

    def expr_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """Only its first iterable can suspend: it is evaluated at once, outside."""
        first, *others = node.generators
        source = ast.comprehension(first.target, self.expr(first.iter), first.ifs, first.is_async)
        return ast.GeneratorExp(node.elt, [source, *others])


class _Mapping(ast.expr):
    """`**value` in a call or a dict display."""

    _fields = ("value",)
    _field_types = {"value": ast.expr}  # noqa: RUF012 - as the classes of ast have it
    value: ast.expr

    @classmethod
    def at(cls, value: ast.expr) -> _Mapping:
        return ast.copy_location(cls(value=value), value)  # type: ignore[call-arg]  # as all classes of ast


def _unwrapped(part: ast.expr) -> ast.expr:
    return part.value if isinstance(part, _Mapping) else part
