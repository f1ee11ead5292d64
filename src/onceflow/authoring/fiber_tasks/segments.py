"""Segments: the tasks that the chain of a fiber is made of.

`Start` is the first one; there is one for each durable function. `begin` is the same for a call that was made in a
fiber, with what that has around it. `resume` are all that follow. Each runs the fiber to the next op that the engine
has to carry out, and returns its nodes with the next segment as the sink, or what the fiber returns. What the fiber
raises, the segment raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any

from onceflow.authoring import handler_guards
from onceflow.authoring.fiber_tasks import continuations, inline_tasks, live_continuations
from onceflow.authoring.fiber_tasks.children import ended
from onceflow.authoring.fiber_tasks.continuations import Continuation
from onceflow.authoring.fiber_tasks.forks import Fork, with_children
from onceflow.authoring.fiber_tasks.ops import Awaited, TaskCall
from onceflow.authoring.fiber_tasks.state import State, around
from onceflow.authoring.fibers import changes, definitions
from onceflow.authoring.fibers.durable_coroutine import Fiber
from onceflow.authoring.options import TaskOptions
from onceflow.authoring.tasks import AnyTask, Task, _with_options, catching
from onceflow.core.model.graph import Node
from onceflow.errors import Cancelled, CodeMissing, FunctionNotLoaded, InvalidOption, NotPersistable, WrongArguments
from onceflow.values import packed_outputs, scripts, secret_masks
from onceflow.values.context import current, running

NAME = "segment"
"""Of the nodes behind the first one."""

CLOSE = 0.25
"""Seconds. If something timed out so near to a deadline, it was the deadline. (Clocks of two hosts are never equal.)"""

OPTIONS: dict[str, Any] = {"effect": "none", "fiber": True}
"""No effect, nondeterministic, saved."""


def _segment(name: str) -> Callable[[Callable[..., Any]], Task[..., Any]]:
    return lambda function: Task(function, {**OPTIONS, "name": name})


class Start:
    """Calls a durable function, and runs the fiber to its first op."""

    def __init__(self, ref: str, function: Callable[..., Any] | None = None) -> None:
        self.ref = ref
        """Under which other processes find the function: `module:name`."""
        module, _, name = ref.partition(":")
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = name
        self.__module__ = module
        if function is not None:
            self.__doc__ = function.__doc__
            self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        definition = definitions.current(self.ref)
        if definition is None:
            raise FunctionNotLoaded(self.__name__, "its function", f"there is no fiber {self.ref}")
        deadlines = _deadlines_here()
        return _run(definition.function(*args, **kwargs), State(deadlines=deadlines, inherited=len(deadlines)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Start, (self.ref,)


class FiberCall(TaskCall):
    """A call of a fiber, as a fiber of its own: what is around the one that calls it is around it as well."""

    def bind(self, state: State) -> Any:
        task = self.task
        if not (state.handlers or state.deadlines) or not isinstance(task, FiberTask):
            return super().bind(state)
        first = _first_of(task, state)
        given = _child(task.durable(*self.args, **self.kwargs), state)
        return (catching(first) if self.is_caught else first).bind(*given)


class FiberTask(Task[..., Any]):
    """A durable function as a task: its first segment."""

    @property
    def ref(self) -> str:
        """Under which other processes find the function."""
        assert isinstance(self.function, Start)
        return self.function.ref

    @property
    def durable(self) -> Callable[..., Any]:
        """The function itself."""
        definition = definitions.current(self.ref)
        assert definition is not None
        return definition.function

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        self._refuse_bound_methods(args, kwargs)
        if scripts.name is None:
            return super().bind(*args, **kwargs)
        before = scripts.by_name.set(True)
        try:
            return super().bind(*args, **kwargs)
        finally:
            scripts.by_name.reset(before)

    def call(self, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        self._refuse_bound_methods(args, kwargs)
        return FiberCall(self, args, kwargs)

    def _refuse_bound_methods(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`thing.method` gives what its function has, so `thing.method.call(…)` knows of no thing."""
        shape, owner = self._shape, self.__qualname__.rpartition(".")[0]
        if owner and not shape.fits(args, kwargs) and shape.fits((None, *args), kwargs):
            problem = (
                f"{shape.problem(args, kwargs)} (of a method, the object or class is an argument like any other: "
                f"`{self.__qualname__}.call({next(iter(self.signature.parameters))}, …)`)"
            )
            raise WrongArguments(self.name, str(shape), problem)

    def options(self, **given: Any) -> Any:
        """The same fiber with another `name`, other `handlers` or `metadata`; `after` and `catch` as for tasks. What
        else tasks have would count for its first segment only."""
        for name in given:
            if name in TaskOptions.__optional_keys__ and name not in ("name", "handlers", "metadata"):
                hint = _INSTEAD.get(name, _AWAITED)
                raise InvalidOption(self.name, f"{name}= is for tasks, not for fibers: {hint}", kind="fiber")
        return super().options(**given)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._remade is not None or "role" in self._given:
            return super().__reduce__()
        return (fiber_task, (self.ref,)) if self is self._base else (_with_options, (self._base, self._given))


