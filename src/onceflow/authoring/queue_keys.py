"""The key of a call in its task's queue (`queue_key`): computed from its arguments when the graph is built."""

from __future__ import annotations

import inspect
from string import Formatter
from typing import TYPE_CHECKING, Any

from onceflow.errors import InvalidOption
from onceflow.values.fingerprint import Contents, Walk
from onceflow.values.templates import Arguments

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask


def admission_of(task: AnyTask[..., Any], arguments: Arguments) -> str | None:
    """The key of this call; empty if it has none, and None if the task is in no queue."""
    settings = task.settings
    if settings.queue is None:
        return None
    key = settings.queue_key
    if key is None:
        return ""
    values = _values(task, arguments)
    if isinstance(key, str):
        wanted = [name.partition(".")[0].partition("[")[0] for _, name, _, _ in Formatter().parse(key) if name]
    else:
        wanted = list(inspect.signature(key).parameters)
    for name in wanted:
        if name not in values:
            problem = f"queue_key names {name!r}, which is no parameter of it; they are {', '.join(values) or 'none'}"
            raise InvalidOption(task.name, problem)
        walk = Walk(Contents())
        walk.encode(values[name])
        if walk.handles:
            raise InvalidOption(
                task.name,
                f"queue_key depends on {name!r}, which is the output of another task here and not known yet. Use an "
                "argument that is, or have a task return the graph with this call",
            )
    return key.format(**values) if isinstance(key, str) else str(key(**{name: values[name] for name in wanted}))


def _values(task: AnyTask[..., Any], arguments: Arguments) -> dict[str, Any]:
    """The parameters of the user's function, and what it is called with."""
    args, kwargs = arguments
    role = task._given.get("role")
    if role is None:
        return task._shape.complete(args, kwargs)
    subject: AnyTask[..., Any] = task.function.task  # type: ignore[attr-defined]
    item = args[0] if role.kind == "item" else args[0][0]  # an item with a key runs by itself
    return subject._shape.complete((item,), args[1])
