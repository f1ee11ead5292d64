"""Returned graphs, and the fibers in them, seen from outside: without any code of the user's.

A graph that a task returned is read with its tasks as names (`values.inert`), so it makes no difference whether their
modules are there, and what would happen if they were imported. Only the classes in `_MAKERS` are made, by functions
that check what they are given: whatever the bytes are, they become a well-formed graph or an error.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from onceflow.authoring.calls import Call
from onceflow.authoring.fiber_tasks import segments
from onceflow.authoring.fiber_tasks.continuations import Continuation
from onceflow.authoring.fibers import rebuilding
from onceflow.authoring.fibers.snapshots import body_of
from onceflow.authoring.options import MOST_RETURNS
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Edge, Graph, Node, Turn
from onceflow.errors import BadSnapshot, FunctionNotLoaded
from onceflow.values.inert import PERSISTENT, Made, Makers, Reader, name_of
from onceflow.values.templates import Template

T = TypeVar("T")

_TASKS = "onceflow.authoring.tasks"
_CATCHING = _TASKS, "catching"
_AROUND = {_CATCHING, (_TASKS, "_with_options"), ("onceflow.authoring.loops.roles", "in_role")}
"""What makes a task of another one, its first argument."""

_RESUME = segments.__name__, "resume"
_BEGIN = segments.__name__, "begin"
_FIBER = segments.__name__, "fiber_task"
_REBUILDING = rebuilding.__name__


def load_graph(node: str, value: bytes) -> Graph:
    """The graph that this task returned, as `driver.entries.load_graph` would give it, with names for its tasks."""
    return read_graph(node, value)[0]


def read_graph(node: str, value: bytes) -> tuple[Graph, Reader]:
    """The same, with the reader, which knows what the graph refers to."""
    reader = Reader(value, _MAKERS)
    try:
        return _graph(reader.load()), reader
    except Exception as error:
        raise FunctionNotLoaded(node, "the graph that it returned", f"{type(error).__name__}: {error}") from error


class SeenCall(Call):
    """The call of a task of which only the name is known."""

    @property
    def version(self) -> str:
        return self._recorded

    @property
    def metadata(self) -> str | None:
        return self._stored_metadata


def _graph(made: Any) -> Graph:
    if not isinstance(made, Made) or made.name not in _GRAPHS or type(made.state) is not tuple:
        raise pickle.UnpicklingError("this is not a graph")
    _, slots = made.state
    return Graph([_checked(node, Node) for node in slots["nodes"]], _checked(slots["sink"], int))


def _checked(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise pickle.UnpicklingError(f"there is a {type(value).__name__} where a {kind.__name__} was expected")
    return value


def _edges(value: Any) -> tuple[Edge, ...]:
    for parent, mask in _checked(value, tuple):
        if type(parent) is not int or type(mask) is not int or parent < 0 or mask < 0:
            raise pickle.UnpicklingError("an edge is not made of two numbers")
    return value  # type: ignore[no-any-return]


def _node(
    id: Any,
    task: Any,
    options: Any,
    edges: Any,
    parts: Any,
    takes: Any,
    fingerprint: Any,
    call: Any,
    turn: Any,
    aside: Any,
    admission: Any,
) -> Node:
    if not 1 <= _checked(parts, int) <= MOST_RETURNS:
        raise pickle.UnpicklingError(f"a task has {parts} outputs")
    return Node(
        _checked(id, str),
        _checked(task, str),
        _checked(options, Options),
        _edges(edges),
        parts,
        _edges(takes),
        _checked(fingerprint, str),
        _checked(call, SeenCall),
        None if turn is None else _checked(turn, Turn),
        _checked(aside, bool),
        None if admission is None else _checked(admission, str),
    )


def _options(*fields: Any) -> Options:
    return msgspec.convert(dict(zip(Options.__struct_fields__, fields, strict=False)), Options)


def _turn(*fields: Any) -> Turn:
    return msgspec.convert(fields, Turn)


def _template(*fields: Any) -> Template:
    template = Template(*fields)
    for value in (template.slots, template.args, template.buffers):
        _checked(value, tuple)
    if template.payload is not None:
        _checked(template.payload, bytes)
    return template


def _call(task: Any, template: Any, version: Any = "", metadata: Any = None) -> SeenCall:
    told = None if metadata is None else _checked(metadata, str)
    return SeenCall(task, _checked(template, Template), _checked(version, str), told)


_MAKERS: Makers = {
    ("onceflow.authoring.graph_builder", "WorkflowGraph"): None,
    ("onceflow.authoring.calls", "Call"): _call,
    ("onceflow.core.model.effects", "Options"): _options,
    ("onceflow.core.model.graph", "Graph"): None,
    ("onceflow.core.model.graph", "Node"): _node,
    ("onceflow.core.model.graph", "Turn"): _turn,
    ("onceflow.values.templates", "Template"): _template,
}
"""What graphs are made of, apart from tasks and arguments."""

_GRAPHS = {name for name, make in _MAKERS.items() if make is None}


def is_segment(node: Node) -> bool:
    """Whether this node of a graph that was read here goes on with a fiber that waits."""
    return name_of(_base(getattr(node.call, "task", None))) == _RESUME


def continuation_in(node: Node) -> Continuation | None:
    """Where a fiber stands that this node goes on with or begins with; None if it does neither, or if nothing of the
    fiber is known but its name."""
    if name_of(_base(getattr(node.call, "task", None))) not in (_RESUME, _BEGIN):
        return None
    template = node.call.template
    try:
        args = template.args
        if template.payload is not None:
            args = Reader(template.payload, buffers=template.buffers).load()[0]
        return Continuation(_bytes(args[0]), _bytes(args[1]))
    except (pickle.UnpicklingError, LookupError, TypeError) as error:
        raise BadSnapshot(f"the fiber that {node.id} goes on with cannot be read: {error}") from error


def _bytes(value: Any) -> bytes:
    """An argument. If it is large, it was set aside, and its type stands beside it."""
    if isinstance(value, Made) and value.maker is PERSISTENT:
        _, value = value.args[0]
    return _checked(value, bytes)


def fiber_in(task: Any) -> str | None:
    """The name of the fiber with whose call this task, as it was read here, begins."""
    base = _base(task)
    if isinstance(base, Made) and base.name == _FIBER and base.args and isinstance(base.args[0], str):
        return base.args[0]
    return None


def named_task(task: Any) -> tuple[str, str] | None:
    """Module and name of the task that this one, as it was read here, is or was made of; None if it has none."""
    return name_of(_base(task))


def is_caught(task: Any) -> bool:
    """Whether a fiber has called this task, as it was read here, so that its errors are values."""
    return isinstance(task, Made) and task.name == _CATCHING


Kind = Literal["task", "fiber", ""]
"""What a name has to stand for; empty if that is not known."""

Names = dict[tuple[str, str], Kind]
"""Module and qualified name; the latter is empty where a module itself is meant."""


class Frame(NamedTuple):
    """A function that is saved in the midst of it."""

    ref: str
    version: str
    number: int
    """Of the point where it stands."""
    variables: tuple[str, ...]


class Contents(NamedTuple):
    """What a continuation is made of, by name."""

    frames: list[Frame]
    """Of the fiber, innermost first, then of coroutines and generators among its variables."""
    inner: list[tuple[str, str]]
    """Name and version of the durable functions of which it has inner functions."""
    names: Names
    """Everything else."""


def contents_of(continuation: Continuation) -> Contents:
    """Nothing of the user's is called or imported. Raises `BadSnapshot`."""
    try:
        reader = Reader(body_of(continuation.snapshot))
        chain = reader.load()
        states, _ = reader.load()
        while not reader.is_at_end:
            reader.load()
        frames = [_frame(what, state) for what, state in zip(chain, states, strict=True)]
        held = {id(made.args[0]): made.args[1] for made in reader.made_by(_REBUILDING, "set_frame")}
        frames += [_frame(made.args, held[id(made)]) for made in reader.made_by(_REBUILDING, "frame")]
        inner = [
            (_checked(made.args[0], str), _checked(made.args[1], str))
            for made in reader.made_by(_REBUILDING, "function")
        ]
        return Contents(frames, inner, names_in(reader))
    except (pickle.UnpicklingError, LookupError, TypeError, ValueError) as error:
        raise BadSnapshot(f"where the fiber stands cannot be read: {error}") from error


