"""Finds the value that prevents pickling: `output['rows'][3].lock` instead of "a dict"."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

DEEPEST = 20
"""Levels that are searched."""


class Culprit(NamedTuple):
    path: str
    value: Any
    reason: str


def find(roots: Iterable[tuple[str, Any]], pickle: Callable[[Any], object], error: Exception) -> Culprit | None:
    """The innermost value for which `pickle` fails, below the first of `roots` (name and value) for which it does. None
    if each of them can be pickled alone. `error` is what pickling all of them raised."""
    found: Culprit | None = None
    children = iter(roots)
    path = ""
    for _ in range(DEEPEST):
        for step, value in children:
            failure = _failure(value, pickle)
            if failure is not None:
                path += step
                found = Culprit(path, value, told(failure))
                if isinstance(failure, RecursionError):  # every level of it fails, and none is to blame
                    return found
                children = _children(value)
                break
        else:
            break
    return found


def told(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "RecursionError: it is nested too deeply"
    return f"{type(error).__name__}: {error}"


def _failure(value: Any, pickle: Callable[[Any], object]) -> Exception | None:
    try:
        pickle(value)
    except Exception as error:
        return error
    return None


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with how it is reached."""
    if isinstance(value, (list, tuple, collections.deque)):
        return ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        return ((f"[{key!r}]", item) for key, item in value.items())
    if isinstance(value, FunctionType):
        return ((f"'s variable {name!r}", item) for name, item in _variables(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    if isinstance(value, type):
        return iter(())
    return ((f".{name}", item) for name, item in _attributes(value))


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What it refers to, besides what it is given."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and not name.startswith("__"):
                yield name, getattr(value, name)
