"""Names: which variables a function has, and which of them its inner functions see too.

A variable is **captured** if a function or lambda that is defined inside uses it: both then share a cell, and they must
still share it after a restore. What only a comprehension or a generator expression uses is not captured: neither can
outlive a pause.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from onceflow.authoring.fibers import nodes

READING_ALL = frozenset({"locals", "eval", "exec", "vars", "dir"})
"""A caller of one of these may read any variable."""


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    parameters: tuple[str, ...]
    bound: frozenset[str]
    """All variables of the function, parameters too."""
    captured: frozenset[str]
    deleted: frozenset[str]
    """Those that may lose their value again: by `del`, or at the end of a handler."""
    reads_all: bool


def names_of(arguments: ast.arguments, body: Sequence[ast.stmt]) -> Names:
    parameters = parameters_of(arguments)
    own = list(_all_own(body))
    bound = {*parameters, *_bound(body)} - _declared(body, ast.Global)
    captured = bound & _used_by_inner(body)
    deleted = {node.id for node in own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    deleted |= {node.name for node in own if isinstance(node, ast.ExceptHandler) and node.name}
    loads = {node.id for node in own if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return Names(
        parameters, frozenset(bound), frozenset(captured), frozenset(deleted), bool(loads & READING_ALL - bound)
    )


def parameters_of(arguments: ast.arguments) -> tuple[str, ...]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return tuple(one.arg for one in every)


def _all_own(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for statement in body:
        yield from nodes.own_scope(statement)


def _bound(body: Iterable[ast.AST]) -> set[str]:
    """Names that these nodes bind in the scope in which they stand."""
    found: set[str] = set()
    for node in body:
        _bind(node, found, frozenset())
    return found


def _bind(node: ast.AST, found: set[str], inner: frozenset[str]) -> None:
    """`inner` are the targets of the comprehensions around the node: they belong to those, not to the function."""
    if isinstance(node, nodes.COMPREHENSIONS):
        inner |= targets_of(node)
    elif isinstance(node, (*nodes.FUNCTIONS, ast.ClassDef)):
        found.add(node.name)
    elif isinstance(node, ast.Lambda):
        pass
    elif isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load) and node.id not in inner:
            found.add(node.id)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        found.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        found.add(node.rest)
    for child in _bound_here(node):
        _bind(child, found, inner)


def _bound_here(node: ast.AST) -> Iterator[ast.AST]:
    """Like own_scope, but a generator expression is looked into: a walrus in it binds outside."""
    if isinstance(node, ast.GeneratorExp):
        yield from ast.iter_child_nodes(node)
    else:
        yield from nodes.executed(node)


def targets_of(node: nodes.Comprehension) -> frozenset[str]:
    return frozenset(
        name.id
        for generator in node.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    )


def _declared(body: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    return {name for node in _all_own(body) if isinstance(node, kind) for name in node.names}


def _used_by_inner(body: Iterable[ast.AST]) -> set[str]:
    """What functions, lambdas and classes that are defined in these nodes use of the names around them."""
    used: set[str] = set()
    for node in body:
        _collect_inner(node, used, frozenset())
    return used


def _collect_inner(node: ast.AST, used: set[str], hidden: frozenset[str]) -> None:
    if isinstance(node, (*nodes.FUNCTIONS, ast.Lambda, ast.ClassDef)):
        used |= free_names(node) - hidden
        for child in nodes.executed(node):
            _collect_inner(child, used, hidden)
        return
    if isinstance(node, nodes.COMPREHENSIONS):
        hidden |= targets_of(node)
    for child in ast.iter_child_nodes(node):
        _collect_inner(child, used, hidden)


def free_names(node: ast.AST) -> set[str]:
    """The names that a function, lambda or class takes from the scopes around it. Global ones are among them."""
    if isinstance(node, ast.Lambda):
        return _free_of_function(node.args, [node.body], ())
    if isinstance(node, nodes.FUNCTIONS):
        return _free_of_function(node.args, node.body, _type_parameters(node))
    assert isinstance(node, ast.ClassDef)
    return (_loads(node.body) | _used_by_inner(node.body) | _declared(node.body, ast.Nonlocal)) - {
        *_type_parameters(node)
    }


def _type_parameters(node: ast.AST) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in getattr(node, "type_params", ()))


def _free_of_function(arguments: ast.arguments, body: Sequence[ast.AST], further: Iterable[str]) -> set[str]:
    outer = _declared(body, ast.Nonlocal)
    bound = ({*parameters_of(arguments), *_bound(body), *further} - outer) | _declared(body, ast.Global)
    return (_loads(body) | _used_by_inner(body) | outer) - bound


def _loads(body: Iterable[ast.AST]) -> set[str]:
    """All names that are read in this scope; those of comprehensions only as far as they are not their own."""
    found: set[str] = set()
    for node in body:
        _load(node, found, frozenset())
    return found


def _load(node: ast.AST, found: set[str], hidden: frozenset[str]) -> None:
    if isinstance(node, nodes.COMPREHENSIONS):
        hidden |= targets_of(node)
    elif isinstance(node, ast.Name) and node.id not in hidden:
        found.add(node.id)
    for child in _bound_here(node):
        _load(child, found, hidden)
