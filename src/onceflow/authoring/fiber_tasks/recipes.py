"""Recipes: a graph that a fiber has bound, as a value.

What fails in a graph that a fiber awaits is raised in the fiber. So the graph is one that a task has returned, and that
task is asked to catch errors (design 2.8); and what the task returns it is given as a recipe.

A node among the variables of a fiber is such a value, too: it is saved with the fiber, each once, however many
variables name it, and nothing is carried out before it is awaited. (`bound` and the classes of nodes stand in
snapshots: their names may never change.)
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Container, Sequence
from typing import Any

import msgspec

from onceflow.authoring.fiber_tasks.state import State, limited
from onceflow.authoring.fibers import pickling
from onceflow.authoring.nodes import NodeHandle, PartNode, TaskNode, owner_of
from onceflow.authoring.refs import RefNode
from onceflow.authoring.tasks import AnyTask, catching, task
from onceflow.core.model.graph import Turn
from onceflow.values.snapshot import Snapshot


class _Hole(msgspec.Struct, frozen=True):
    """Stands for a node among arguments."""

    node: int
    """Its place in the recipe."""
    part: int | None
    by_ref: bool


class _Step(msgspec.Struct):
    """One node. Either its arguments are there, or a snapshot of them."""

    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    payload: bytes | None
    handles: list[Any]
    buffers: list[Any]
    after: list[int]
    over: int | None
    turn: Turn | None


class Recipe(msgspec.Struct):
    """A graph as it was bound. It can be pickled wherever its arguments can."""

    steps: list[_Step]
    part: int | None
    """Of the last node, if only one is wanted."""

    @classmethod
    def of(cls, node: Any) -> Recipe:
        """Of what was bound."""
        nodes = _parents_first(owner_of(node))
        places = {node: place for place, node in enumerate(nodes)}
        steps = [_step(node, places) for node in nodes]
        return cls(steps, node._part if isinstance(node, PartNode) else None)

    def node(self) -> Any:
        """The graph once more."""
        nodes: list[TaskNode] = []
        for step in self.steps:
            nodes.append(_node(step, nodes))
        return nodes[-1] if self.part is None else nodes[-1][self.part]


def _parents_first(node: TaskNode, but: Container[TaskNode] = ()) -> list[TaskNode]:
    """Every node that leads to this one, which comes last, but those. No recursion: chains may be long."""
    found: dict[TaskNode, None] = {}
    stack = [node]
    while stack:
        missing = [parent for parent in stack[-1]._parents() if parent not in found and parent not in but]
        if missing:
            stack += missing
        else:
            found.setdefault(stack.pop())
    return list(found)


def _step(node: TaskNode, places: dict[TaskNode, int]) -> _Step:
    def hole(value: Any) -> Any:
        if not isinstance(value, NodeHandle):
            return value
        named = value._node if isinstance(value, RefNode) else value
        part = named._part if isinstance(named, PartNode) else None
        return _Hole(places[owner_of(named)], part, isinstance(value, RefNode))

    frozen = node._snapshot
    return _Step(
        node._task,
        tuple([hole(value) for value in node._args]),
        None if node._kwargs is None else {name: hole(value) for name, value in node._kwargs.items()},
        None if frozen is None else frozen.payload,
        [] if frozen is None else [hole(value) for value in frozen.handles],
        [] if frozen is None else list(frozen.buffers),
        [places[parent] for parent in node._after],
        None if node._over is None else places[node._over],
        node._turn,
    )


def _node(step: _Step, nodes: list[TaskNode]) -> TaskNode:
    def filled(value: Any) -> Any:
        if not isinstance(value, _Hole):
            return value
        node: Any = nodes[value.node]
        named = node if value.part is None else node[value.part]
        return RefNode(named) if value.by_ref else named

    return bound(
        (),
        step.task,
        tuple([filled(value) for value in step.args]),
        None if step.kwargs is None else {name: filled(value) for name, value in step.kwargs.items()},
        step.payload,
        [filled(value) for value in step.handles],
        step.buffers,
        [nodes[place] for place in step.after],
        None if step.over is None else nodes[step.over],
        step.turn,
    )


def bound(
    earlier: Sequence[TaskNode],
    task: AnyTask[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    payload: bytes | None,
    handles: Sequence[Any],
    buffers: Sequence[Any],
    after: Sequence[TaskNode],
    over: TaskNode | None,
    turn: Turn | None,
) -> TaskNode:
    """A node as it was bound. `earlier` is for unpickling: what had to be made before it."""
    frozen = None
    if payload is not None:
        frozen = Snapshot(payload, tuple(handles), tuple([pickle.PickleBuffer(buffer) for buffer in buffers]))
    node = TaskNode(task, args, kwargs, frozen, tuple(after))
    node._over = over
    node._turn = turn
    TaskNode.has_chains = TaskNode.has_chains or over is not None
    return node


def _pickled(pickler: pickling.FiberPickler, node: TaskNode) -> Any:
    """The nodes that lead to it stand before it in one list, so that no pickle is as deep as a graph is long."""
    *earlier, _ = _parents_first(node, pickler.listed)
    pickler.listed.update(earlier)
    frozen = node._snapshot
    kept = (None, (), ()) if frozen is None else (frozen.payload, frozen.handles, frozen.buffers)
    return bound, (earlier, node._task, node._args, node._kwargs, *kept, node._after, node._over, node._turn)


def _pickled_part(pickler: pickling.FiberPickler, part: PartNode) -> Any:
    return operator.getitem, (part._node, part._part)


def _pickled_ref(pickler: pickling.FiberPickler, ref: RefNode) -> Any:
    return RefNode, (ref._node,)


pickling.rules |= {TaskNode: _pickled, PartNode: _pickled_part, RefNode: _pickled_ref}


@task(name="graph", effect="none", deterministic=True)
def _graph(recipe: Any) -> Any:
    return recipe.node()


def in_graph(recipe: Recipe, state: State) -> Any:
    """A node that gives (what the graph of this recipe gives, None), or (None, what it raised)."""
    opened: AnyTask[..., Any] = _graph.options(handlers=state.in_force) if state.handlers else _graph
    if state.until is not None:
        opened = limited(opened, state.until)
    return catching(opened).bind(recipe)
