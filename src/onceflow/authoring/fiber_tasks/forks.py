"""Forking: fibers that go on beside the one which started them (Gozer's processes).

A child has a copy of what it is given. A fiber that returns waits for the children that it has not joined, and raises
what the first of them has raised: so a run ends after all its fibers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import CoroutineType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from onceflow.authoring.fiber_tasks import children
from onceflow.authoring.fiber_tasks.gather import as_op
from onceflow.authoring.fiber_tasks.ops import Awaited
from onceflow.authoring.fiber_tasks.state import State, state_here
from onceflow.authoring.fibers.decorator import fiber
from onceflow.authoring.nodes import TaskNode
from onceflow.authoring.tasks import AnyTask
from onceflow.authoring.workflows import Workflow
from onceflow.errors import InvalidOption

P = ParamSpec("P")
R = TypeVar("R")


class Child(Generic[R]):
    """A fiber that was forked. It can be given to other fibers of the run."""

    __slots__ = ("id", "name")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        """Of the node that is its outcome."""
        self.name = name
        """Of its function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Child, (self.id, self.name)

    def __repr__(self) -> str:
        return f"<child {self.name}, {self.id}>"


class Fork(Awaited):
    """What `fork(...)` gives. It is carried out by the segment itself; only if the fiber has too many children, the
    engine has to wait until one of them has ended."""

    def __init__(self, member: Awaited) -> None:
        super().__init__("fork")
        self.member = member

    def has_room(self, state: State) -> bool:
        """Whether the fiber may have one more child."""
        return not state.limits or len(state.children) - len(state.ended) < min(state.limits)

    def make_room(self, state: State, outcome: list[tuple[str, bytes]]) -> None:
        """Some more have ended."""
        state.ended += [child for child, _ in outcome]

    def bind(self, state: State) -> Any:
        ended = set(state.ended)
        others = [child for child in state.children if child not in ended]
        return children.wait_for_some(others, len(others) - min(state.limits) + 1, state.left)

    def begin(self, state: State) -> tuple[Any, Child[Any] | None, Exception | None]:
        """The node of the child's outcome, and the child; or an error."""
        try:
            outcome = self.member.bind(state.for_fork())
        except Exception as error:
            return None, None, error
        node, id = children.start(outcome, state)
        child: Child[Any] = Child(id, self.member.name)
        self.spend()
        return node, child, None

    def forget(self) -> None:
        self.member.forget()

    def describe(self) -> str:
        return f"fork({self.member.told or self.member.describe()})"

    def spend(self) -> None:
        super().spend()
        self.member.spend()


class Join(Awaited):
    """What `join(...)` gives."""

    def __init__(self, child: Any) -> None:
        if not isinstance(child, Child):
            if isinstance(child, Fork):
                child.forget()
            raise TypeError(f"join takes a child, not {child!r}: write `child = await fork(…)`, and join that")
        super().__init__("join", child.name)
        self.child: Child[Any] = child

    def bind(self, state: State) -> Any:
        return children.wait_for(self.child.id, state.left)

    def settle(self, outcome: Any) -> Any:
        return children.joined(self.child.id, outcome)


def with_children(node: Any, beside: Sequence[TaskNode]) -> Any:
    """The node, in a graph with these children in it."""
    if beside:
        node._beside = tuple(beside)
    return node


@overload
def fork(fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Child[R]]: ...
@overload
def fork(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Child[R]]: ...
def fork(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Starts a fiber that goes on beside this one, with its own copy of what it is given: `fn` is a durable function, a
    task or a workflow. Awaiting this gives a `Child` at once.

        children = [await fork(handle, customer) for customer in customers]
        reports = [await join(child) for child in children]

    A fiber that returns waits for the children that it has not joined; if one of them has raised, it raises the same.
    If it raises itself, or ends by a `break_`, its children end with it. An `async with timeout(…)` around this does
    not bind the child, which may outlive the block.
    """
    if not callable(fn):
        shown = repr(fn)
        if isinstance(fn, CoroutineType):
            fn.close()
            shown = f"what it gives: `fork({fn.__name__}, …)` instead of `fork({fn.__name__}(…))`"
        raise TypeError(f"fork takes a function, a task or a workflow, and its arguments, not {shown}")
    made = fn.call(*args, **kwargs) if isinstance(fn, (AnyTask, Workflow)) else fn(*args, **kwargs)
    return Fork(as_op(made))


def join(child: Child[R]) -> Awaitable[R]:
    """Waits for a forked fiber. Gives what it has returned, or raises what it has raised; `CannotJoin` if it was ended
    with the fiber that had forked it, belongs to another run, or is the fiber that waits."""
    return cast("Awaitable[R]", Join(child))


@contextmanager
@fiber
def spawn_limit(count: int) -> Iterator[None]:
    """How many children a fiber may have at a time: forking one more in this block waits until one has ended.

    with spawn_limit(10):
        for customer in customers:
            await fork(handle, customer)
    """
    if isinstance(count, bool) or count < 1:
        raise InvalidOption("spawn_limit", f"it takes an int of at least 1, not {count!r}")
    state_here("spawn_limit").limits.append(count)
    try:
        yield
    finally:
        state_here("spawn_limit").limits.pop()
