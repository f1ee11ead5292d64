"""Nodes as users hold them: what `.bind(...)` gives.

A node stands for the output of a task that has not run. It may stand anywhere in the arguments of another task. For a
type checker it *is* that output, so everything else one might do with an output must fail loudly here: a node that is
tested, compared or iterated would otherwise take a wrong turn in silence. Only `==` and `hash` keep their meaning of
identity, because containers need them.

All attributes are private: a public one would hide that `node.name` cannot be the output's `name`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from onceflow.errors import NoAttributeYet, NoSuchPart, NotANode, NoValueYet
from onceflow.values.handles import Handle
from onceflow.values.snapshot import Snapshot

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask
    from onceflow.authoring.workflows import BoundWorkflow
    from onceflow.core.model.graph import Turn

_count = itertools.count()


class Made(list["TaskNode"]):
    """The nodes that a workflow function has bound. What another workflow built counts as one, its result."""

    def __init__(self) -> None:
        super().__init__()
        self.everything: list[TaskNode] = []
        """Those that it has bound, and those that workflows have bound that it has bound."""

    def note(self, node: TaskNode) -> None:
        self.append(node)
        self.everything.append(node)

    def take_over(self, inner: Made, result: TaskNode) -> None:
        self.append(result)
        self.everything += inner.everything


made: ContextVar[Made | None] = ContextVar("made", default=None)
"""The nodes that the workflow function now running has bound."""


def _advice(node: NodeHandle) -> str:
    return (
        f"{node!r} is a node: its value exists only while a run goes on. Do this inside a task and pass the node to "
        "it: `some_task.bind(node)`"
    )


def _refuse(what: str) -> Any:
    def refuse(self: NodeHandle, *_: object) -> NoReturn:
        raise NoValueYet(f"cannot {what}: {_advice(self)}")

    return refuse


class NodeHandle(Handle):
    """What nodes and their parts have in common: they are not the value."""

    __slots__ = ("_workflow",)

    _workflow: BoundWorkflow | None
    """The workflow whose result this is, if one was bound."""

    __array_ufunc__ = None  # numpy then leaves operators to us

    __bool__ = _refuse("test it for truth")
    __contains__ = _refuse("search in it")
    __int__ = __index__ = _refuse("make an int of it")
    __float__ = _refuse("make a float of it")
    __complex__ = _refuse("make a complex number of it")
    __bytes__ = _refuse("make bytes of it")
    __format__ = _refuse("put it into a string (write {node!r} to show the node itself)")
    __lt__ = __le__ = __gt__ = __ge__ = _refuse("compare it")
    __neg__ = __pos__ = __invert__ = __abs__ = __round__ = _refuse("calculate with it")
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __divmod__ = __neg__
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = __neg__
    __rdivmod__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __neg__
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __neg__
    __setitem__ = __delitem__ = _refuse("change it")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):  # protocols that are asked for, such as copying
            raise AttributeError(name)
        raise NoAttributeYet(f"cannot read its attribute {name!r}: {_advice(self)}")

    def __await__(self) -> Any:
        """In a fiber: what it gives."""
        from onceflow.authoring.fiber_tasks.ops import NodeCall  # few programs have fibers

        return NodeCall(self).__await__()

    def __copy__(self) -> NodeHandle:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeHandle:
        return self

    def __reduce__(self) -> NoReturn:
        raise NoValueYet(f"cannot pickle it: {_advice(self)}")


class TaskNode(NodeHandle):
    """One call of a task in a graph to be. Used twice, it is still one node."""

    has_chains = False
    """Whether any node of this process goes through the results of a loop."""

    __slots__ = ("_after", "_args", "_beside", "_kwargs", "_number", "_over", "_parts", "_snapshot", "_task", "_turn")

    def __init__(
        self,
        task: AnyTask[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        snapshot: Snapshot | None,
        after: tuple[TaskNode, ...],
    ) -> None:
        self._task = task
        self._args = args
        """The arguments if all are immutable or nodes; else they are in the snapshot."""
        self._kwargs = kwargs
        self._snapshot = snapshot
        self._after = after
        self._number = next(_count)
        self._parts: tuple[PartNode, ...] | None = None
        """Made when first asked for, so that `node[0] is node[0]`."""
        self._over: TaskNode | None = None
        """The loop whose results it goes through, if it does nothing else with them."""
        self._turn: Turn | None = None
        """When it may start among those of its loop."""
        self._beside: tuple[TaskNode, ...] = ()
        """What is in every graph that it is in, though it does not read it: fibers that were forked."""
        self._workflow = None

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int | slice):
            raise NoValueYet(f"cannot look up {index!r} in it: {_advice(self)}")
        parts = self._all_parts("index it")
        try:
            return parts[index]
        except IndexError:
            raise NoSuchPart(
                f"{self!r} has {len(parts)} parts (num_returns={len(parts)}); there is no [{index}]"
            ) from None

    def __iter__(self) -> Iterator[PartNode]:
        return iter(self._all_parts("iterate over it or unpack it"))

    def __len__(self) -> int:
        return len(self._all_parts("take its length"))

    def _all_parts(self, what: str) -> tuple[PartNode, ...]:
        count = self._task.settings.num_returns
        if count == 1:
            name = self._task.name
            raise NoValueYet(
                f"cannot {what}: {_advice(self)}. If {name!r} returns a tuple whose parts go different ways, declare "
                f"`@task(num_returns=…)` or write `{name}.options(num_returns=…).bind(…)`"
            )
        if self._parts is None:
            self._parts = tuple([PartNode(self, part) for part in range(count)])
        return self._parts

    def _parents(self) -> Iterator[TaskNode]:
        """Every node that it reads or waits for; some of them more than once."""
        values = self._snapshot.handles if self._snapshot is not None else (*self._args, *(self._kwargs or {}).values())
        yield from (owner_of(value) for value in values if isinstance(value, NodeHandle))
        yield from self._after

    def _place(self) -> tuple[int, int]:
        return self._number, -1

    def __repr__(self) -> str:
        return f"<node {self._task.name}>"


class PartNode(NodeHandle):
    """One part of the output of a task with `num_returns` above 1: `node[i]`."""

    __slots__ = ("_node", "_part")

    def __init__(self, node: TaskNode, part: int) -> None:
        self._node = node
        self._part = part
        self._workflow = None

    __iter__ = _refuse("iterate over it or unpack it")
    __len__ = _refuse("take its length")
    __getitem__ = _refuse("index it")

    def _place(self) -> tuple[int, int]:
        return self._node._number, self._part

    def __repr__(self) -> str:
        return f"<node {self._node._task.name}[{self._part}]>"


def as_handle(value: object, wanted_by: str) -> TaskNode | PartNode:
    """The value, if it is a node; for everything else an error that says what to do."""
    if isinstance(value, (TaskNode, PartNode)):
        return value
    hint = "write `.bind(...)` behind it" if hasattr(value, "bind") else "pass what `some_task.bind(...)` gave"
    raise NotANode(f"{wanted_by} needs a node and got {value!r} ({type(value).__name__}): {hint}")


def owner_of(handle: NodeHandle) -> TaskNode:
    """The node itself, or the node that a part or a ref belongs to."""
    while not isinstance(handle, TaskNode):
        handle = handle._node
    return handle
