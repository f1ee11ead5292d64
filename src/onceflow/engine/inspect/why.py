"""Why a run is not done: the tasks that block it, and how many others wait behind each of them.

A task that waits for the outputs of others is no answer: what those wait for is. So the answer is made of the tasks
that wait for no other task's output, each with what it does or waits for instead: a worker, a save, a delay, a person.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from onceflow.engine.inspect.task_info import TaskState
from onceflow.engine.inspect.wait_reasons import as_duration
from onceflow.engine.statuses import ACTIVE, Status
from onceflow.errors import NoSuchTask

if TYPE_CHECKING:
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.inspect.task_info import TaskInfo


class Obstacle(msgspec.Struct, frozen=True):
    """A task that blocks a run."""

    task: str
    state: TaskState
    text: str
    """What the task does, or waits for, for users."""
    behind: int
    """How many other tasks cannot go on before it has."""


class Why(msgspec.Struct, frozen=True):
    """Why a run, or a task of it, is not done."""

    run: str
    status: Status
    text: str
    """What the run as a whole waits for, for users."""
    obstacles: list[Obstacle]
    """The one that most tasks wait for comes first."""


def explain(run: RunInfo, tasks: list[TaskInfo], task: str | None) -> Why:
    """Raises `NoSuchTask`."""
    known = {info.id: info for info in tasks}
    if task is not None and task not in known:
        raise NoSuchTask(run.id, task, list(known))
    asked = tasks if task is None else _awaited(known[task], known)
    standing = [info for info in asked if info.state == "failed"]
    if not standing or run.status in ACTIVE:
        standing += [info for info in asked if not info.waits_for and info.state not in ("failed", "done")]
    if task is not None and known[task].state == "done":
        standing.append(known[task])
    behind = _behind(tasks, [info.id for info in standing])
    obstacles = [Obstacle(info.id, info.state, _text(info, run.status), behind[info.id]) for info in standing]
    return Why(run.id, run.status, _OF_RUN.get(run.status, "it goes on"), sorted(obstacles, key=lambda it: -it.behind))


_OF_RUN: Mapping[Status, str] = {
    "pending": "no engine has started it yet",
    "undoing": "what it has done is being taken back",
    "paused": "it waits for a person: `onceflow resume` goes on",
    "interrupted": "its engine died or was closed: `onceflow resume` goes on",
    "succeeded": "it has ended, with a result",
    "failed": "it has failed: when the cause is removed, `onceflow retry` goes on",
    "undone": "it has failed, and was taken back: `onceflow retry` starts it afresh",
    "cancelled": "it was cancelled: `onceflow resume` goes on",
}


def _text(task: TaskInfo, status: Status) -> str:
    match task.state:
        case "done":
            return "is done" + (" and saved" if task.saved else "")
        case "failed":
            return f"raised {task.error}"
        case "running":
            since = "" if task.started is None else f" for {as_duration(max(0.0, time.time() - task.started))}"
            return f"runs{since}" + (f", {task.progress}" if task.progress else "")
    if task.reason:
        return task.reason + (f": {task.error}" if task.error else "")
    if status not in ACTIVE:
        return "has not run"
    return "is about to start" if task.live else "runs, or is about to: the engine that drives it does not answer"


def _awaited(task: TaskInfo, known: Mapping[str, TaskInfo]) -> list[TaskInfo]:
    """The task, what it waits for, what that waits for, and so on."""
    found = {task.id: task}
    for info in (stack := [task]):
        for id in info.waits_for:
            if id not in found and id in known:
                found[id] = known[id]
                stack.append(known[id])
    return list(found.values())


def _behind(tasks: list[TaskInfo], ids: list[str]) -> dict[str, int]:
    """Task → how many wait for it, at once or behind others."""
    waiting: dict[str, list[str]] = {}
    for info in tasks:
        for id in info.waits_for:
            waiting.setdefault(id, []).append(info.id)
    counts = {}
    for id in ids:
        found: dict[str, None] = {}
        stack = list(waiting.get(id, ()))
        while stack:
            other = stack.pop()
            if other not in found:
                found[other] = None
                stack += waiting.get(other, ())
        counts[id] = len(found)
    return counts
