"""Where a fiber stands, for people. Nothing here runs user code: values of classes that are not built in are shown by
the name of their class."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from onceflow.authoring.fibers import frames
from onceflow.authoring.fibers.frames import Paused
from onceflow.authoring.fibers.ops import Op

LONGEST = 60
"""Characters of a value that are shown."""
MOST = 4
"""Items of a container that are shown."""
DEEPEST = 3


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
    """All frames, outermost first."""
    return [_describe(frame) for frame in frames.chain(routine)]


def _describe(frame: Paused) -> FrameInfo:
    point = frame.point
    return FrameInfo(
        frame.name,
        frame.definition.version.file,
        frame.line,
        point.label if point else None,
        {name: short(value) for name, value in frame.all_variables().items()},
    )


def short(value: Any, depth: int = DEEPEST) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}…"
    if kind is int:
        return repr(value) if value.bit_length() < 200 else f"int of {value.bit_length()} bits"
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind in (list, tuple, set, frozenset, dict):
        return _container(value, depth)
    if isinstance(value, Op):
        return _call(value, depth)
    if isinstance(value, type):
        return value.__qualname__
    return f"<{kind.__qualname__}>"


def _container(value: Any, depth: int) -> str:
    opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    if not value:
        return f"{opening}{closing}" if isinstance(value, (list, tuple, dict)) else f"{type(value).__name__}()"
    if depth == 0:
        return f"{opening}…{closing}"
    if isinstance(value, dict):
        items: Iterable[str] = (
            f"{short(key, depth - 1)}: {short(item, depth - 1)}" for key, item in _few(value.items())
        )
    else:
        items = (short(item, depth - 1) for item in _few(value))
    inside = ", ".join(items)
    if len(value) > MOST:
        inside += f", … ({len(value)})"
    elif isinstance(value, tuple) and len(value) == 1:
        inside += ","
    return f"{opening}{inside}{closing}"


def _few(items: Iterable[Any]) -> list[Any]:
    return [item for item, _ in zip(items, range(MOST), strict=False)]


def _call(op: Op, depth: int) -> str:
    arguments = [short(value, depth - 1) for value in op.args]
    arguments += [f"{name}={short(value, depth - 1)}" for name, value in op.kwargs.items()]
    return f"{type(op).__name__}({', '.join([repr(op.name), *arguments])})"