_AWAITED = "give it to those that the fiber awaits"
_TIME = "write `async with timeout(…):` in the fiber, or around the await of whoever calls it"
_INSTEAD = {
    "timeout": _TIME,
    "total_timeout": _TIME,
    "retry": "write `with on(…).retry(…):` around what the fiber awaits, or around the await of whoever calls it",
    "num_returns": "a fiber returns one value, which a task can take apart",
    "queue": f"{_AWAITED}, or let the run have a place in the queue: `run(…, queue=…)`",
}
"""Option of tasks that fibers do not have → what to do."""


def fiber_task(ref: str, function: Callable[..., Any] | None = None, **given: Any) -> FiberTask:
    """The task of the durable function of this name. The others are given where it is defined."""
    if function is not None:
        _tasks[ref] = FiberTask(Start(ref, function), {**OPTIONS, **given})
    elif ref not in _tasks:
        module, _, name = ref.partition(":")
        try:
            definitions.current(ref)  # imports its module, which makes it known here
        except Exception as error:
            problem = f"that module cannot be imported, {type(error).__name__}: {error}"
            raise CodeMissing(name, module, problem, "Make it importable again, then resume.") from error
        if ref not in _tasks:
            problem = f"there is no fiber {ref}"
            advice = f"If it was renamed, @fiber(name={name!r}) keeps its old name. Then resume."
            raise CodeMissing(name, module, problem, advice)
    return _tasks[ref]


_tasks: dict[str, FiberTask] = {}


@_segment("fiber")
def begin(saved: bytes, sources: bytes, state: bytes, refs: list[Any] | None) -> Any:
    """A call of a durable function that a fiber has made, as a fiber of its own."""
    inherited = _unpack(state)
    before = around.set(inherited)
    try:
        return _advance(continuations.to_fiber(Continuation(saved, sources), refs or ()), inherited)
    finally:
        around.reset(before)


@_segment(NAME)
def resume(saved: bytes, sources: bytes, token: str, state: bytes, outcome: Any, refs: list[Any] | None) -> Any:
    """Goes on from where the fiber stood, with the outcome of what it waited for."""
    fiber = live_continuations.take(token) or continuations.to_fiber(Continuation(saved, sources), refs or ())
    now = _unpack(state) if state else State()
    before = around.set(now)
    try:
        _settle(fiber, outcome, now)
        return _advance(fiber, now)
    finally:
        around.reset(before)


def begin_call(coroutine: Coroutine[Any, Any, Any], state: State) -> Any:
    """A node that gives what a call of a durable function returns, as a fiber of its own, and catches what it raises.
    Raises `NotPersistable`."""
    return catching(_first_of(_task_of(coroutine), state)).bind(*_child(coroutine, state))


def _first_of(task: FiberTask | None, state: State) -> AnyTask[..., Any]:
    """`begin` with the options of a fiber. Asked about what it raises are its own handlers, then those around it."""
    given = {} if task is None else {name: value for name, value in task._given.items() if name not in OPTIONS}
    handlers = (*(() if task is None else task.settings.handlers), *state.in_force)
    if handlers:
        given["handlers"] = handlers
    return _with_options(begin, {**begin._given, **given}) if given else begin


def _task_of(coroutine: Any) -> FiberTask | None:
    """None for functions that are durable without being fibers of an engine."""
    definition = definitions.of_code(coroutine.cr_code)
    return None if definition is None else _tasks.get(definition.ref)


def _child(coroutine: Coroutine[Any, Any, Any], state: State) -> tuple[Any, ...]:
    """The arguments of `begin`. Raises `NotPersistable`."""
    try:
        continuation, refs = continuations.of_fiber(Fiber.waiting(coroutine))
    finally:
        coroutine.close()  # it was never to be started here
    inherited = state.for_child()
    inherited.hidden = secret_masks.occurring(continuation.snapshot)
    return continuation.snapshot, continuation.sources, packed_outputs.dump(inherited), refs or None


def _unpack(packed: bytes) -> State:
    state: State = packed_outputs.unpack(packed)
    for text in state.hidden:
        secret_masks.hide(text)
    return state


def _deadlines_here() -> list[float | None]:
    """That of what this segment is in, if there is one."""
    moment = (running.get() or {}).get("deadline")
    return [] if moment is None else [float(moment)]


def _run(coroutine: Coroutine[Any, Any, Any], state: State) -> Any:
    before = around.set(state)
    try:
        return _advance(Fiber.start(coroutine), state)
    finally:
        around.reset(before)


def _settle(fiber: Fiber, outcome: Any, state: State) -> None:
    op = fiber.op
    assert isinstance(op, Awaited)
    if isinstance(op, Fork):
        op.make_room(state, outcome)
        return
    value: Any = None
    error: BaseException | None = None
    try:
        value = op.settle(outcome)
    except BaseException as raised:
        error = raised
    watch, op.watch = op.watch, None
    if watch is not None and error is None:
        watch.end()
    state.told = state.told or isinstance(error, Cancelled)
    left = state.left
    if isinstance(error, TimeoutError) and left is not None and left < CLOSE:
        error, cause = state.expire(), error
        error.__cause__ = cause
    _go_on(fiber, value, error)


