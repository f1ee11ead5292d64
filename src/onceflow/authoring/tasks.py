"""Tasks: ordinary functions that can be bound into graphs.

`@task` never changes what a function does: called, it is just called. `.bind(...)` with the same arguments makes a
node.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from onceflow.authoring.arguments import freeze
from onceflow.authoring.calls import not_a_task
from onceflow.authoring.function_wrapper import Wrapper, blank
from onceflow.authoring.nodes import NodeHandle, TaskNode, made
from onceflow.authoring.options import (
    PURE,
    BindOptions,
    CatchOptions,
    PureOptions,
    Settings,
    TaskOptions,
    after_nodes,
    check_known,
    merged,
    settle,
)
from onceflow.authoring.signatures import STARS, Shape
from onceflow.errors import InvalidOption, WrongArguments

if TYPE_CHECKING:
    from onceflow.authoring.loops.partials import Partial

P = ParamSpec("P")
R = TypeVar("R")
AsyncFunction = Callable[P, Coroutine[Any, Any, R]]
Caught = tuple[R | None, Exception | None]
"""What the consumers of a task with `catch=True` get."""


class AnyTask(Wrapper, Generic[P, R]):
    """What tasks have in common, whether their functions are async or not. `R` is the type of the output."""

    is_async = False
    """Whether calling the function gives a coroutine."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        self.function = function
        """The function that was decorated."""
        self._wrap(function)
        self._shape = Shape(function)
        self._base: AnyTask[P, R] = self
        self._decide(dict(given))

    def _decide(self, given: dict[str, Any]) -> None:
        self._roles: dict[Any, AnyTask[..., Any]] = {}
        """This task in the roles that it plays in loops."""
        if "role" in given:
            from onceflow.authoring.loops.roles import assume  # few programs have loops

            given = assume(self, given)
        self._given = given
        self._after: tuple[TaskNode, ...] = ()
        self._plain: AnyTask[P, R] = self
        """This task without `after`: graphs must not hold on to handles."""
        self._caught: AnyTask[P, Any] | None = None
        """The same that catches errors, once that was asked for (`caught_results`)."""
        self._remade: tuple[Callable[..., AnyTask[..., Any]], tuple[Any, ...]] | None = None
        """What gives this task once more, if that takes less than its options do, and with which arguments."""
        name = getattr(self.function, "__name__", "")
        self.settings: Settings = settle(given, name, self._shape, is_async=self.is_async)
        self.core_options = self.settings.for_core()
        self.name: str = self.settings.name

    @property
    def signature(self) -> inspect.Signature:
        return self._shape.signature

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Makes a node: this call of the task, to be run as part of a graph. Nothing runs yet.

        Nodes may stand anywhere in the arguments, at any depth: the task receives their outputs. Arguments are copied
        now, so changing them later has no influence; only buffers above 64 KiB (arrays, bytes) are not copied and must
        not be changed before the run is submitted. Raises `TypeError` if the arguments do not fit the function or
        cannot be pickled.

            total = add.bind(price.bind("tea"), price.bind("milk"))
        """
        shape = self._shape
        if not shape.fits(args, kwargs):
            raise WrongArguments(self.name, str(shape), shape.problem(args, kwargs))
        snapshot = freeze(self.settings.name, shape.positional, args, kwargs)
        if snapshot is None:
            node = TaskNode(self._plain, args, kwargs or None, None, self._after)
        else:
            node = TaskNode(self._plain, (), None, snapshot, self._after)
        listed = made.get()
        if listed is not None:
            listed.note(node)
        return node  # type: ignore[return-value]

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Calls this task from a fiber, which awaits what it gives. What it raises, when it is not tried again and no
        handler takes it, is raised at the await.

            receipt = await charge.call("ann", 100)
        """
        from onceflow.authoring.fiber_tasks.ops import TaskCall  # few programs have fibers

        return TaskCall(self, args, kwargs)

    @overload
    def options(self, **given: Unpack[BindOptions]) -> Self: ...
    @overload
    def options(self, *, catch: Literal[True], **given: Unpack[BindOptions]) -> AnyTask[P, Caught[R]]: ...
    def options(self, **given: Any) -> Any:
        """The same task with other options; the ones that are not given stay. This task is not changed.

        `after=[nodes]` makes the call wait until these nodes are done, without reading their outputs. `catch=True`
        gives the consumers two outputs, the value and the error, one of which is None: what the task raises, when it
        is not tried again and no handler takes it, is passed on as a value and does not fail the run.

            charge.options(retry=3, after=[audit]).bind("ann", 100)
            receipt, error = charge.options(catch=True).bind("ann", 100)
        """
        check_known(given, CatchOptions, self.name, str(self._shape))
        settled = merged(self._given, given)
        after = settled.pop("after", None)
        changed = self._copy()
        changed._decide(settled)
        nodes = self._after if after is None else after_nodes(after, self.name)
        if not nodes:
            return changed
        waiting = changed._copy()
        waiting._after = nodes
        return waiting

    def partial(self, /, **kwargs: Any) -> Partial[R]:
        """This task with some of its arguments given, for loops: `for_each(send.partial(subject="Hello"), users)`."""
        from onceflow.authoring.loops.partials import Partial

        unknown = [] if self._shape.any_keyword else [name for name in kwargs if name not in self._shape.by_keyword]
        if unknown:
            raise WrongArguments(self.name, str(self._shape), f"there is no parameter {unknown[0]!r}")
        return Partial(self, kwargs)

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def rollback_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, output: object, key: str
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with which the rollback function takes back a call with these: what it declares by name, and
        as `*args` and `**kwargs` what else was given by position and by keyword."""
        rollback = self.settings.rollback
        if rollback is None:
            raise InvalidOption(self.name, "it has no rollback function")
        known = {**self._shape.complete(args, kwargs), "output": output, "key": key}
        parameters = inspect.signature(rollback).parameters.values()
        declared = {parameter.name for parameter in parameters if parameter.kind not in STARS}
        by_position: list[Any] = []
        by_keyword: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = self._shape.positions(args)
                by_position += [value for name, value in rest if name not in declared]
            elif parameter.kind is parameter.VAR_KEYWORD:
                taken = {name for name in kwargs if self._shape.parameter_of(name) in declared} | declared
                by_keyword |= {name: value for name, value in kwargs.items() if name not in taken}
            elif parameter.kind is parameter.KEYWORD_ONLY:
                by_keyword[parameter.name] = known[parameter.name]
            else:
                by_position.append(known[parameter.name])
        return by_position, by_keyword

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By name if a worker can import it; else by value, which needs cloudpickle for the function."""
        if "role" in self._given:
            from onceflow.authoring.loops.roles import in_role

            return in_role, (self.function.task, self._given["role"])  # type: ignore[attr-defined]
        if self._remade is not None:
            return self._remade
        if self._found_by_name():
            return self.__qualname__
        if self._base._found_by_name():
            return _with_options, (self._base, self._given)
        return blank, (type(self),), {"function": self.function, "given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        AnyTask.__init__(self, state["function"], state["given"])

    def __repr__(self) -> str:
        return f"<task {self.name}{self._shape}>"


class Task(AnyTask[P, R]):
    """A task made from an ordinary function. Calling it calls the function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(AnyTask[P, R]):
    """A task made from an async function. Calling it gives the coroutine; binding it gives a node of what that
    returns."""

    is_async = True

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine


def catching(task: AnyTask[P, R]) -> AnyTask[P, Caught[R]]:
    """The task with `catch=True`. The same object for the same task: fibers ask for it at every await."""
    try:
        found = task._caught
    except AttributeError:
        raise not_a_task(task) from None
    if found is None:
        found = task._caught = task.options(catch=True)
        found._remade = catching, (task,)
    return found


def _with_options(task: AnyTask[..., Any], given: Mapping[str, Any]) -> AnyTask[..., Any]:
    if not isinstance(task, AnyTask):
        raise not_a_task(task)
    changed = task._copy()
    changed._decide(dict(given))
    return changed


def make_task(function: Any, given: Mapping[str, Any], allowed: type, defaults: Mapping[str, Any]) -> Any:
    """What the decorators do, once they know function and options. Refuses options that are not `allowed`."""
    if isinstance(function, AnyTask):
        raise InvalidOption(function.name, "it is a task already; to change its options write `.options(...)`")
    if not callable(function) or isinstance(function, NodeHandle) or hasattr(function, "bind"):
        raise InvalidOption(getattr(function, "name", "?"), f"a task is made from a function, not from {function!r}")
    name = given.get("name") or getattr(function, "__name__", "")
    if not name:
        raise InvalidOption("?", f"{function!r} has no name of its own; write `task(name=…)(…)`")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidOption(
            name, f"{function!r} does not tell its parameters; wrap it in a function that does"
        ) from None
    home = getattr(function, "__qualname__", "").rpartition(".")[0]
    if list(signature.parameters)[:1] == ["self"] and home and not home.endswith("<locals>"):
        raise InvalidOption(name, f"it is a method of {home}; make it a function, and pass it what it needs of `self`")
    check_known(given, allowed, name, str(signature))
    return (AsyncTask if inspect.iscoroutinefunction(function) else Task)(function, {**defaults, **given})


class WithOptions:
    """`@task(...)` between its options and its function."""

    __slots__ = ("_allowed", "_defaults", "_given")

    def __init__(self, given: Mapping[str, Any], allowed: type, defaults: Mapping[str, Any]) -> None:
        self._given = given
        self._allowed = allowed
        self._defaults = defaults

    @overload
    def __call__(self, function: AsyncFunction[P, R], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        return make_task(function, self._given, self._allowed, self._defaults)


class PureDecorator:
    """`@task.pure`, with or without options."""

    __slots__ = ()

    @overload
    def __call__(self, function: AsyncFunction[P, R], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, **given: Unpack[PureOptions]) -> WithOptions: ...
    def __call__(self, *function: Any, **given: Any) -> Any:
        return _decorate(function, given, PureOptions, PURE)


class TaskDecorator:
    """Makes a task of a function. Use it as `@task`, or with options as `@task(...)`.

    By default a task is assumed to have an irrevocable effect outside: its output is saved, and it starts only when its
    inputs can no longer change. Options relax that, and set the rest:

    - `checkpoint=False`: the output is not saved; if it is lost, the task runs again.
    - `deterministic=True`: equal inputs give equal outputs.
    - `effect="none"`: what it does is not visible outside; it may be run again or dropped at will. By default it is
      `"irrevocable"`; with a rollback function it is `"undoable"`.
    - `rollback=fn`: its effect is undone by `fn`, which is called with those of the task's parameters
      that it declares, and with `output` (None if the task did not finish) and `key` if it declares them. Its `*args`
      and `**kwargs` get the other arguments, as they were given to `bind`.
    - `can_rollback=True`, as ExoFlow spells it: `effect="none"` without a rollback function.
    - `retry=3` or `retry=RetryPolicy(...)`: how often and how late it is repeated when it raises (never, by default).
    - `num_returns=2`: it returns a tuple of two, whose parts can be passed on separately: `a, b = split.bind(text)`.
    - `name="..."`: the name shown to users. By default the function's name.
    - `threads=True`: it runs in a thread, in a process that it shares with others: for functions that mostly wait, or
      that must share memory.
    - `cpus=4`, `memory="2GiB"`: resources that it needs while it runs. Tasks of one host run at the same time only if
      there is enough for all of them; the limits are not enforced on a task. By default one core, nothing for functions
      that share a process (async ones and threads), and no memory worth counting.
    - `resources={"gpu": 1}`, `placement="spread"`: other resources that it needs of a Ray cluster, and its place there:
      spread over the nodes, or on the one with this id.
    - `timeout=30`: seconds that one attempt may run; then it is stopped and counts as failed. `total_timeout=300`: the
      same for the whole task, with its retries and the delays between them; then it is not tried again.
    - `worker_deaths=3`: it fails with `WorkerDied` when three workers have died in a row while they ran it (default:
      10, or as set for the engine). A death is no failure that `retry` counts.
    - `handlers=[...]`: responses when it raises and is not tried again (`handler`). They are in force for
      everything in a graph that it returns, too.
    - `metadata={"team": "sales"}`: tags and notes, shown when a run is inspected (`TaskInfo.metadata`).

    `@task.pure` is short for a task without outside effect that is deterministic and not saved.

        @task(rollback=cancel_room, retry=3)
        def book_room(city: str) -> str: ...

        node = book_room.bind("Rome")
    """

    __slots__ = ()

    pure = PureDecorator()

    @overload
    def __call__(self, function: AsyncFunction[P, R], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, **given: Unpack[TaskOptions]) -> WithOptions: ...
    def __call__(self, *function: Any, **given: Any) -> Any:
        return _decorate(function, given, TaskOptions, {})


def _decorate(functions: tuple[Any, ...], given: Mapping[str, Any], allowed: type, defaults: Mapping[str, Any]) -> Any:
    if not functions:
        return WithOptions(given, allowed, defaults)
    if len(functions) > 1:
        raise InvalidOption(getattr(functions[0], "__name__", "?"), "options have names: `@task(checkpoint=False)`")
    return make_task(functions[0], given, allowed, defaults)


task = TaskDecorator()
