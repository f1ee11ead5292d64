"""What a fiber can await, and the nodes that it becomes.

An op is used once, as a coroutine is: when it is carried out its arguments are in the graph, and what is left of it is
how it looked. What goes wrong when it is made into nodes (arguments that cannot be pickled, say) is raised in the
fiber, at the await.

Outcomes: a task is bound with `catch=True`, so what it raises for good comes back as a value, with the user's own type,
and is raised in the fiber. A wait gives just its value; what else can become of it is a value, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from onceflow.authoring.event_nodes import default_of, packed_late, taken, wait_of, waiting_task
from onceflow.authoring.fiber_tasks.recipes import Recipe, in_graph
from onceflow.authoring.fiber_tasks.state import State, limited, now
from onceflow.authoring.fibers.description import short
from onceflow.authoring.fibers.ops import Op
from onceflow.authoring.nodes import NodeHandle, PartNode, TaskNode, as_handle, owner_of
from onceflow.authoring.tasks import AnyTask, catching
from onceflow.errors import Cancelled, EventTimedOut, InvalidOption, WrongArguments
from onceflow.values.waits import Wait

if TYPE_CHECKING:
    from onceflow.authoring.fiber_tasks.inline_tasks import Watch

T = TypeVar("T")


class Awaited(Op):
    """An operation that the engine carries out."""

    is_spent = False
    """Whether it has been awaited."""
    watch: Watch | None = None
    """Of how long it takes, where its fiber stays."""

    def bind(self, state: State) -> Any:
        """The nodes that it becomes, as an argument of the next segment, if this is around it."""
        raise NotImplementedError

    def settle(self, outcome: Any) -> Any:
        """What the await gives, of what the nodes have given. May raise."""
        return settled(outcome)

    def describe(self) -> str:
        """For people. Runs no code of the user's."""
        arguments = [short(value, 2) for value in self.args]
        arguments += [f"{name}={short(value, 2)}" for name, value in self.kwargs.items()]
        return f"{self.name}({', '.join(arguments)})"

    def spend(self) -> None:
        """It is carried out: its arguments are no longer needed."""
        self.told = self.describe()
        self.is_spent = True
        self.args, self.kwargs = (), {}

    def forget(self) -> None:
        """The fiber that waits for it is dropped."""

    def __repr__(self) -> str:
        return f"<call of {self.told or self.describe()}>"


class TaskCall(Awaited):
    """One call of a task: what `task.call(...)` gives."""

    def __init__(self, task: AnyTask[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        shape = task._shape
        if not shape.fits(args, kwargs):
            raise WrongArguments(task.name, str(shape), shape.problem(args, kwargs))
        if task._after:
            raise InvalidOption(task.name, "after=… is for nodes of a graph; a fiber awaits one call after the other")
        super().__init__(task.name, *args, **kwargs)
        self.task: AnyTask[..., Any] | None = task
        self.is_caught = task.settings.catch == 0
        """Whether errors are to be raised; otherwise the user has asked for them as values."""

    def bind(self, state: State) -> Any:
        assert self.task is not None
        task, until = self.task, state.until
        if state.handlers:
            task = task.options(handlers=(*task.settings.handlers, *state.in_force))
        if until is not None:
            task = limited(task, until)
        return (catching(task) if self.is_caught else task).bind(*self.args, **self.kwargs)

    def settle(self, outcome: Any) -> Any:
        return settled(outcome) if self.is_caught else outcome

    def spend(self) -> None:
        super().spend()
        self.task = None


def settled(outcome: tuple[Any, BaseException | None]) -> Any:
    """The value of what was caught. Raises the error."""
    value, error = outcome
    if error is not None:
        raise error
    return value


class NodeCall(Awaited):
    """A node that a fiber awaits: a wait, a loop, or any graph that it has bound."""

    wanted: Wait | None = None
    """The key and type of the event that it waits for, and the default, if these have to be looked after here."""

    def __init__(self, node: object) -> None:
        self.node: TaskNode | PartNode | None = as_handle(node, "await")
        owner = wait_of(owner_of(self.node))
        super().__init__(owner._task.name, *_shown(owner))
        self.is_wait = False
        """Whether it is nothing but a wait: its outcome is a value, or one of the errors that waits know."""
        self.is_cut_short = False
        """Whether it sleeps, and a deadline of the fiber comes before it may wake up."""

    def bind(self, state: State) -> Any:
        node = wait_of(self.node) if isinstance(self.node, TaskNode) else self.node
        if not isinstance(node, TaskNode) or node._task.settings.wait is None or node._after:
            return in_graph(Recipe.of(self.node), state)
        wait, left = node._task.settings.wait, state.left
        default = None if node is self.node else default_of(node)
        if left is not None and wait.ends_in(now()) > left:
            self.is_cut_short = wait.key is None
            wait, default = wait.within(left), None
        if node is not self.node:
            self.wanted = Wait(wait.key, type=wait.type, default=default)
        if wait.key is not None and wait.seconds is not None and wait.default is None:
            wait = msgspec.structs.replace(wait, default=packed_late(wait.key, wait.seconds))
        self.is_wait = True
        return TaskNode(waiting_task(wait), node._args, node._kwargs, node._snapshot, ())

    def settle(self, outcome: Any) -> Any:
        if not self.is_wait:
            return settled(outcome)
        if isinstance(outcome, Cancelled) or (isinstance(outcome, EventTimedOut) and not self.has_default):
            raise outcome
        if self.is_cut_short:
            raise TimeoutError
        return outcome if self.wanted is None else taken(outcome, self.wanted)

    @property
    def has_default(self) -> bool:
        """Whether it gives something of its own if the event has not come."""
        return self.wanted is not None and self.wanted.default is not None

    def spend(self) -> None:
        super().spend()
        self.node = None


def _shown(node: TaskNode) -> tuple[Any, ...]:
    """Those of its arguments that can be shown."""
    wait = node._task.settings.wait
    if wait is not None:
        return tuple([value for value in (wait.key, wait.seconds, wait.until) if value is not None])
    return tuple([value for value in node._args if value is not None and not isinstance(value, NodeHandle)])


@overload
def call(node: Awaitable[T], *, label: str | None = None) -> Awaitable[T]: ...
@overload
def call(node: T, *, label: str | None = None) -> Awaitable[T]: ...
def call(node: Any, *, label: str | None = None) -> Any:
    """Awaits a node in a fiber: a loop, an event, a moment, any graph. `await node` is the same, but type checkers take
    a node for what it will give.

        pages = await call(for_each(fetch, urls))
        approved = await call(wait_event("approval", bool, timeout=86_400, default=False))

    A node is a value until it is awaited, and may stand in variables; each await carries out all that leads to it.

    `label`, a text that stands there as such, names the place in the code: a fiber with `on_change="move"` that is
    parked there finds it again after the expression was edited. Calls of tasks and the like may have one as well:

        receipt = await call(charge.call("ann", 100), label="charge")
    """
    op = node if isinstance(node, Awaited) else NodeCall(node)
    op.label = label
    return op
