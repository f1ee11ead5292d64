"""Arguments at bind: kept as they are if nothing in them can change, else frozen as a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceflow.authoring.nodes import PartNode, TaskNode
from onceflow.errors import UnpicklableArgument
from onceflow.values import snapshot
from onceflow.values.snapshot import LARGE, Snapshot

UNCHANGING = frozenset((int, str, TaskNode, PartNode, float, bool, type(None), complex))
"""Types of which no value ever changes, and nodes. (`bytes` too, but large ones are to be stored once per run.)"""


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
        from onceflow.values import culprits  # seldom needed

        given = [(names[i] if i < len(names) else f"*[{i - len(names)}]", value) for i, value in enumerate(args)]
        found = culprits.find([*given, *kwargs.items()], snapshot.take, error)
        if found is None:
            raise UnpicklableArgument(task, "list", culprits.told(error)) from error
        raise UnpicklableArgument(task, found.path, found.reason) from error