def names_in(reader: Reader, graph: Graph | None = None) -> Names:
    """What a pickle refers to by name, durable functions and classes of scripts too. `graph` is what was read."""
    names: Names = dict.fromkeys(reader.names, "")
    names |= {_pair(*made.args): "" for made in reader.made_by(_REBUILDING, "named")}
    names |= {_pair(made.args[0], ""): "" for made in reader.made_by("cloudpickle.cloudpickle", "subimport")}
    for maker in ((_REBUILDING, "durable"), _FIBER):
        names |= {_pair(*_checked(made.args[0], str).split(":", 1)): "fiber" for made in reader.made_by(*maker)}
    tasks = [made.args[0] for maker in _AROUND for made in reader.made_by(*maker)]
    tasks += [node.call.task for node in (() if graph is None else graph.nodes)]
    names |= {name: "task" for task in tasks if (name := name_of(_base(task))) is not None}
    return names


def _pair(module: Any, name: Any) -> tuple[str, str]:
    return _checked(module, str), _checked(name, str)


def _frame(what: Sequence[Any], state: Sequence[Any]) -> Frame:
    ref, version, number, *cells = what
    captured = cells[0] if cells else {}
    variables = tuple([_checked(name, str) for name in (*state[2], *captured)])
    return Frame(_checked(ref, str), _checked(version, str), _checked(number, int), variables)


def _base(task: Any) -> Any:
    while isinstance(task, Made) and task.name in _AROUND and task.args:
        task = task.args[0]
    return task
