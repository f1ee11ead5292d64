"""Inline tasks: short tasks that a segment runs itself.

A task that has no effect, is deterministic and is not saved may run anywhere and as often as you like (design 2.1), so
also within the segment that awaits it: it has no visible consequences, and saves a round trip to the engine. A segment
does so for `LONG_ENOUGH` and then returns, whatever it awaits, so that little is lost with it. A task that turned out
to take long becomes a node of its own from then on: such are seen, measured and placed by the engine.

A task that a segment carries out cannot be stopped. So where a deadline is near, it does so only with tasks that are
known to be short: some segment of this process has carried them out, or the engine has, and was quick. Should one take
too long all the same, that is reported when it is over.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from onceflow.authoring.arguments import UNCHANGING
from onceflow.authoring.fiber_tasks.ops import Awaited, TaskCall
from onceflow.authoring.nodes import PartNode, TaskNode
from onceflow.authoring.options import Settings
from onceflow.values import failures, snapshot
from onceflow.values.context import link, running

if TYPE_CHECKING:
    from onceflow.authoring.fiber_tasks.state import State
    from onceflow.authoring.tasks import AnyTask

LONG_ENOUGH = 0.05
"""Seconds that a segment may take by carrying out what it awaits."""

LONG = 0.02
"""Seconds. A task that takes longer is left to the engine the next time."""

_PLAIN = UNCHANGING - {TaskNode, PartNode}
"""Types whose values need not be copied. A node stands for a graph, which the engine carries out."""

_long: WeakSet[AnyTask[..., Any]] = WeakSet()
_short: WeakSet[AnyTask[..., Any]] = WeakSet()
_plain: WeakKeyDictionary[AnyTask[..., Any], bool] = WeakKeyDictionary()


class Elsewhere(Exception):
    """It has to be carried out by the engine after all."""


class Raised(Exception):
    """The task has raised something."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def is_possible(op: Awaited, state: State) -> bool:
    """Whether the segment may carry it out."""
    host = link()
    if host is None or not host.hosts_fibers:
        return False
    if type(op) is not TaskCall or state.handlers or op.task is None or not _is_plain(op.task):
        return False
    return not state.deadlines or op.task in _short or state.deadline is None


class Watch:
    """How long the engine takes for what this process might carry out itself."""

    __slots__ = ("_began", "_task")

    def __init__(self, task: AnyTask[..., Any]) -> None:
        self._task = task
        self._began = perf_counter()

    def end(self) -> None:
        if perf_counter() - self._began <= LONG:
            _short.add(self._task)


def unknown(op: Awaited) -> AnyTask[..., Any] | None:
    """The task that it calls, if it is unknown whether that is short."""
    if type(op) is TaskCall and op.task is not None and _is_plain(op.task) and op.task not in _short:
        return op.task
    return None


def _is_plain(task: AnyTask[..., Any]) -> bool:
    """Whether it is nothing but pure: it says nothing else that the engine would have to heed."""
    plain = _plain.get(task)
    if plain is None:
        settings = task.settings
        name, metadata = settings.name, settings.metadata
        pure = Settings(name, checkpoint=False, deterministic=True, effect="none", metadata=metadata)
        plain = _plain[task] = settings == pure and not task.is_async
    return plain and task not in _long


def carry_out(op: Awaited) -> Any:
    """What the task returns. Raises `Raised` with what it raises, or `Elsewhere`."""
    assert isinstance(op, TaskCall)
    assert op.task is not None
    context = running.get()
    assert context is not None
    args, kwargs = op.args, op.kwargs
    if kwargs or not all(type(value) in _PLAIN for value in args):
        args, kwargs = _copied((args, kwargs))
    before = running.set({**context, "task": f"{context['task']}/{op.name}"})
    began = perf_counter()
    try:
        value = op.task.function(*args, **kwargs)
    except Exception as error:
        raise Raised(_as_caught(error)) from None
    finally:
        running.reset(before)
        if perf_counter() - began > LONG:
            _long.add(op.task)
        elif op.task not in _short:
            _short.add(op.task)
    return value if type(value) in _PLAIN else _copied(value)


def _as_caught(error: Exception) -> BaseException:
    """As if it had gone to another process: without what cannot go there, and with its traceback as a note."""
    assert error.__traceback__ is not None
    return failures.load(failures.dump(error.with_traceback(error.__traceback__.tb_next), "the task"))


def _copied(value: Any) -> Any:
    """As if it had gone to another process: a change of a copy does not affect others."""
    try:
        taken = snapshot.take(value)
    except Exception:
        raise Elsewhere from None
    if taken.handles or taken.buffers:  # refs, a graph, or something large: the engine knows what to do with it
        raise Elsewhere
    return taken.load()