def _go_on(fiber: Fiber, value: Any, error: BaseException | None) -> None:
    """Not to be called in an `except` block (see `Fiber.throw`)."""
    if error is None:
        fiber.send(value)
    else:
        fiber.throw(error)
        if fiber.error is error:
            vars(error)[handler_guards.PASSED_ON] = True


def _advance(fiber: Fiber, state: State) -> Any:
    """Runs the fiber on until the engine has to do something for it, or until its end."""
    began = perf_counter()
    is_cancelled = "cancelled" in (running.get() or ())
    beside: list[Any] = []
    while not fiber.done:
        op = fiber.op
        if not isinstance(op, Awaited):
            fiber.throw(TypeError(f"{op!r} is nothing that an engine can carry out: await `some_task.call(…)`"))
        elif op.is_spent:
            fiber.throw(RuntimeError(f"{op!r} was awaited before: call it once more"))
        elif is_cancelled and not state.told:
            state.told = True
            _leave_undone(fiber, op, Cancelled(current().run))
        elif state.left == 0:
            _leave_undone(fiber, op, state.expire())
        elif isinstance(op, Fork) and op.has_room(state):
            node, child, error = op.begin(state)
            beside += [] if node is None else [node]
            _go_on(fiber, child, error)
        elif inline_tasks.is_possible(op, state) and not _is_enough(fiber, began) and _step_here(fiber, op, state):
            pass
        else:
            node, error = _hand_over(fiber, op, state)
            if error is None:
                return with_children(node, beside)
            fiber.throw(error)
    if state.children and (fiber.error is None or isinstance(fiber.error, Cancelled)):
        return with_children(ended(fiber.result, fiber.error, state), beside)
    if fiber.error is not None:
        changes.explain_pinned(fiber.error)
        raise _explained(fiber.error)
    return fiber.result


def _explained(error: BaseException) -> BaseException:
    """What a fiber has raised. Python's own messages about asyncio objects do not say what to do."""
    if isinstance(error, RuntimeError) and error.args == ("no running event loop",):
        error.args = (f"{error}: {_ASYNCIO}",)
    return error


_ASYNCIO = (
    "a fiber cannot await what belongs to asyncio. Let it await an async task that does; `sleep` and `gather` of "
    "onceflow are for fibers"
)


def _leave_undone(fiber: Fiber, op: Awaited, error: BaseException) -> None:
    """Raises this at the await, and what is awaited is never begun."""
    op.forget()
    op.spend()
    _go_on(fiber, None, error)


def _is_enough(fiber: Fiber, began: float) -> bool:
    """Whether the segment has taken long, and the fiber can be saved where it stands. (If not, it goes on: where it can
    be saved, later, there may be something to save for.)"""
    if perf_counter() - began < inline_tasks.LONG_ENOUGH:
        return False
    try:
        continuations.of_fiber(fiber)
    except NotPersistable:
        return False
    return True


def _step_here(fiber: Fiber, op: Awaited, state: State) -> bool:
    """Carries out what it waits for, if that is possible after all."""
    value: Any = None
    error: BaseException | None = None
    try:
        value = inline_tasks.carry_out(op)
    except inline_tasks.Elsewhere:
        return False
    except inline_tasks.Raised as raised:
        error = raised.error
    if state.left == 0:
        value, error = None, state.expire()
    op.spend()
    _go_on(fiber, value, error)
    return True


def _hand_over(fiber: Fiber, op: Awaited, state: State) -> tuple[Any, Exception | None]:
    """What the segment returns: the nodes of the op, and the segment behind them. Or an error that concerns the
    fiber."""
    unknown = inline_tasks.unknown(op)
    try:
        outcome = op.bind(state)
        if not isinstance(op, Fork):  # which waits for room, and is yet to be carried out
            op.spend()
        continuation, refs = continuations.of_fiber(fiber)
    except Exception as error:
        return None, error
    attempt = current()
    token = live_continuations.token_of(attempt.run, attempt.task, attempt.attempt)
    state.hidden = secret_masks.occurring(continuation.snapshot)
    packed = packed_outputs.dump(state) if state != EMPTY else b""
    segment = _cleanup if state.told else resume
    node = segment.bind(continuation.snapshot, continuation.sources, token, packed, outcome, refs or None)
    if refs:  # which belong to this attempt: the next one has its own
        live_continuations.forget(fiber)
    else:
        op.watch = None if unknown is None else inline_tasks.Watch(unknown)
        live_continuations.keep(token, fiber, len(continuation.snapshot))
    return node, None


EMPTY = State()

_cleanup = resume.options(name="cleanup")
"""The same for a fiber that knows that its run is cancelled (`driver.fiber_cancellation`)."""


def is_segment(node: Node) -> bool:
    """Whether this node of a graph goes on with a fiber that waits."""
    task = getattr(node.call, "task", None)
    return task is not None and task._base is resume
