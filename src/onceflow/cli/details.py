"""What `onceflow show` says of the past of a run: who created it, what its tasks took, and whether their code is still
the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.cli.session import as_duration
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.looking.describing import TaskInfo
    from onceflow.engine.looking.listing import RunInfo
    from onceflow.engine.looking.past import AttemptInfo


class Details(NamedTuple):
    onceflow: str
    """The version that created the run; empty if that did not record it."""
    attempts: dict[str, AttemptInfo]
    """Task → its last attempt that was measured."""
    changed: dict[str, str | None]
    """Task → the version of its code now, if it is another one; None if the code is gone."""

    def of_task(self, task: TaskInfo) -> dict[str, Any]:
        """For programs."""
        last = self.attempts.get(task.id)
        return {
            "started": task.started or (None if last is None else last.started),
            "seconds": None if last is None or task.state == "running" else last.seconds,
            "version": task.version,
            "changed": task.id in self.changed,
        }

    def columns(self, task: TaskInfo) -> list[str]:
        """When it started, and how long it took."""
        told = self.of_task(task)
        began, seconds = told["started"], told["seconds"]
        if began is not None and task.state == "running":
            seconds = max(0.0, time.time() - began)
        return [
            "" if began is None else time.strftime("%H:%M:%S", time.localtime(began)),
            "" if seconds is None else as_duration(seconds),
        ]

    def notes(self, tasks: Sequence[TaskInfo]) -> Iterator[str]:
        """About code that is not what it was."""
        for task in tasks:
            if task.id in self.changed:
                now = self.changed[task.id]
                told = "its code is gone" if now is None else f"its code changed since, from {task.version} to {now}"
                yield f"{one_line(task.id)}: {told}"


def variables_of(engine: Engine, info: RunInfo) -> dict[str, Any]:
    """The task variables of a run. Those of a class that cannot be loaded here are told as such."""
    try:
        return engine.variables(info.id)
    except (ImportError, AttributeError, EOFError) as error:
        return {"?": f"cannot be loaded here: {type(error).__name__}: {error}"}


def of_run(engine: Engine, info: RunInfo, *, with_code: bool) -> Details:
    """Code is looked for, if it is asked for, as long as the run may go on with it."""
    return Details(
        engine.version_of(info.id),
        {one.id: one for one in engine.list_attempts(info.id) if not one.undo},
        engine.changed_code(info.id) if with_code and info.status != "succeeded" else {},
    )
