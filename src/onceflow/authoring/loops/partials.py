"""A task with some of its arguments given: what a loop calls with one argument more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask

R = TypeVar("R")


class Partial(Generic[R]):
    """What `task.partial(k=v)` gives."""

    __slots__ = ("kwargs", "task")

    def __init__(self, task: AnyTask[..., Any], kwargs: Mapping[str, Any]) -> None:
        self.task = task
        self.kwargs = dict(kwargs)

    def bind(self, /, *args: Any, **kwargs: Any) -> R:
        """Makes a node, as `bind` of the task with all arguments does."""
        node: R = self.task.bind(*args, **{**self.kwargs, **kwargs})
        return node

    def __call__(self, /, *args: Any, **kwargs: Any) -> R:
        result: R = self.task(*args, **{**self.kwargs, **kwargs})  # type: ignore[operator]
        return result

    def __repr__(self) -> str:
        return f"<{self.task!r} with {', '.join(self.kwargs)}>"
