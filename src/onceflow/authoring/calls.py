"""Calls: the function that a node of a graph calls, and its arguments. Opaque to core; made when a graph is built, read
when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.authoring.handler_guards import NOTHING, Guard, guard_of, in_force_inside
from onceflow.authoring.options import Settings
from onceflow.authoring.retries import RetryPolicy
from onceflow.errors import CodeMissing
from onceflow.values import packed_outputs, versions
from onceflow.values.templates import Arguments, Slot, Template

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask


class Undo:
    """Takes back a call of a task. Can be sent to a worker, as the task can."""

    __slots__ = ("_task",)

    def __init__(self, task: AnyTask[..., Any]) -> None:
        self._task = task

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: object, key: str) -> Any:
        rollback = self._task.settings.rollback
        assert rollback is not None
        by_position, by_keyword = self._task.rollback_arguments(tuple(args), kwargs, output=output, key=key)
        return rollback(*by_position, **by_keyword)


def not_a_task(found: Any) -> CodeMissing:
    """What to raise for something that stored graphs refer to as a task."""
    name, module = getattr(found, "__qualname__", repr(found)), getattr(found, "__module__", "?")
    problem = f"what that module has under this name is of type {type(found).__name__}, and not a task"
    return CodeMissing(name, module, problem, "Bring the task back under that name, then resume.")


class Call(msgspec.Struct, eq=False):
    """`core.graph.Node.call` of the graphs that are built here. Can be pickled; tasks of modules go by their name, with
    the version that their code had then."""

    task: AnyTask[..., Any]
    template: Template
    _recorded: str = ""
    """The version that was stored, if it was."""
    _stored_metadata: str | None = None
    """For readers of the graph without its code."""
    settings: Settings = None  # type: ignore[assignment]
    """Those of the task. Looked at so often that they are kept here, like what follows."""
    slots: tuple[Slot, ...] = ()
    """What has to be fetched before `arguments` can be made: for each, which edge and which part."""
    is_async: bool = False
    """Whether the function returns a coroutine that has to be awaited."""
    guarded: bool = False
    """Whether it has a say about what it raises, or about failures in the graph that it returns."""

    def __post_init__(self) -> None:
        task = self.task
        self.slots = self.template.slots
        if hasattr(task, "core_options"):  # else it is no task, which is reported when it is used
            options = task.core_options
            self.settings, self.is_async = task.settings, task.is_async
            self.guarded = options.guards or options.transaction

    def __reduce__(self) -> tuple[Any, ...]:
        told = () if self.metadata is None else (self.metadata,)
        return Call, (self.task, self.template, self.version, *told)

    @property
    def version(self) -> str:
        """Of its function's code, when the graph was stored."""
        return self._recorded or versions.code_version(self.function)

    @property
    def has_changed(self) -> bool:
        """Whether its function is known to be another one than when the graph was stored. Raises `CodeMissing` if what
        has the name of its task now is not one."""
        if not hasattr(self.task, "core_options"):
            raise not_a_task(self.task)
        return versions.changed(self._recorded, self.version_now)

    @property
    def version_now(self) -> str:
        """Of its function's code as it is now."""
        return versions.code_version(self.function)

    @property
    def function(self) -> Callable[..., Any]:
        return self.task.function

    @property
    def rollback(self) -> Callable[..., Any] | None:
        return self.task.settings.rollback

    def guard(self, in_force: Any) -> Guard | None:
        """What its attempts take with them where these handlers are in force (`in_force_inside`; None: no others)."""
        return guard_of(self.task.settings, in_force or NOTHING)

    def in_force_inside(self, around: Any, depth: int) -> Any:
        """The handlers in force in the graph that it returned; `around` are those in force where it was called. None if
        there are none."""
        return in_force_inside(self.task.settings, around or NOTHING, depth) if self.guarded else around

    @property
    def retry(self) -> RetryPolicy:
        return self.task.settings.retry

    @property
    def metadata(self) -> str | None:
        return self.task.settings.metadata

    @property
    def undo(self) -> Undo:
        return Undo(self.task)

    @property
    def is_async_undo(self) -> bool:
        return inspect.iscoroutinefunction(self.rollback)

    @property
    def retried(self) -> bytes | None:
        """The pickled errors that the retry policy covers; None for the usual ones."""
        errors = self.settings.retry.on
        return None if errors == (Exception,) else packed_outputs.dump(errors)

    def arguments(self, values: Sequence[Any]) -> Arguments:
        """Fresh arguments for one attempt, with `values[n]` in slot n."""
        return self.template.fill(values)

    def __repr__(self) -> str:
        return f"<call of {self.task.name}>"
