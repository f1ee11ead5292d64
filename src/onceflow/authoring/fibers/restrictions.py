"""Restrictions: constructs that a durable function must not contain, found before code is generated."""

from __future__ import annotations

import ast
from typing import NoReturn

from onceflow.authoring.fibers import nodes
from onceflow.errors import DurableSyntaxError


def refuse(file: str, node: ast.AST, problem: str) -> NoReturn:
    raise DurableSyntaxError(file, getattr(node, "lineno", 0), problem)


def check(function: nodes.Function, qualname: str, file: str) -> None:
    """Raises DurableSyntaxError for the first thing that is not supported."""
    is_async = isinstance(function, ast.AsyncFunctionDef)
    for statement in function.body:
        for node in _with_generators(statement):
            _check_node(node, qualname, file, is_async)
    for name in ast.walk(function):
        word = name.id if isinstance(name, ast.Name) else name.arg if isinstance(name, ast.arg) else ""
        if word.startswith(nodes.PREFIX):
            refuse(file, name, f"{word}: names that begin with {nodes.PREFIX} are reserved in a durable function")


def _with_generators(node: ast.AST) -> list[ast.AST]:
    """Everything the function executes itself, and generator expressions with what is in them."""
    found = []
    for inner in nodes.own_scope(node):
        found.append(inner)
        if isinstance(inner, ast.GeneratorExp):
            found += [each for each in ast.walk(inner) if isinstance(each, ast.GeneratorExp) and each is not inner]
    return found


def _check_node(node: ast.AST, qualname: str, file: str, is_async: bool) -> None:
    if is_async and isinstance(node, (ast.Yield, ast.YieldFrom)):
        refuse(
            file,
            node,
            f"durable function {qualname} contains yield (async generator), which cannot be saved; return a list, or "
            "make a class with a durable __anext__",
        )
    if isinstance(node, ast.GeneratorExp) and _awaits(node):
        refuse(
            file,
            _awaits(node)[0],
            "await in a generator expression (that makes it an async generator, which cannot be saved) is not "
            "supported in a durable function; use a list [...] instead",
        )
    if isinstance(node, ast.TryStar):
        for handler in node.handlers:
            if nodes.suspends(handler.body):
                refuse(
                    file,
                    _first(handler.body),
                    "await inside an except* block is not supported in a durable function (collect what you need "
                    "there, await after it)",
                )
    if isinstance(node, ast.ExceptHandler) and nodes.suspends(node.type):
        refuse(
            file,
            _first([node.type]),
            "await in the expression of an except clause is not supported in a durable function (await before the try)",
        )
    if isinstance(node, ast.AnnAssign) and nodes.suspends(node.annotation):
        refuse(file, node.annotation, "await in an annotation is not supported in a durable function")


def _awaits(node: ast.GeneratorExp) -> list[ast.AST]:
    """What makes an async generator of it: all but its first iterable."""
    first, *others = node.generators
    parts: list[ast.AST] = [node.elt, first.target, *first.ifs, *others]
    found: list[ast.AST] = [inner for part in parts for inner in nodes.own_scope(part) if isinstance(inner, ast.Await)]
    found += [generator.iter for generator in node.generators if generator.is_async]
    return found


def _first(parts: list[ast.stmt] | list[ast.expr | None]) -> ast.AST:
    for part in parts:
        for node in nodes.own_scope(part) if part is not None else ():
            if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)):
                return node
    raise AssertionError("there is a suspension")
