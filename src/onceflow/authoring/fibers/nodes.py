"""Syntax trees: the one node that ordinary Python lacks, questions about trees, and short ways to make nodes.

A **suspension** is a place where a durable function may be paused: an `await` in an async function, a `yield` or `yield
from` in a generator. Lowering turns each into a `Suspend` statement; everything else stays ordinary Python. All names
that the transformer invents begin with `_F_`.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

PREFIX = "_F_"
RUNTIME = "_F_rt"
"""The variable through which generated code reaches `runtime.Runtime`."""

How = Literal["await", "yield", "yield from"]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass(frozen=True, slots=True)
class Around:
    """A construct around a suspension that holds state of its own: a loop, a `with`, a handler, a `finally`."""

    kind: str
    hidden: tuple[tuple[str, str], ...] = ()
    """Role and variable of what has to be there when the construct is entered again."""
    pending: bool = False
    """Whether the state matters only while something inside is on its way out (see `Record`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """How a `finally` that suspends was reached: variables for the kind (0 end of the body, 1 exception, 2 return, 3
    break, 4 continue), the value to be returned, and the exception."""

    kind: str
    value: str
    error: str


class Suspend(ast.stmt):
    """`target = await operand`, or the same with `yield` or `yield from`."""

    _fields = ("operand", "target")
    _field_types: ClassVar[dict[str, Any]] = {"operand": ast.expr, "target": ast.Name | None}
    operand: ast.expr
    target: ast.Name | None
    how: How
    text: str
    label: str | None
    around: tuple[Around, ...]
    cases: dict[str, int]
    """The variable for what a `match` around it has chosen → the number of the case in which it stands."""
    number: int = 0
    """Counted from 1, in source order."""

    @classmethod
    def of(
        cls,
        node: ast.expr,
        operand: ast.expr,
        target: ast.Name | None,
        around: Iterable[Around],
        text: str,
    ) -> Suspend:
        new = cls(operand=operand, target=target)  # type: ignore[call-arg]  # as all classes of ast
        new.how = "await" if isinstance(node, ast.Await) else "yield" if isinstance(node, ast.Yield) else "yield from"
        new.text = text
        new.label = label_of(node)
        new.around = tuple(around)
        new.cases = {}
        return ast.copy_location(new, node)


class Invented(ast.Await):
    """An await that the user wrote as `async for` or `async with`. `text` says so."""

    text: str


class Loop(ast.For):
    """A `for` that suspends: its iterator has a name."""

    iterator: str


class Finally(ast.Try):
    """A `try` with nothing but a `finally`, which suspends."""

    record: Record


def label_of(node: ast.expr) -> str | None:
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "label" and isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
    return None


def suspends(nodes: ast.AST | Iterable[ast.AST | None] | None) -> bool:
    """Whether the function can be paused inside these nodes. Functions that are defined there do not count."""
    if nodes is None:
        return False
    if isinstance(nodes, ast.AST):
        known: bool | None = nodes.__dict__.get("_suspends")
        if known is None:
            known = isinstance(nodes, _SUSPENDING) or _is_async(nodes) or any(map(suspends, executed(nodes)))
            nodes.__dict__["_suspends"] = known  # asked again and again, on every level
        return known
    return any(suspends(node) for node in nodes)


_SUSPENDING = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith, Suspend)


def _is_async(node: ast.AST) -> bool:
    return isinstance(node, ast.comprehension) and bool(node.is_async)


def own_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The node and everything below it that the function itself executes, in source order. List, set and dict
    comprehensions are included, functions and generator expressions only as far as they are evaluated on the spot
    (decorators, defaults, the first iterable)."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(executed(node)))


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly below that the function itself executes."""
    if isinstance(node, ast.Lambda):
        yield from _defaults(node.args)
    elif isinstance(node, FUNCTIONS):
        yield from node.decorator_list
        yield from _defaults(node.args)
    elif isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)
    elif isinstance(node, ast.GeneratorExp):
        yield node.generators[0].iter
    else:
        yield from ast.iter_child_nodes(node)


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default is not None)


def name(id: str) -> ast.Name:
    return ast.Name(id, ast.Load())


def stored(id: str) -> ast.Name:
    return ast.Name(id, ast.Store())


def assign(target: str | ast.expr, value: ast.expr | int | None) -> ast.Assign:
    """`value` may also be the constant itself."""
    goal = stored(target) if isinstance(target, str) else target
    return ast.Assign([goal], value if isinstance(value, ast.expr) else ast.Constant(value))


def helper(attribute: str) -> ast.Attribute:
    """Something of the runtime."""
    return ast.Attribute(name(RUNTIME), attribute, ast.Load())


def call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def negated(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), test)


def target_of(expression: ast.expr) -> ast.expr:
    """A copy that is assigned to."""
    return _in_context(expression, ast.Store())


def value_of(target: ast.expr) -> ast.expr:
    """A copy that is read."""
    return _in_context(target, ast.Load())


def _in_context(expression: ast.expr, context: ast.expr_context) -> ast.expr:
    new = copy.copy(expression)
    if hasattr(new, "ctx"):
        new.ctx = context
    return new


def placed(statements: Sequence[ast.stmt], where: ast.AST) -> list[ast.stmt]:
    """The same statements; those without a position get that of `where`."""
    for statement in statements:
        if not hasattr(statement, "lineno") and hasattr(where, "lineno"):
            _place(statement, where)
    return list(statements)


def _place(node: ast.AST, where: ast.AST) -> None:
    """Only where it begins counts: code that the user did not write must not seem to reach over several lines."""
    place: Any = where
    new: Any = node
    new.lineno = new.end_lineno = place.lineno
    new.col_offset = new.end_col_offset = place.col_offset


def fill_positions(tree: ast.AST) -> None:
    """What has no position gets that of what it is in."""
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(tree, None)]
    while waiting:
        node, where = waiting.pop()
        if "lineno" in node._attributes:
            if hasattr(node, "lineno"):
                where = node
            elif where is not None:
                _place(node, where)
        waiting += [(child, where) for child in ast.iter_child_nodes(node)]
