"""Returned graphs, and the fibers in them, seen from outside: without any code of the user's.

A graph that a task returned is read with its tasks as names (`values.inert`), so it makes no difference whether their
modules are there, and what would happen if they were imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from onceflow.authoring.awaiting import segments
from onceflow.authoring.awaiting.continuations import Continuation
from onceflow.authoring.calls import Call
from onceflow.authoring.fibers import rebuilding
from onceflow.authoring.fibers.snapshots import body_of
from onceflow.core.graph import Graph, Node
from onceflow.errors import FunctionNotLoaded
from onceflow.values.inert import Made, Reader, name_of

_OURS = ("onceflow.core.", "onceflow.authoring.building", "onceflow.authoring.calls", "onceflow.values.templates")
"""What graphs are made of, apart from tasks."""

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
    try:
        graph: Graph = graph_reader(value).load()
    except Exception as error:
        raise FunctionNotLoaded(node, "the graph that it returned", f"{type(error).__name__}: {error}") from error
    return graph


class SeenCall(Call):
    """The call of a task of which only the name is known."""

    @property
    def version(self) -> str:
        return self._recorded

    @property
    def metadata(self) -> str | None:
        return self._stored_metadata


class _GraphReader(Reader):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return SeenCall if found is Call else found


def graph_reader(value: bytes) -> Reader:
    return _GraphReader(value, lambda module: module.startswith(_OURS))


def is_segment(node: Node) -> bool:
    """Whether this node of a graph that was read here goes on with a fiber that waits."""
    return name_of(_base(getattr(node.call, "task", None))) == _RESUME


def continuation_in(node: Node) -> Continuation | None:
    """Where a fiber stands that this node goes on with or begins with; None if it does neither, or if nothing of the
    fiber is known but its name."""
    if name_of(_base(getattr(node.call, "task", None))) in (_RESUME, _BEGIN):
        return segments.continuation_in(node)
    return None


def fiber_in(task: Any) -> str | None:
    """The name of the fiber with whose call this task, as it was read here, begins."""
    base = _base(task)
    if isinstance(base, Made) and (base.module, base.qualname) == _FIBER:
        ref: str = base.args[0]
        return ref
    return None


def is_caught(task: Any) -> bool:
    """Whether a fiber has called this task, as it was read here, so that its errors are values."""
    return isinstance(task, Made) and (task.module, task.qualname) == _CATCHING


Kind = Literal["task", "fiber", ""]
"""What a name has to stand for; empty if that is not known."""

Names = dict[tuple[str, str], Kind]
"""Module and qualified name."""


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
    """Nothing of the user's is called or imported."""
    reader = Reader(body_of(continuation.snapshot))
    chain = reader.load()
    states, _ = reader.load()
    while not reader.is_at_end:
        reader.load()
    frames = [_frame(what, state) for what, state in zip(chain, states, strict=True)]
    held = {id(made.args[0]): made.args[1] for made in reader.made_by(_REBUILDING, "set_frame")}
    frames += [_frame(made.args, held[id(made)]) for made in reader.made_by(_REBUILDING, "frame")]
    inner = [(made.args[0], made.args[1]) for made in reader.made_by(_REBUILDING, "function")]
    return Contents(frames, inner, names_in(reader))


def names_in(reader: Reader, graph: Graph | None = None) -> Names:
    """What a pickle refers to by name, durable functions and classes of scripts too. `graph` is what was read."""
    names: Names = dict.fromkeys(reader.names, "")
    names |= {(made.args[0], made.args[1]): "" for made in reader.made_by(_REBUILDING, "named")}
    for maker in ((_REBUILDING, "durable"), _FIBER):
        names |= {tuple(made.args[0].split(":", 1)): "fiber" for made in reader.made_by(*maker)}
    tasks = [made.args[0] for maker in _AROUND for made in reader.made_by(*maker)]
    tasks += [node.call.task for node in (() if graph is None else graph.nodes)]
    names |= {name: "task" for task in tasks if (name := name_of(_base(task))) is not None}
    return names


def _frame(what: Sequence[Any], state: Sequence[Any]) -> Frame:
    ref, version, number, *cells = what
    captured = cells[0] if cells else {}
    return Frame(ref, version, number, (*state[2], *captured))


def _base(task: Any) -> Any:
    while isinstance(task, Made) and (task.module, task.qualname) in _AROUND:
        task = task.args[0]
    return task
