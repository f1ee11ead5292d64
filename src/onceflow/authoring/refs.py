"""`onceflow.ref`, and refs in arguments of a program: what they become in a graph.

A ref to a node is an edge like any other: what reads it gets a ref to the output instead of the output. A value that a
program has put becomes a node as well, one that gives the value; so it is stored with the run's arguments, made again
when it is lost, and freed when it is no longer needed.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeVar, cast

from onceflow.authoring.nodes import NodeHandle, PartNode, TaskNode, as_handle
from onceflow.authoring.tasks import task
from onceflow.errors import InvalidRef
from onceflow.values.packed_outputs import Ready
from onceflow.values.put import GivenRef
from onceflow.values.refs import Ref

T = TypeVar("T")


class RefNode(NodeHandle):
    """A node, or a part of one, that is passed as a ref."""

    __slots__ = ("_node",)

    def __init__(self, node: TaskNode | PartNode) -> None:
        self._node = node
        self._workflow = None

    def _place(self) -> tuple[int, int]:
        return self._node._place()

    def __repr__(self) -> str:
        return f"<ref to {self._node!r}>"


def ref(node: T) -> Ref[T]:
    """Passes a node's output as a reference: the task that it is bound to gets a `Ref`, and calls `get()` if it wants
    the value; if it only passes the ref on, nothing is loaded.

        rows = load.bind(path)
        run(choose.bind([ref(rows), ref(other)]))
    """
    if isinstance(node, Ref):  # it is one already
        return node
    handle = as_handle(node, "onceflow.ref")
    if isinstance(handle, TaskNode) and handle._task.settings.num_returns > 1:
        raise InvalidRef(f"{handle!r} has several parts: take refs to those, `ref(node[0])`")
    return cast("Ref[T]", RefNode(handle))


@task.pure(name="put")
def _put(packed: bytes) -> Any:
    return Ready(packed)


def as_node(given: GivenRef[Any]) -> TaskNode:
    """The node that gives what was put. The same one for the same ref."""
    node = _nodes.get(given)
    if node is None:
        node = _nodes[given] = cast("TaskNode", _put.bind(given._packed))
    return node


_nodes: weakref.WeakKeyDictionary[GivenRef[Any], TaskNode] = weakref.WeakKeyDictionary()
