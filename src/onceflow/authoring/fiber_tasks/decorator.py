"""`fiber`: durable functions that can be part of a run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from onceflow.authoring.fiber_tasks.segments import FiberTask, fiber_task
from onceflow.authoring.fibers import decorator, sources
from onceflow.authoring.fibers.definitions import Migrate, OnChange
from onceflow.authoring.handlers import Handler
from onceflow.values import scripts

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
I = TypeVar("I", bound=Iterator[Any])  # noqa: E741

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask

    class FiberFunction(Generic[P, R]):
        """A durable async function. Called, it gives its coroutine, to be awaited in another one."""

        task: FiberTask
        """Its first segment."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...

        @overload
        def __get__(  # with @classmethod above it
            self: FiberFunction[Concatenate[type[S], Q], R], instance: None, owner: type[S]
        ) -> Callable[Q, Coroutine[Any, Any, R]]: ...
        @overload
        def __get__(self, instance: None, owner: type) -> FiberFunction[P, R]: ...
        @overload
        def __get__(
            self: FiberFunction[Concatenate[S, Q], R], instance: object, owner: type
        ) -> Callable[Q, Coroutine[Any, Any, R]]: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...

        def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
            """Makes a node: a fiber that begins with this call. `run(fulfil.bind(order))` starts it."""

        def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
            """Starts it from another fiber, as a fiber of its own, and awaits what it returns."""

        def options(self, **given: Any) -> AnyTask[P, R]: ...


class _Decorator:
    """`@fiber(...)` between its options and its function."""

    __slots__ = ("_given", "_how")

    def __init__(self, how: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self._how = how
        self._given = given

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> FiberFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Generator[Any, Any, Any]], /) -> Callable[P, Generator[Any, Any, Any]]: ...
    @overload
    def __call__(self, function: Callable[P, I], /) -> Callable[P, I]: ...
    def __call__(self, function: Any, /) -> Any:
        return _make(function, self._how, self._given)


@overload
def fiber(function: Callable[P, Coroutine[Any, Any, R]], /) -> FiberFunction[P, R]: ...
@overload
def fiber(function: Callable[P, I], /) -> Callable[P, I]: ...
@overload
def fiber(
    *,
    name: str | None = None,
    on_change: OnChange = "pin",
    migrate: Migrate | None = None,
    handlers: Sequence[Handler] = (),
    metadata: Mapping[str, Any] | None = None,
) -> _Decorator: ...
def fiber(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    on_change: OnChange = "pin",
    migrate: Migrate | None = None,
    handlers: Sequence[Handler] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Makes an async function (or a generator function) durable: wherever it waits, it can be saved as bytes, and go on
    in another process, days later.

        @fiber
        async def fulfil(order: Order) -> Receipt:
            await reserve.call(order)
            if not await wait_event("approval", bool, timeout=86_400, default=False):
                await release.call(order)
                raise Refused(order)
            return await charge.call(order)

        run(fulfil.bind(order), name="order-7")

    In it, `await` what the engine is to do: `task.call(...)`, `workflow.call(...)`, `other_fiber.call(...)`, `gather`,
    `sleep`, `wait_event`, `for_each`; or another durable function, which is a call like any other. What a task raises
    for good is raised at the await. The code between two awaits may do what it likes, except for effects outside: it is
    run again if a crash takes it, and what it has computed counts when the engine has saved where it stands.

    It stays an ordinary function with the same signature and docstring. `@fiber` must be the innermost decorator of a
    function of a module or class. `name` is under which saved fibers find it, its qualified name by default.
    `on_change` says what becomes of fibers that are parked in it when its code changes: "pin" finishes them in the code
    in which they began, "move" lets them go on in the new code if it has a place that corresponds, "fail" refuses.
    `migrate` is for "move": it is given the saved variables and returns those that only the new code has. `handlers`
    and `metadata` are as for tasks.
    """
    how = {"name": name, "on_change": on_change, "migrate": migrate}
    given: dict[str, Any] = {"handlers": handlers} if handlers else {}
    if metadata is not None:
        given["metadata"] = metadata
    return _Decorator(how, given) if function is None else _make(function, how, given)


def _make(function: Any, how: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    made: Any = decorator.fiber(**how)(function)
    if made.__module__ == "__main__":
        scripts.name = sources.main_name()
    if inspect.iscoroutinefunction(made):
        first = fiber_task(decorator.version_of(made).ref, made, **given)
        made.task, made.bind, made.call, made.options = first, first.bind, first.call, first.options
    return made
