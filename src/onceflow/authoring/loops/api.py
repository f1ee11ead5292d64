"""The public functions: `for_each`, `parallel` and `reduce`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Literal, TypeVar, overload

from onceflow.authoring.handlers import Handler, checked
from onceflow.authoring.loops.chunk_sizes import is_single
from onceflow.authoring.loops.partials import Partial
from onceflow.authoring.loops.roles import OnError, Role, in_role
from onceflow.authoring.loops.workflow_tasks import Building
from onceflow.authoring.nodes import NodeHandle, TaskNode, as_handle
from onceflow.authoring.refs import ref
from onceflow.authoring.tasks import AnyTask, Task, task
from onceflow.authoring.workflows import Workflow
from onceflow.errors import InvalidOption, WrongArguments

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")


@overload
def for_each(
    fn: Callable[[T], Coroutine[Any, Any, R]],
    items: Iterable[T],
    *,
    chunk: int | Literal["auto"] = "auto",
    spawn_limit: int | None = None,
    on_error: OnError = "stop",
    handlers: Sequence[Handler] = (),
    name: str | None = None,
) -> list[R]: ...
@overload
def for_each(
    fn: Callable[[T], R],
    items: Iterable[T],
    *,
    chunk: int | Literal["auto"] = "auto",
    spawn_limit: int | None = None,
    on_error: OnError = "stop",
    handlers: Sequence[Handler] = (),
    name: str | None = None,
) -> list[R]: ...
def for_each(
    fn: Any,
    items: Any,
    *,
    chunk: int | Literal["auto"] = "auto",
    spawn_limit: int | None = None,
    on_error: OnError = "stop",
    handlers: Sequence[Handler] = (),
    name: str | None = None,
) -> Any:
    """Makes a node that calls `fn` for each item and gives the list of what that returns, in the order of the items.

    `fn` is a task, `task.partial(k=v)` or a workflow. The items are a list, anything that can be iterated, or a node
    that gives one: how many they are need not be known before the run.

    - `chunk`: how many items run in one go. A chunk is what is in flight, saved, and run again after a crash.
      By default it is found out by measuring: chunks take about 50 ms.
    - `spawn_limit`: how many chunks may be in flight; it can be changed while the run goes on (`RunHandle.limit`).
    - `on_error`: what happens when an item has failed for good, after its retries. "stop" fails the run, and a resume
      runs what is missing; "skip" leaves the item out of the results; "collect" puts a `FailedItem` in its place.
    - `handlers`: what shall become of failures of items, each by itself, if the task's own handlers leave them.
    - `name`: how people see the loop; by default `each_` and the name of `fn`.

        pages = for_each(fetch, ["a.html", "b.html"])
        run(index.bind(pages))
    """
    subject, given = _called(fn, "for_each")
    options = _Options(subject, chunk, spawn_limit, on_error, handlers, name)
    if not subject._shape.fits((None,), given):
        raise WrongArguments(subject.name, str(subject._shape), subject._shape.problem((None,), given))
    by_ref, shared = _shared(given)
    loop = in_role(subject, options.role())
    return _over(items, loop.bind(_kept(items), shared, by_ref))


def reduce(fn: Callable[[A, T], A], values: Iterable[T], initial: A) -> A:
    """Makes a node that calls `fn(value, item)` for one item after the other, in their order, with what it returned
    for the one before, and gives what it returned last. It begins with `initial`.

    `fn` is a task or `task.partial(k=v)`. The results of a loop are taken as they come, chunk by chunk: a loop whose
    results have no other reader is never gathered as a whole.

        run(reduce(add, for_each(fetch_size, urls), 0))
    """
    subject, given = _called(fn, "reduce")
    if not subject._shape.fits((None, None), given):
        raise WrongArguments(subject.name, str(subject._shape), subject._shape.problem((None, None), given))
    if isinstance(subject.function, Building) or subject._base.is_async or subject.settings.rollback is not None:
        raise InvalidOption(
            subject.name, "reduce calls a task that is neither a workflow nor async, and has no rollback", kind="loop"
        )
    by_ref, shared = _shared(given)
    fold = in_role(subject, Role("fold", f"reduce_{subject.name}"))
    node: A = _over(values, fold.bind(initial, _kept(values), shared, by_ref))
    return node


def _over(items: Any, node: Any) -> Any:
    """Marks a node that goes through the results of a loop."""
    if isinstance(items, TaskNode) and "role" in items._task._given and items._task._given["role"].kind == "loop":
        node._over = items
        TaskNode.has_chains = True
    return node


def _shared(given: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of those arguments that are nodes; and all of them, with refs to the nodes."""
    by_ref = tuple([key for key, value in given.items() if isinstance(value, NodeHandle)])
    return by_ref, {key: ref(value) if key in by_ref else value for key, value in given.items()}


