"""Frames: the state of paused coroutines and generators that has to be saved.

`cr_frame.f_locals` of a paused coroutine is public, and so is `cr_await`, which leads to the next frame. After
lowering, the variables and one number are all there is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import CoroutineType, GeneratorType
from typing import Any

from onceflow.authoring.fibers import definitions
from onceflow.authoring.fibers.compiler import CELLS
from onceflow.authoring.fibers.definitions import Definition
from onceflow.authoring.fibers.guards import PLACE, RAISED, RETURNED, SAVED
from onceflow.authoring.fibers.ops import WAITING
from onceflow.authoring.fibers.points import Point
from onceflow.authoring.fibers.rebuilding import FINISHED, UNSET, Delegated
from onceflow.errors import NotPersistable

LARGEST = 1_000
"""Items of a container that are looked through for calls which have not been awaited."""


class Paused:
    """One frame, as it is now."""

    __slots__ = ("_cells", "awaited", "definition", "number", "point", "routine", "values")

    def __init__(self, routine: Any, definition: Definition) -> None:
        self.routine = routine
        self.definition = definition
        frame, state, self.awaited = _inside(routine)
        self.number = FINISHED
        self.point: Point | None = None
        """Where it is paused; None if it has not started or has ended."""
        self._cells: dict[str, Any] = {}
        self.values: Any = {}
        if frame is not None:
            if state == "running":
                raise NotPersistable(
                    f"{definition.version.ref.partition(':')[2]}() is running; only a fiber that waits can be saved"
                )
            self.values = frame.f_locals
            self.number = self.values[PLACE] if state == "suspended" else 0
            if self.number:
                self.point = definition.point(self.number)
            elif SAVED in self.values:  # it was restored, and has not taken its arguments over yet
                saved = self.values[SAVED]
                self.values, self._cells = saved.variables, saved.cells

    @property
    def name(self) -> str:
        return self.definition.version.ref.partition(":")[2]

    @property
    def line(self) -> int:
        point = self.point
        return point.line if point else self.definition.version.first_line

    def hidden(self) -> list[tuple[str, Any]]:
        """Role and value of what the constructs around the point hold. Of the records of a `finally`, only what its
        kind needs."""
        point = self.point
        if point is None:
            return []
        found: list[tuple[str, Any]] = []
        kind: Any = UNSET
        for role, name in point.hidden:
            value = self.values.get(name, UNSET)
            if role == "kind":
                kind = value
            elif (role == "value" and kind != RETURNED) or (role == "error" and kind != RAISED):
                value = UNSET
            found.append((role, value))
        return found

    def temporaries(self) -> list[Any]:
        point = self.point
        return [self.values.get(name, UNSET) for name in point.temporaries] if point else []

    def variables(self, *, full: bool) -> dict[str, Any]:
        """The user's variables that are not captured."""
        values, cells = self.values, self.cells()
        wanted = self.definition.variables if full or self.point is None else sorted(self.point.live)
        return {name: values[name] for name in wanted if name in values and name not in cells}

    def cells(self) -> dict[str, Any]:
        """Captured variables. Before the first line has run there are none: arguments are variables like any other."""
        maker = self.values.get(CELLS)
        if maker is None:
            return self._cells
        return dict(zip(maker.__code__.co_freevars, maker.__closure__, strict=True))


def _inside(routine: Any) -> tuple[Any, str, Any]:
    if isinstance(routine, CoroutineType):
        frame, running, suspended, awaited = (
            routine.cr_frame,
            routine.cr_running,
            routine.cr_suspended,
            routine.cr_await,
        )
    else:
        frame, running, suspended, awaited = (
            routine.gi_frame,
            routine.gi_running,
            routine.gi_suspended,
            routine.gi_yieldfrom,
        )
    return frame, "running" if running else "suspended" if suspended else "created", _operation(awaited)


def _operation(awaited: Any) -> Any:
    """The operation, if that is what is being awaited."""
    if isinstance(awaited, Delegated):
        return awaited.iterator
    if isinstance(awaited, GeneratorType) and awaited.gi_code is WAITING and awaited.gi_frame is not None:
        return awaited.gi_frame.f_locals["self"]
    return awaited


def awaited_by(routine: Any) -> Any:
    """The operation, coroutine or generator that it waits for."""
    return _inside(routine)[2]


def paused(routine: Any) -> Paused | None:
    """None if it is not of a durable function."""
    code = routine.cr_code if isinstance(routine, CoroutineType) else routine.gi_code
    definition = definitions.of_code(code)
    return None if definition is None else Paused(routine, definition)


def chain(routine: Any) -> Iterator[Paused]:
    """The frames of a fiber, outermost first. Raises NotPersistable if one of them cannot be saved."""
    while isinstance(routine, (CoroutineType, GeneratorType)):
        frame = paused(routine)
        if frame is None:
            raise NotPersistable(_ordinary(routine), function=routine.__qualname__)
        yield frame
        routine = frame.awaited


def durable_part(routine: Any) -> Iterator[Paused]:
    """The frames of a fiber as far as they are durable, outermost first."""
    while isinstance(routine, (CoroutineType, GeneratorType)) and (frame := paused(routine)) is not None:
        yield frame
        routine = frame.awaited


def not_started(values: Iterable[Any], depth: int = 4) -> Iterator[Any]:
    """Calls of durable functions that have not been awaited, in these values and in containers among them."""
    for value in values:
        if isinstance(value, CoroutineType):
            if value.cr_frame is not None and not value.cr_suspended and not value.cr_running and paused(value):
                yield value
        elif depth and isinstance(value, (list, tuple, set, frozenset, Mapping)) and len(value) <= LARGEST:
            yield from not_started(list(value.values()) if isinstance(value, Mapping) else list(value), depth - 1)


def _ordinary(routine: Any) -> str:
    frame = routine.cr_frame if isinstance(routine, CoroutineType) else routine.gi_frame
    kind = "coroutine" if inspect.iscoroutine(routine) else "generator"
    where = f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "its end"
    return (
        f"the fiber is inside {routine.__qualname__}() at {where}, an ordinary {kind}; decorate it with @fiber or turn "
        "the call into an engine step"
    )


def _short(file: str) -> str:
    return file.rpartition("/")[2]
