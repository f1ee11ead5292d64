"""Loops over the results of loops, run as one: chunk by chunk, as results come.

`for_each(g, for_each(f, items))` could wait for all that `f` gives, and nothing would be wrong. But if the inner loop
has no other reader, the two become one loop when the graph is built: each of its chunks calls `f`, and what that gives
goes to a chunk that calls `g`, while other chunks of `f` have yet to start. `reduce` takes the results of a loop in the
same way. If the inner loop has another reader, it stays what it is, and is run once. So it does if the two have
different handlers: those of a loop answer for its items, and for no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from onceflow.authoring.loops.chunk_graphs import Stage
from onceflow.authoring.loops.roles import Role, in_role, is_saved
from onceflow.authoring.nodes import TaskNode
from onceflow.values.templates import Arguments


def fused(sink: TaskNode, arguments: Any) -> Mapping[TaskNode, TaskNode]:
    """The nodes of a graph in whose place others go. `arguments` gives those of a node."""
    readers = _readers(sink)
    loops = [node for node in readers if node._over is not None]
    found: dict[TaskNode, TaskNode] = {}
    for node in reversed(loops):  # inner ones are met after those that read them
        inner = node._over
        assert inner is not None
        waits = node._task.function.task.settings.queue is not None  # type: ignore[attr-defined]
        if readers[inner] == 1 and not _role(node).limit and not waits and _have_equal_handlers(inner, node):
            found[node] = _as_one(found.get(inner, inner), node, arguments)
    return found


def _readers(sink: TaskNode) -> dict[TaskNode, int]:
    """Every node that leads to the sink, each after one that reads it → in how many places it is read."""
    readers = {sink: 0}
    waiting = [sink]
    while waiting:
        for parent in waiting.pop()._parents():
            if parent not in readers:
                readers[parent] = 0
                waiting.append(parent)
            readers[parent] += 1
    return readers


def _have_equal_handlers(inner: TaskNode, outer: TaskNode) -> bool:
    """Those of the inner loop are in force for all that the two become. (What reduces has those of its task only.)"""
    handlers, role = _role(inner).handlers, _role(outer)
    if role.kind == "fold":
        own = outer._task.function.task.settings.handlers  # type: ignore[attr-defined]
        return all(one in own for one in handlers)
    return role.handlers == handlers


def _as_one(inner: TaskNode, outer: TaskNode, arguments: Any) -> TaskNode:
    """`inner` is a loop, and `outer` is a loop over what it gives, or reduces that."""
    (items, given, by_ref, *rest), _ = arguments(inner)
    then = rest[0] if rest else ()
    stage = _stage(outer, arguments(outer))
    role = _role(inner)
    subject = stage.task.function.task
    saved = role.saved or is_saved(subject, _role(outer))
    together = in_role(inner._task.function.task, msgspec.structs.replace(role, name=outer._task.name, saved=saved))  # type: ignore[attr-defined]
    node: Any = together.bind(items, given, by_ref, (*then, stage))
    return node  # type: ignore[no-any-return]


def _stage(outer: TaskNode, given: Arguments) -> Stage:
    if _role(outer).kind == "fold":
        initial, _, shared, by_ref = given[0]
        return Stage(outer._task, shared, by_ref, initial)
    return Stage(outer._task, given[0][1], given[0][2])


def _role(node: TaskNode) -> Role:
    role: Role = node._task._given["role"]
    return role
