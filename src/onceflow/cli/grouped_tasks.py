"""Many tasks of one kind as one line: what a graph has hundreds of, as a loop has of its chunks, nobody reads one by
one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceflow.engine.inspect.task_info import TaskInfo

MOST = 20
"""Tasks of one kind that are shown one by one."""

Kind = tuple[Any, ...]


def collapse(tasks: Sequence[TaskInfo]) -> list[list[TaskInfo]]:
    """The tasks in their order; those that stand for one another are together."""
    found: list[list[TaskInfo]] = []
    for kind, members in groupby(tasks, _kind):
        alike = list(members)
        found += [alike] if kind and len(alike) > MOST else [[task] for task in alike]
    return found


def columns(tasks: Iterable[TaskInfo]) -> list[str]:
    """Of many tasks of one kind, what stands in the place of the columns of one."""
    first, *others = tasks
    base = f"{first.id.rpartition('/')[0]}/{first.task}"
    return [f"{base} × {len(others) + 1}", first.state, first.effect, "yes" if first.saved else "no"]


def _kind(task: TaskInfo) -> Kind:
    """Empty for a task that has something of its own to tell, or that is in no graph that a task has returned."""
    if "/" not in task.id or task.error is not None or task.failures or task.progress is not None or task.metadata:
        return ()
    return task.id.rpartition("/")[0], task.task, task.state, task.effect, task.saved
