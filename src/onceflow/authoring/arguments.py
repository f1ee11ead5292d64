"""Arguments at bind: kept as they are if nothing in them can change, else frozen as a snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from onceflow.authoring.nodes import PartNode, TaskNode
from onceflow.errors import UnpicklableArgument
from onceflow.values import snapshot
from onceflow.values.snapshot import LARGE, Snapshot

UNCHANGING = frozenset((int, str, TaskNode, PartNode, float, bool, type(None), complex))
"""Types of which no value ever changes, and nodes. (`bytes` too, but large ones are to be stored once per run.)"""

_DEEPEST = 20
"""Levels in which the culprit of a failed snapshot is searched."""


def freeze(task: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Snapshot | None:
    """A snapshot of the arguments, or None if they can be kept as they are. `names` are those of the positions."""
    for value in args:
        if type(value) not in UNCHANGING and not (type(value) is bytes and len(value) <= LARGE):
            break
    else:
        for value in kwargs.values():
            if type(value) not in UNCHANGING and not (type(value) is bytes and len(value) <= LARGE):
                break
        else:
            return None
    try:
        return snapshot.take((args, kwargs))
    except Exception as error:
        path, cause = _culprit(names, args, kwargs, error)
        raise UnpicklableArgument(task, path, f"{type(cause).__name__}: {cause}") from cause


def _culprit(
    names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> tuple[str, Exception]:
    """Where the value stands that cannot be pickled, and why it cannot."""
    children: Iterator[tuple[str, Any]] = iter(
        [(names[i] if i < len(names) else f"*[{i - len(names)}]", value) for i, value in enumerate(args)]
        + list(kwargs.items())
    )
    path = ""
    for _ in range(_DEEPEST):
        for step, value in children:
            failure = _failure(value)
            if failure is not None:
                path, error = path + step, failure
                children = _children(value)
                break
        else:
            break
    return path or "list", error


def _failure(value: Any) -> Exception | None:
    try:
        snapshot.take(value)
    except Exception as error:
        return error
    return None


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        return ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        return ((f"[{key!r}]", item) for key, item in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return iter(())
    return ((f".{name}", item) for name, item in vars(value).items())
