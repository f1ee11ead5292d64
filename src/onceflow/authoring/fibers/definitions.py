"""Definitions: the durable functions that this process knows, by name, by version and by code.

A function may have several definitions: the one that was imported, and older ones that were compiled anew from stored
sources, for fibers that are still parked in them.
"""

from __future__ import annotations

import ast
import dataclasses
import threading
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, Literal

from onceflow.authoring.fibers import code_hash, nodes, sources
from onceflow.authoring.fibers.compiler import Compiler, Source
from onceflow.authoring.fibers.points import ABI, Point, Version
from onceflow.authoring.fibers.runtime import RUNTIME, Saved

OnChange = Literal["pin", "move", "fail"]
Migrate = Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """How fibers that are parked in another version of a function continue."""

    on_change: OnChange = "pin"
    migrate: Migrate | None = None
    """Is given the saved variables and returns those that the new code needs besides."""


class Definition:
    """One version of a durable function, ready to be entered again."""

    def __init__(self, version: Version, compiler: Compiler, policy: Policy, function: FunctionType) -> None:
        self.version = version
        self.policy = policy
        self.function = function
        """What the user calls, of the version that was imported."""
        self.is_async = isinstance(compiler.source.node, ast.AsyncFunctionDef)
        self.variables = compiler.variables
        """All of the user's, as they are called in a frame."""
        self.captured = frozenset(compiler.captured)
        self.live, inner = compiler.live()
        self.inner = dict(inner)
        """The functions that are defined inside, by their number in source order."""
        self._compiler: Compiler | None = compiler
        self._resuming: CodeType | None = None
        self._plain: FunctionType | None = None
        _by_code[id(self.live)] = self
        _inner.update({id(code): (self, index) for index, code in inner})

    @property
    def ref(self) -> str:
        return self.version.ref

    def point(self, number: int) -> Point:
        return self.version.points[number - 1]

    def resuming(self, number: int, saved: Saved, cells: Mapping[str, CellType]) -> Any:
        """A coroutine or generator that, once it is started, goes to the suspension of this number. 0 is the start."""
        if self.captured:
            function = self._bound(cells)
        else:
            function = self._plain = self._plain or self._bound({})
        return function(number, saved)

    def _bound(self, cells: Mapping[str, CellType]) -> FunctionType:
        code = self._resuming or self._compile_resuming()
        closure = closure_of(code, cells, self.function)
        return FunctionType(code, self.function.__globals__, self.function.__name__, None, closure)

    def _compile_resuming(self) -> CodeType:
        with _lock:
            if self._resuming is None:
                assert self._compiler is not None
                code, inner = self._compiler.resuming()
                _by_code[id(code)] = self
                _inner.update({id(each): (self, index) for index, each in inner})
                self._resuming, self._compiler = code, None
            return self._resuming


def closure_of(code: CodeType, cells: Mapping[str, CellType], function: FunctionType) -> tuple[CellType, ...]:
    """The cells for the free variables of generated code."""
    found = []
    for name in code.co_freevars:
        if name in cells:
            found.append(cells[name])
        elif name == nodes.RUNTIME:
            found.append(_RUNTIME_CELL)
        elif name == "__class__":
            found.append(_class_cell(function))
        else:
            found.append(CellType())
    return tuple(found)


_RUNTIME_CELL = CellType(RUNTIME)


def _class_cell(function: FunctionType) -> CellType:
    """The cell in which `super()` finds the class: that of the function, or a new one if it has none."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name == "__class__":
            return cell
    owner = function.__qualname__.rpartition(".")[0]
    return CellType(sources.named(function.__module__, owner))


_lock = threading.Lock()
_current: dict[str, Definition] = {}
_older: dict[tuple[str, str], Version | Definition] = {}
_by_code: dict[int, Definition] = {}
_inner: dict[int, tuple[Definition, int]] = {}
"""By the address of a code object, which the definition keeps alive."""


def define(located: sources.Located, function: FunctionType, ref: str, policy: Policy) -> Definition:
    source = Source(located.node, function.__qualname__, located.file, function.__code__.co_flags)
    compiler = Compiler(source)
    version = Version(
        ref,
        code_hash.version_of(located.node),
        ABI,
        located.text,
        located.first_line,
        located.file,
        compiler.parameters,
        compiler.captured,
        compiler.points,
    )
    definition = Definition(version, compiler, policy, function)
    definition.function = _public(definition.live, function)
    with _lock:
        _current[ref] = definition
    return definition


def _public(code: CodeType, function: FunctionType) -> FunctionType:
    """The user's function with other code."""
    new = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure_of(code, {}, function)
    )
    new.__kwdefaults__ = function.__kwdefaults__
    new.__annotations__ = function.__annotations__
    new.__doc__ = function.__doc__
    new.__module__ = function.__module__
    new.__qualname__ = function.__qualname__
    new.__dict__.update(function.__dict__)
    if hasattr(function, "__type_params__"):
        setattr(new, "__type_params__", function.__type_params__)  # noqa: B010 - not there before Python 3.12
    return new


def register(version: Version) -> None:
    """Makes a stored version known, for snapshots that mention it."""
    with _lock:
        _older.setdefault((version.ref, version.version), version)


def known(ref: str) -> Definition | None:
    """The definition that is imported already."""
    return _current.get(ref)


def current(ref: str) -> Definition | None:
    """The definition that is imported, or can be. None if its module does not have it."""
    if ref not in _current:
        sources.import_named(ref.partition(":")[0])
    return _current.get(ref)


def older(ref: str, version: str) -> Version | None:
    known = _older.get((ref, version))
    return known.version if isinstance(known, Definition) else known


def pinned(ref: str, version: str, now: Definition) -> Definition | None:
    """An older version, compiled from its stored source in the module as it is now."""
    with _lock:
        known = _older.get((ref, version))
        if isinstance(known, Version):
            known = _older[ref, version] = _compile_again(known, now)
        return known


def _compile_again(stored: Version, now: Definition) -> Definition:
    file = sources.remember(stored.source, stored.first_line, f"{stored.file}, as it was ({stored.version[:8]})")
    node = sources.parse(stored.source, stored.first_line, file)
    flags = now.function.__code__.co_flags
    compiler = Compiler(Source(node, now.function.__qualname__, file, flags))
    version = dataclasses.replace(stored, points=compiler.points, captured=compiler.captured, abi=ABI)
    return Definition(version, compiler, now.policy, now.function)


def of_code(code: CodeType) -> Definition | None:
    """Of the live or resuming code of a durable function."""
    return _by_code.get(id(code))


def of_inner(code: CodeType) -> tuple[Definition, int] | None:
    """Of the code of a function that is defined inside a durable one, with its number."""
    return _inner.get(id(code))


def modules() -> set[str]:
    """Those in which durable functions are defined."""
    return {definition.function.__module__ for definition in _current.values()}
