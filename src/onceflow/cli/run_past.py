"""What `onceflow show` says of the past of a run: who created it, what its tasks took, and, if somebody wants to know,
whether their code is still the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.cli.session import Session, as_duration
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.measurements import AttemptInfo
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.inspect.task_info import TaskInfo


class Details(NamedTuple):
    onceflow: str
    """The version that created the run; empty if that did not record it."""
    attempts: dict[str, AttemptInfo]
    """Task → its last attempt that was measured."""
    changed: dict[str, str | None] | None
    """Task → the version of its code now, if it is another one; None if the code is gone. None if nobody has looked."""

    def of_task(self, task: TaskInfo) -> dict[str, Any]:
        """For programs."""
        last = self.attempts.get(task.id)
        return {
            "started": task.started or (None if last is None else last.started),
            "seconds": None if last is None or task.state == "running" else last.seconds,
            "version": task.version,
            "changed": None if self.changed is None else task.id in self.changed,
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
        changed = self.changed or {}
        for task in tasks:
            if task.id in changed:
                now = changed[task.id]
                told = "its code is gone" if now is None else f"its code changed since, from {task.version} to {now}"
                yield f"{one_line(task.id)}: {told}"


def of_run(engine: Engine, info: RunInfo, changed: dict[str, str | None] | None) -> Details:
    attempts = {one.id: one for one in engine.list_attempts(info.id) if not one.undo}
    return Details(engine.version_of(info.id), attempts, changed)


def changed_code(session: Session, engine: Engine, info: RunInfo) -> dict[str, str | None] | None:
    """As `Details.changed`. Imports the modules of the tasks, as long as the run may go on with them."""
    from onceflow.errors import FunctionNotLoaded

    if info.status == "succeeded":
        return {}
    try:
        return engine.changed_code(info.id)
    except FunctionNotLoaded as error:
        session.note(f"whether its code has changed cannot be told: {error}")
        return None
