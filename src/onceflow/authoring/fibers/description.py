"""Where a fiber is paused, for users. Nothing here runs user code: values of classes that are not built in are shown by
the name of their class, and secrets are masked."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from types import CoroutineType, GeneratorType
from typing import Any

from onceflow.authoring.fibers import frames
from onceflow.authoring.fibers.frames import Paused
from onceflow.authoring.fibers.ops import Op

LONGEST = 60
"""Characters of a value that are shown."""
MOST = 4
"""Items of a container that are shown."""
DEEPEST = 3
BIG = 10**LONGEST

mask: Callable[[Any], Any] | None = None
"""Makes of a text, or of bytes, what may be shown. Set by the code that knows of secrets."""


@dataclasses.dataclass(frozen=True, slots=True)
class FrameInfo:
    """One function of a fiber that waits."""

    function: str
    file: str
    line: int
    label: str | None
    """Of the place, if the operation there has one."""
    locals: dict[str, str]
    """Its variables, shortened."""


def describe(routine: Any) -> list[FrameInfo]:
    """All frames, outermost first, ordinary coroutines too."""
    found: list[FrameInfo] = []
    while isinstance(routine, (CoroutineType, GeneratorType)):
        frame = frames.paused(routine)
        if frame is not None:
            found.append(of_frame(frame))
            routine = frame.awaited
        else:
            found.append(_ordinary(routine))
            routine = frames.awaited_by(routine)
    return found


def _ordinary(routine: Any) -> FrameInfo:
    code = routine.cr_code if isinstance(routine, CoroutineType) else routine.gi_code
    frame = routine.cr_frame if isinstance(routine, CoroutineType) else routine.gi_frame
    return FrameInfo(routine.__qualname__, code.co_filename, frame.f_lineno if frame else 0, None, {})


def of_frame(frame: Paused) -> FrameInfo:
    point = frame.point
    return FrameInfo(
        frame.name,
        frame.definition.version.file,
        frame.line,
        point.label if point else None,
        shown(frame),
    )


def shown(frame: Paused) -> dict[str, str]:
    """The user's variables."""
    values = frame.values
    return {name: short(values[name]) for name in frame.definition.variables if name in values}


def short(value: Any, depth: int = DEEPEST) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is int:
        return repr(value) if -BIG < value < BIG else f"int of {value.bit_length()} bits"
    if kind is str or kind is bytes:
        value = value if mask is None else mask(value)
        return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}…"
    if kind in _CONTAINERS:
        return _container(value, depth)
    if isinstance(value, Op):
        return value.told or _call(value, depth)
    if isinstance(value, type):
        return value.__qualname__
    return f"<{kind.__qualname__}>"


_PLAIN = frozenset({bool, float, complex, type(None)})
_CONTAINERS = frozenset({list, tuple, set, frozenset, dict})


def _container(value: Any, depth: int) -> str:
    opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    if not value:
        return f"{opening}{closing}" if isinstance(value, (list, tuple, dict)) else f"{type(value).__name__}()"
    if depth == 0:
        return f"{opening}…{closing}"
    depth -= 1
    if isinstance(value, dict):
        items = [f"{short(key, depth)}: {short(item, depth)}" for key, item in itertools.islice(value.items(), MOST)]
    else:
        items = [short(item, depth) for item in itertools.islice(value, MOST)]
    inside = ", ".join(items)
    if len(value) > MOST:
        inside += f", … ({len(value)})"
    elif isinstance(value, tuple) and len(value) == 1:
        inside += ","
    return f"{opening}{inside}{closing}"


def _call(op: Op, depth: int) -> str:
    arguments = [short(value, depth - 1) for value in op.args]
    arguments += [f"{name}={short(value, depth - 1)}" for name, value in op.kwargs.items()]
    return f"{type(op).__name__}({', '.join([repr(op.name), *arguments])})"
