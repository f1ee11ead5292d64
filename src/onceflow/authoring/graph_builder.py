"""Building: converts the node that a user holds to the graph that core runs.

The graph is walked from its result backwards, each node after those it reads, in the order of the arguments: so the
same program gives the same graph with the same ids. No recursion: a chain may be as long as memory allows.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from onceflow.authoring.calls import Call
from onceflow.authoring.nodes import NodeHandle, PartNode, TaskNode, as_handle, owner_of
from onceflow.authoring.queue_keys import admission_of
from onceflow.authoring.refs import RefNode, as_node
from onceflow.authoring.tasks import task
from onceflow.authoring.workflows import BoundWorkflow
from onceflow.core.model.graph import Edge, Graph, Node, number_ids
from onceflow.errors import InvalidRef, UnpicklableArgument
from onceflow.values import secrets, snapshot
from onceflow.values.fingerprint import Contents, Walk
from onceflow.values.handles import Handle
from onceflow.values.put import GivenRef
from onceflow.values.refs import Ref, ValueRef
from onceflow.values.templates import Arguments, Slot, Template


class WorkflowGraph(Graph):
    """A graph that knows where it came from."""

    workflow: BoundWorkflow | None
    """The workflow that built it, if one was bound."""
    buffers: tuple[pickle.PickleBuffer, ...]
    """The large buffers of all arguments, each once. They still belong to the user until the run is submitted."""
    references: tuple[str, ...] = ()
    """Where they are stored, in their order, once the run is submitted."""


Hold = Callable[[Ref[Any]], int]
"""Takes note of a ref in the arguments of a graph that a task returns, and says which part of the task's output it
is."""


def build_graph(node: object, hold: Hold | None = None) -> WorkflowGraph:
    """The graph whose result is this node's output. Raises `NotANode` for anything else. `hold` is given by a task that
    returns the graph, and whose refs the nodes read from its output."""
    result = as_handle(node, "a graph")
    sink = result if isinstance(result, TaskNode) else owner_of(as_handle(_pick.bind(result), "a graph"))
    replaced: Mapping[TaskNode, TaskNode] = {}
    if TaskNode.has_chains:
        from onceflow.authoring.loops.fused_loops import fused

        replaced = fused(sink, _arguments)
    contents = Contents()
    readings = _read_all(replaced.get(sink, sink), contents, hold, replaced)
    positions = {reading.node: position for position, reading in enumerate(readings)}
    aside = {node for reading in readings for node in reading.node._beside}
    ids = number_ids([reading.node._task.name for reading in readings])
    buffers: dict[Any, pickle.PickleBuffer] = {}
    graph = WorkflowGraph(
        [
            Node(
                id=id,
                task=reading.node._task.name,
                options=reading.node._task.core_options,
                edges=reading.edges(positions),
                parts=reading.node._task.settings.num_returns,
                takes=reading.takes(contents) if reading.node._task._shape.takes else (),
                fingerprint=reading.fingerprint(),
                call=Call(reading.node._task, reading.template(buffers)),
                turn=reading.node._turn,
                aside=reading.node in aside,
                admission=reading.admission,
            )
            for id, reading in zip(ids, readings, strict=True)
        ]
    )
    graph.workflow = result._workflow
    graph.buffers = tuple(buffers.values())
    return graph


@task.pure(name="pick")
def _pick(part: Any) -> Any:
    """The sink of a graph whose result is one part of a task's output."""
    return part