def parallel(*nodes: Any) -> list[Any]:
    """Makes a node that gives the list of what these nodes give, in their order. They run at the same time, as all
    nodes do that do not read each other.

        flight, room = ..., ...
        run(confirm.bind(parallel(book_flight.bind("Rome"), book_room.bind("Rome"))))
    """
    given = nodes[0] if len(nodes) == 1 and isinstance(nodes[0], list | tuple) else nodes
    return _parallel.bind([as_handle(node, "parallel") for node in given])


@task.pure(name="parallel")
def _parallel(outputs: list[Any]) -> list[Any]:
    return outputs


class _Options:
    """Of a loop, as they were given."""

    def __init__(
        self, subject: AnyTask[..., Any], chunk: Any, limit: Any, on_error: Any, handlers: Any, name: Any
    ) -> None:
        self._name = name or f"each_{subject.name}"
        if not isinstance(self._name, str):
            self._refuse(f"name must be a text, not {name!r}")
        if chunk != "auto" and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            self._refuse(f"chunk must be a number of items or 'auto', not {chunk!r}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            self._refuse(f"spawn_limit must be an int of at least 1, not {limit!r}")
        if on_error not in ("stop", "skip", "collect"):
            self._refuse(f"on_error must be 'stop', 'skip' or 'collect', not {on_error!r}")
        is_workflow = isinstance(subject.function, Building)
        may_be_more = subject.settings.threads or (subject.settings.queue and subject.settings.queue_key is None)
        if chunk not in ("auto", 1) and is_single(subject) and not may_be_more:
            why = "it is a workflow" if is_workflow else "it has a rollback function, a timeout or a queue_key"
            self._refuse(f"chunk must be 1 or 'auto', not {chunk}: {why}, so each item is a task of its own")
        settings = subject.settings
        self._handlers = checked(handlers, self._name)
        handled = self._handlers or settings.handlers or settings.catch
        if on_error != "stop" and (is_workflow or settings.rollback is not None or handled):
            kinds = {"a workflow": is_workflow, "a loop or task with handlers": handled}
            why = next((kind for kind, is_so in kinds.items() if is_so), "a task with a rollback function")
            self._refuse(f"on_error={on_error!r} is not possible for {why}, only 'stop'")
        self._chunk = 0 if chunk == "auto" else chunk
        self._limit = limit or 0
        self._on_error = on_error

    def _refuse(self, problem: str) -> None:
        raise InvalidOption(str(self._name), problem, kind="loop")

    def role(self) -> Role:
        return Role("loop", self._name, self._chunk, self._limit, self._on_error, handlers=self._handlers)


def _called(fn: Any, by: str) -> tuple[AnyTask[..., Any], dict[str, Any]]:
    """The task that a loop calls, and the arguments that are the same for all items."""
    match fn:
        case Partial():
            return fn.task, fn.kwargs
        case AnyTask():
            return fn, {}
        case Workflow():
            return building_task(fn), {}
        case _ if isinstance(getattr(fn, "task", None), AnyTask):  # a fiber
            return fn.task, {}
        case _:
            raise InvalidOption(
                getattr(fn, "__name__", "?"),
                f"{by} calls a task, `task.partial(k=v)`, a workflow or a fiber, not {fn!r}. Decorate it with @task",
                kind="loop",
            )


def building_task(workflow: Workflow[..., Any]) -> AnyTask[..., Any]:
    """A task that builds the graph of a workflow. The same one for the same workflow."""
    made = _building.get(workflow)
    if made is None:
        options = {"name": workflow.name, "effect": "none"}
        made = _building[workflow] = Task(Building(workflow), options)
    return made


_building: dict[Workflow[..., Any], AnyTask[..., Any]] = {}


def _kept(items: Any) -> Any:
    """What is stored with the run: items that can be iterated only once become a list."""
    if isinstance(items, NodeHandle) or type(items) in (list, tuple, range):
        return items
    try:
        return list(items)
    except TypeError:
        raise TypeError(
            f"for_each needs items: a list, something to iterate, or a node, not {items!r} ({type(items).__name__})"
        ) from None
