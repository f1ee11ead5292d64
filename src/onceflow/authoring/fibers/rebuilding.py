"""Functions that rebuild a fiber from a snapshot. Their names stand in every snapshot: none may ever change.

A snapshot is loaded in three steps: first everything is made (frames as coroutines that have not started), then cells
get their contents, then generators that stand somewhere are started, which takes them there.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Sequence
from types import (
    CellType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

from onceflow.authoring.fibers import changes, definitions, exceptions, sources
from onceflow.authoring.fibers.definitions import Definition
from onceflow.authoring.fibers.ops import Op
from onceflow.authoring.fibers.runtime import Saved
from onceflow.errors import BadSnapshot

FINISHED = -1
"""Instead of the number of a suspension: it has ended. 0 is: it has not started."""


class _Unset:
    """In the place of a hidden variable that has no value."""

    def __reduce__(self) -> str:
        return "UNSET"


UNSET = _Unset()


class Frame:
    """A frame while it is being rebuilt."""

    __slots__ = ("cells", "definition", "move", "number", "routine", "saved")

    def __init__(self, routine: Any, definition: Definition, number: int, saved: Saved, cells: Any, move: Any) -> None:
        self.routine = routine
        self.definition = definition
        self.number = number
        self.saved = saved
        self.cells = cells
        self.move = move


class Loading:
    """What the snapshot that is being loaded has brought so far."""

    __slots__ = ("awaited", "chain", "frames", "handles")

    def __init__(self, handles: Sequence[Any] = ()) -> None:
        self.handles = handles
        """What was set aside when it was made."""
        self.frames: dict[int, Frame] = {}
        self.awaited: set[int] = set()
        self.chain: list[Any] = []
        """The fiber's own frames, innermost first."""


class _Here(threading.local):
    loading = Loading()


_here = _Here()


def begin(handles: Sequence[Any] = ()) -> tuple[Loading, Loading]:
    """From now on a snapshot is being loaded in this thread. Returns what was being loaded before, and what is now."""
    before, now = _here.loading, Loading(handles)
    _here.loading = now
    return before, now


def end(before: Loading) -> None:
    _here.loading = before


def chained(index: int) -> Any:
    """One of the fiber's own frames, as a value."""
    return _here.loading.chain[index]


def handle(number: int) -> Any:
    """Something that was set aside."""
    return _here.loading.handles[number]


def frame(ref: str, version: str, number: int, cells: dict[str, CellType] | None = None) -> Any:
    """A coroutine or generator, not yet started."""
    definition, number, move = changes.resolve(ref, version, number)
    saved = Saved()
    cells = cells or {}
    if definition.captured:
        saved.cells = {name: cells.get(name) or CellType() for name in definition.captured}
        cells = {**cells, **saved.cells}
    routine = definition.resuming(max(number, 0), saved, saved.cells)
    if number == FINISHED:
        routine.close()
    _here.loading.frames[id(routine)] = Frame(routine, definition, number, saved, cells, move)
    return routine


def set_frame(routine: Any, state: tuple[Any, ...]) -> None:
    hidden, temporaries, variables, awaited = state
    built = _here.loading.frames[id(routine)]
    values = built.saved.variables
    values.update(variables)
    if built.move is not None:
        values.update(built.move.supplied(variables))
    if built.number > 0:
        point = built.definition.point(built.number)
        for (_, name), value in zip(point.hidden, hidden, strict=True):
            if value is not UNSET:
                values[name] = value
        for name, value in zip(point.temporaries, temporaries, strict=True):
            if value is not UNSET:
                values[name] = value
    built.saved.awaited = _awaitable(awaited, built.definition)


def _awaitable(awaited: Any, definition: Definition) -> Any:
    loading = _here.loading
    if id(awaited) in loading.frames:
        loading.awaited.add(id(awaited))
        if definition.is_async and inspect.isgenerator(awaited):
            return _Awaiting(awaited)
    elif not definition.is_async and awaited is not None:
        return awaited.__await__() if isinstance(awaited, Op) else Delegated(awaited)
    return awaited


class _Awaiting:
    """An `__await__` that is a durable generator."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __await__(self) -> Any:
        return self._generator


class Delegated:
    """The iterator of a `yield from`. Its current item was delivered before the pause."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator
        self._started = False

    def __iter__(self) -> Delegated:
        return self

    def __next__(self) -> Any:
        if self._started:
            return next(self.iterator)
        self._started = True
        return None


def finish(loading: Loading) -> None:
    """The last step, when everything is made: cells and variables agree, and what is not awaited is taken to where it
    stands."""
    for built in loading.frames.values():
        values = built.saved.variables
        captured = built.definition.captured
        for name, cell in built.cells.items():
            if name in captured:
                if name in values:
                    cell.cell_contents = values.pop(name)
            elif name in built.definition.variables and has_contents(cell):
                values.setdefault(name, cell.cell_contents)
    for built in list(loading.frames.values()):
        routine = built.routine
        if built.number > 0 and routine is not loading.chain[-1] and id(routine) not in loading.awaited:
            routine.send(None)


def abandon(loading: Loading) -> None:
    """Something in the snapshot cannot be loaded: what was made of it is forgotten."""
    for built in loading.frames.values():
        built.routine.close()


def has_contents(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def cell() -> CellType:
    return CellType()


def function(ref: str, version: str, index: int, cells: dict[str, CellType]) -> FunctionType:
    """A function that was defined inside a durable one. It keeps its code, also where the one around it moves."""
    definition = changes.unmoved(ref, version)
    code = definition.inner.get(index)
    if code is None:
        raise BadSnapshot(f"snapshot refers to inner function {index} of {ref}, which its code does not have")
    closure = definitions.closure_of(code, cells, definition.function)
    return FunctionType(code, definition.function.__globals__, code.co_name, None, closure)


def set_function(made: FunctionType, state: tuple[Any, ...]) -> None:
    made.__defaults__, made.__kwdefaults__, made.__doc__, attributes = state
    made.__dict__.update(attributes)


def durable(ref: str) -> FunctionType:
    """A durable function itself."""
    found = definitions.current(ref)
    if found is None:
        raise BadSnapshot(f"snapshot refers to the durable function {ref}, which does not exist")
    return found.function


def method(owner: type, name: str, instance: Any) -> Any:
    """A method bound to an instance or class, as found in this very class of its ancestors."""
    found = vars(owner)[name]
    if isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    return MethodType(found, instance)


def builtin_method(instance: Any, name: str) -> Any:
    """`list.append` and its like. Nothing but methods that are written in C can be had in this way."""
    found = inspect.getattr_static(type(instance), name)
    if not isinstance(found, (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)):
        raise BadSnapshot(f"snapshot refers to {type(instance).__name__}.{name}, which is no built-in method")
    return found.__get__(instance, type(instance))


def module(name: str) -> Any:
    return importlib.import_module(name)


def named(module: str, qualname: str) -> Any:
    """A class or function of what was the script of its process."""
    return sources.named(module, qualname)


def error(kind: type[BaseException], *args: Any) -> BaseException:
    return exceptions.make(kind, *args)


def set_error(made: BaseException, state: tuple[Any, ...]) -> None:
    exceptions.set_state(made, state)


def traceback(entries: list[exceptions.Entry]) -> TracebackType | None:
    return exceptions.traceback_of(entries)
