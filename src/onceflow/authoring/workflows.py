"""Workflows: functions that build graphs, with a name by which users and programs find them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from onceflow.authoring.function_wrapper import Wrapper, blank
from onceflow.authoring.handlers import Handler, checked
from onceflow.authoring.nodes import Made, TaskNode, as_handle, made, owner_of
from onceflow.authoring.signatures import Shape
from onceflow.errors import InvalidOption, UnusedNode, WrongArguments
from onceflow.values.texts import is_plain_text

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask

P = ParamSpec("P")
R = TypeVar("R")


class BoundWorkflow:
    """Which workflow a graph came from. It describes the graph and has no part in running it.

    `arguments` holds every parameter with its value or default, as it was given: nothing is copied.
    """

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"<workflow {self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})>"


class Workflow(Wrapper, Generic[P, R]):
    """A function that binds tasks and returns the node whose output is the result."""

    def __init__(self, function: Callable[P, R], name: str, handlers: Sequence[Handler] = ()) -> None:
        self.function = function
        self.name = name
        self.handlers = tuple(handlers)
        """In force for everything that it binds."""
        self._wrap(function)
        self._shape = Shape(function)

    @property
    def signature(self) -> inspect.Signature:
        """Its parameters with their types, as written."""
        return self._shape.signature

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, which builds the graph, and returns the node that it returned.

        That node remembers name and arguments; if one workflow returns what another one built, the outer one counts.
        Raises `TypeError` if the arguments do not fit or the function returns anything but a node, and `UnusedNode` if
        the function bound a task from which nothing leads to the result.

            run(trip.bind("ann", city="Rome"))
        """
        if not self._shape.fits(args, kwargs):
            raise WrongArguments(self.name, str(self._shape), self._shape.problem(args, kwargs))
        outer = made.get()
        listed = Made()
        token = made.set(listed)
        try:
            result = self.function(*args, **kwargs)
        finally:
            made.reset(token)
        node = as_handle(result, f"the return statement of workflow {self.name!r}")
        self._refuse_unused(listed, owner_of(node))
        if outer is not None:
            outer.take_over(listed, owner_of(node))
        if self.handlers:
            self._guard(listed.everything)
        node._workflow = BoundWorkflow(self.name, self._shape.complete(args, kwargs))
        return result

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Calls this workflow from a fiber, which awaits its result: `receipt = await trip.call("ann", "Rome")`."""
        from onceflow.authoring.fiber_tasks.ops import TaskCall  # few programs have fibers
        from onceflow.authoring.loops.api import building_task

        return TaskCall(building_task(self), args, kwargs)

    def _guard(self, nodes: list[TaskNode]) -> None:
        """Puts the handlers behind those that the tasks have themselves."""
        guarded: dict[AnyTask[..., Any], AnyTask[..., Any]] = {}
        for node in nodes:
            before = node._task
            if before not in guarded:
                guarded[before] = self._guarded(before)
            node._task = guarded[before]

    def _guarded(self, task: AnyTask[..., Any]) -> AnyTask[..., Any]:
        if "role" in task._given:
            from onceflow.authoring.loops import roles

            return roles.guarded(task, self.handlers)
        return task.options(handlers=(*task.settings.handlers, *self.handlers))

    def _refuse_unused(self, listed: Made, result: TaskNode) -> None:
        """A node that nothing reads would silently never run."""
        used = {parent for node in listed for parent in node._parents()} | {result}
        unused = [node._task.name for node in listed if node not in used]
        if unused:
            raise UnusedNode(self.name, tuple(unused))

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._found_by_name():
            return self.__qualname__
        state = {"function": self.function, "name": self.name, "handlers": self.handlers}
        return blank, (type(self),), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        Workflow.__init__(self, **state)

    def __repr__(self) -> str:
        return f"<workflow {self.name}{self._shape}>"


class _Named:
    """`@workflow(...)` between its options and its function."""

    __slots__ = ("_handlers", "_name")

    def __init__(self, name: str | None, handlers: Any) -> None:
        self._name = name
        self._handlers = handlers

    def __call__(self, function: Callable[P, R], /) -> Workflow[P, R]:
        made: Workflow[P, R] = _make(function, self._name, self._handlers)
        return made


@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(*, name: str | None = None, handlers: Sequence[Handler] = ()) -> _Named: ...
def workflow(function: Any = None, /, *, name: str | None = None, handlers: Sequence[Handler] = ()) -> Any:
    """Makes a workflow of a function that binds tasks and returns a node. Use it as `@workflow` or
    `@workflow(name=...)`. `handlers` are in force for all that it binds, behind those that a task, or a workflow within
    it, has itself.
    The name (by default the function's) is what the command line, schedules, history and pages address. Workflows nest
    by binding one inside another; called, a workflow just calls its function.

        @workflow
        def trip(user: str, city: str) -> str:
            return charge.bind(user, quote.bind(city), book_room.bind(city))
    """
    return _Named(name, handlers) if function is None else _make(function, name, handlers)


def _make(function: Any, name: Any, handlers: Any) -> Any:
    shown = name if isinstance(name, str) and name else getattr(function, "__name__", "?")
    if not callable(function) or hasattr(function, "bind"):
        raise InvalidOption(shown, f"it is made from a function, not from {function!r}", kind="workflow")
    if inspect.iscoroutinefunction(function):
        raise InvalidOption(shown, "an async function would build its graph only when awaited", kind="workflow")
    if shown == "?" or (name is not None and not is_plain_text(name)):
        problem = f"name must be a text that is not empty and has an encoding, not {name!r}"
        raise InvalidOption(ascii(shown)[1:-1], problem, kind="workflow")
    return Workflow(function, shown, checked(handlers, shown, "workflow"))