class _Reading:
    """What a node reads: its parents, and where in its arguments they stand."""

    __slots__ = ("_encoded", "_handles", "_hold", "_replaced", "needed", "node", "parents")

    def __init__(
        self, node: TaskNode, contents: Contents, hold: Hold | None, replaced: Mapping[TaskNode, TaskNode]
    ) -> None:
        self.node = node
        self._hold = hold
        self._replaced = replaced
        """Nodes in whose place others go."""
        walk = Walk(contents)
        args, kwargs = _arguments(node)
        self._encoded = [
            part
            for name, value in node._task._shape.items(args, kwargs)
            for part in (name.encode(), walk.encode(value))
        ]
        self._handles: list[Handle] = list(walk.handles)
        """Every handle in the arguments, once. Those inside objects that cannot be compared come last."""
        if node._snapshot is not None and len(node._snapshot.handles) > len(self._handles):
            hidden = [handle for handle in node._snapshot.handles if handle not in walk.handles]
            self._handles += sorted(hidden, key=lambda handle: handle._place())
        self.parents: dict[TaskNode, int] = {}
        """Parent → mask of the parts that are read. The order is that of the edges."""
        for handle in self._handles:
            parent, part = self._source(handle)
            if parent is None:
                continue
            mask = 1 << part if part is not None else (1 << parent._task.settings.num_returns) - 1
            self.parents[parent] = self.parents.get(parent, 0) | mask
        for parent in node._after:
            self.parents.setdefault(replaced.get(parent, parent), 0)
        self.needed: Iterable[TaskNode] = (*node._beside, *self.parents) if node._beside else self.parents
        """What has to be in the graph with it."""

    @property
    def admission(self) -> str | None:
        task = self.node._task
        return None if task.settings.queue is None else admission_of(task, _arguments(self.node))

    def edges(self, positions: Mapping[TaskNode, int]) -> tuple[Edge, ...]:
        return tuple([(positions[parent], mask) for parent, mask in self.parents.items()])

    def takes(self, contents: Contents) -> tuple[Edge, ...]:
        """What is read by parameters that are declared `Exclusive`, by the numbers of the edges."""
        shape = self.node._task._shape
        taken: dict[TaskNode, int] = {}
        for name, value in shape.items(*_arguments(self.node)):
            if name in shape.takes or (name.startswith("**") and "**" in shape.takes):
                walk = Walk(contents)
                walk.encode(value)
                for handle in walk.handles:
                    if isinstance(handle, NodeHandle):
                        parent, part = self._source(handle)
                        assert parent is not None
                        every = (1 << parent._task.settings.num_returns) - 1
                        taken[parent] = taken.get(parent, 0) | (every if part is None else 1 << part)
        return tuple([(number, taken[parent]) for number, parent in enumerate(self.parents) if parent in taken])

    def fingerprint(self) -> str:
        if not self._encoded:
            return ""
        slots = [b"%d.%d" % (edge, -1 if part is None else part) for edge, part in self._slots(self._handles)]
        slots += [b"by ref %d" % number for number in _by_ref(self._handles)]
        seen = hashlib.blake2b(digest_size=16)
        for part in (*self._encoded, b"", *slots):
            seen.update(b"%d:%b" % (len(part), part))
        return seen.hexdigest()

    def template(self, buffers: dict[Any, pickle.PickleBuffer]) -> Template:
        """The arguments as plain data. `buffers` collects the large buffers of the graph."""
        node = self.node
        taken = node._snapshot
        if taken is not None:
            if secrets.MARK in taken.payload:  # sealed before its home was known
                taken = snapshot.take(_arguments(node))
            return Template(
                self._slots(taken.handles),
                payload=taken.payload,
                by_ref=_by_ref(taken.handles),
                buffers=tuple([buffers.setdefault(_memory(buffer), buffer) for buffer in taken.buffers]),
            )
        if not self._handles:
            return Template(args=node._args, kwargs=node._kwargs)
        numbers = {handle: number for number, handle in enumerate(self._handles)}
        holes: list[tuple[int | str, int]] = []
        args = tuple([_without_handle(value, place, numbers, holes) for place, value in enumerate(node._args)])
        kwargs = {name: _without_handle(value, name, numbers, holes) for name, value in (node._kwargs or {}).items()}
        return Template(self._slots(self._handles), args=args, kwargs=kwargs or None, holes=tuple(holes))

    def _slots(self, handles: Iterable[Handle]) -> tuple[Slot, ...]:
        edges = {parent: number for number, parent in enumerate(self.parents)}
        sources = map(self._source, handles)
        # What a returned graph reads of the task that returned it comes after all edges of the node.
        return tuple([(len(edges) if node is None else edges[node], part) for node, part in sources])

    def _source(self, handle: Handle) -> tuple[TaskNode | None, int | None]:
        """The node that a handle reads, and the part, or None for the whole output. The node is None for a ref in a
        graph that a task returns: it is a part of that task's output."""
        node, part = self._named(handle)
        return (node, part) if node is None or not self._replaced else (self._replaced.get(node, node), part)

    def _named(self, handle: Handle) -> tuple[TaskNode | None, int | None]:
        match handle:
            case PartNode():
                return handle._node, handle._part
            case TaskNode():
                return handle, None
            case RefNode():
                return _node_and_part(handle)
            case Ref() if self._hold is not None:
                return None, self._hold(handle)
            case GivenRef():
                return as_node(handle), 0
            case _:
                assert isinstance(handle, Ref)
                if not isinstance(handle, ValueRef):
                    raise InvalidRef(
                        f"{handle!r} cannot be bound into a run: a ref of one's own is made by a task of the run, and "
                        "returned from it. Bind what is needed to make it"
                    )
                raise InvalidRef(
                    f"{handle!r} cannot be bound into a run: it belongs to {handle._whose}. Bind what `get()` gives, "
                    "or `onceflow.put` of that"
                )


def _by_ref(handles: Sequence[Handle]) -> tuple[int, ...]:
    """The numbers of those that are read as refs."""
    return tuple([number for number, handle in enumerate(handles) if isinstance(handle, Ref | RefNode)])


def _read_all(
    sink: TaskNode, contents: Contents, hold: Hold | None, replaced: Mapping[TaskNode, TaskNode]
) -> list[_Reading]:
    """Every node that leads to the sink, each after its parents."""
    finished: list[_Reading] = []
    seen = {sink}
    first = _Reading(sink, contents, hold, replaced)
    stack: list[tuple[_Reading, Iterator[TaskNode]]] = [(first, iter(first.needed))]
    while stack:
        reading, parents = stack[-1]
        for parent in parents:
            if parent not in seen:
                seen.add(parent)
                further = _Reading(parent, contents, hold, replaced)
                stack.append((further, iter(further.needed)))
                break
        else:
            finished.append(reading)
            stack.pop()
    return finished


def _arguments(node: TaskNode) -> Arguments:
    """The arguments as they were at bind, with the handles in them."""
    if node._snapshot is None:
        return node._args, node._kwargs or {}
    try:
        arguments: Arguments = node._snapshot.load()
    except Exception as error:
        reason = f"it became bytes, but loading them raised {type(error).__name__}: {error}"
        raise UnpicklableArgument(node._task.name, "list", reason) from error
    return arguments


def _node_and_part(ref: RefNode) -> tuple[TaskNode, int]:
    node = ref._node
    return (node._node, node._part) if isinstance(node, PartNode) else (node, 0)


def _without_handle(
    value: Any, place: int | str, numbers: Mapping[Handle, int], holes: list[tuple[int | str, int]]
) -> Any:
    if not isinstance(value, NodeHandle):
        return value
    holes.append((place, numbers[value]))
    return None


def _memory(buffer: pickle.PickleBuffer) -> tuple[Any, ...]:
    """What identifies the memory of a buffer. Each pickling makes a new view of it."""
    view = memoryview(buffer)
    place = getattr(view.obj, "__array_interface__", None)
    return (place["data"][0] if place else id(view.obj), view.nbytes)
