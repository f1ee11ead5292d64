"""Needs: the names that code reads from its module.

A fiber finishes in old code inside the module as it is now (`changes`), so that may have lost what the old code calls.
Names are looked for as far as that is certain: those that may be read after the point at which a fiber stands, and of
modules among them (`mails.send`) the attributes. Nothing is called; what it would find elsewhere is not asked for.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib.util
import inspect
import linecache
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

from onceflow.authoring.fibers import nodes, scopes, sources
from onceflow.authoring.fibers.compiler import Compiler, Source
from onceflow.authoring.fibers.definitions import Definition

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


def missing(definition: Definition, number: int) -> list[str]:
    """What is not there of what the function may read when it goes on from the point of this number; 0 is its start."""
    if number < 0:
        return []
    version, function = definition.version, definition.function
    own = _globals_of(definition.live)
    source = version.source, version.first_line, version.file
    read = _read(*source, function.__qualname__, function.__code__.co_flags, number)
    found = {_gone(name, function.__globals__) for name in read if name.partition(".")[0] in own} - {""}
    return sorted(found - _set_later(definition)) if found else []


@functools.lru_cache(maxsize=256)
def _read(text: str, first_line: int, file: str, qualname: str, flags: int, number: int) -> frozenset[str]:
    """The names that may be read from this point on. `a.b` stands for itself, where `a` is no variable."""
    node = sources.parse(text, first_line, file)
    variables = scopes.names_of(node.args, node.body).bound
    node.body = [_Dotted(variables).visit(statement) for statement in node.body]
    return Compiler(Source(node, qualname, file, flags)).read_from(number)


class _Dotted(ast.NodeTransformer):
    """Makes `a.b.c` one name, unless `a` is a variable. What has variables of its own is left alone."""

    def __init__(self, variables: frozenset[str]) -> None:
        self._variables = variables

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (*nodes.FUNCTIONS, *nodes.COMPREHENSIONS, ast.Lambda, ast.ClassDef)):
            return node
        return super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        inner = node.value
        if not isinstance(node.ctx, ast.Load) or not isinstance(inner, ast.Name) or inner.id in self._variables:
            return node
        return ast.copy_location(ast.Name(f"{inner.id}.{node.attr}", node.ctx), node)


@functools.lru_cache(maxsize=256)
def _globals_of(code: CodeType) -> frozenset[str]:
    """The names that it looks for in its module, or functions and classes in it do."""
    steps = list(dis.get_instructions(code))
    found = {step.argval for step in steps if step.opname in _LOADS}
    if not code.co_flags & inspect.CO_NEWLOCALS:  # a class, whose own names come first
        found -= {step.argval for step in steps if step.opname == "STORE_NAME"}
    return frozenset(found).union(*[_globals_of(each) for each in code.co_consts if isinstance(each, CodeType)])


def _gone(name: str, namespace: Mapping[str, Any]) -> str:
    """The part of a name up to what is not there; empty if all is, or if that is unknown."""
    first, *steps = name.split(".")
    if first.startswith(nodes.PREFIX) or hasattr(builtins, first):
        return ""
    if first not in namespace:
        return first
    place, path = namespace[first], first
    for step in steps:
        if type(place) is not ModuleType or "__getattr__" in vars(place):
            return ""
        path = f"{path}.{step}"
        if step not in vars(place):
            return "" if _is_submodule(place, step) else path
        place = vars(place)[step]
    return ""


def _is_submodule(package: ModuleType, name: str) -> bool:
    """Whether it may be imported later, which makes it an attribute."""
    return hasattr(package, "__path__") and importlib.util.find_spec(f"{package.__name__}.{name}") is not None


def _set_later(definition: Definition) -> set[str]:
    """What functions of the module, or the old code itself, set when they are called (`global name`)."""
    namespace = definition.function.__globals__
    text = "".join(linecache.getlines(namespace.get("__file__") or "", namespace))
    version = definition.version
    trees = ast.parse(text), sources.parse(version.source, version.first_line, version.file)
    return {name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
