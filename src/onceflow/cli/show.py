"""`onceflow show`: shows a run, its tasks and its fibers, without disturbing the engine that drives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from onceflow.cli import fiber_positions, grouped_tasks, run_past, run_selection, targets
from onceflow.cli.run_past import Details
from onceflow.cli.session import Session, as_json, as_time, common, only_results_on_stdout, run_as_json
from onceflow.engine.statuses import ACTIVE
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.inspect.task_info import TaskInfo

T = TypeVar("T")

UNHEARD = "the engine that drives it does not answer: this is what the journal has, and what runs there is not known"


@click.command
@run_selection.runs_argument(required=True)
@click.option("--code", is_flag=True, help="Say also which tasks have other code now; their modules are imported.")
@click.option("--all", "every", is_flag=True, help=f"Show every fiber. Without it, at most {fiber_positions.MOST}.")
@common
def show(session: Session, run: str, code: bool, every: bool) -> None:
    """Show a run: how it stands, its tasks, what they took, what the failed ones raised, what waits for what, and the
    lines and variables of its fibers. Nothing of its code is needed, or imported.
    """
    if code:
        targets.look_in_current_folder()
    with only_results_on_stdout(), session.engine_of([run]) as engine:
        info = engine.find(run)
        tasks, problem = tasks_of(engine, info)
        past = run_past.of_run(engine, info, run_past.changed_code(session, engine, info) if code else None)
        variables = engine.shown_variables(info.id)
        left = engine.left_behind(info.id)
        fibers, obstacle = _or_reason(engine.list_fibers, info)  # what is stored of them may be damaged
        problem = problem or obstacle
        if is_unheard(engine, info, tasks):
            session.note(UNHEARD)
    if session.json:
        listed = [{**task_as_json(task), **past.of_task(task)} for task in tasks]
        told = {**run_as_json(info), "onceflow": past.onceflow or None, "variables": variables}
        told |= {"kept": list(left.kept), "uncertain": list(left.uncertain)}
        told |= {"tasks": listed, "problem": problem, "fibers": msgspec.to_builtins(fibers)}
        session.say_json(told)
        return
    most = None if every else fiber_positions.MOST
    for label, text in (
        ("id", info.id),
        ("name", info.name or "-"),
        ("workflow", info.workflow),
        ("status", info.status),
        ("created", as_time(info.created)),
        ("updated", as_time(info.updated)),
        ("onceflow", past.onceflow or "not recorded"),
    ):
        session.say(f"{label:<10}{one_line(text)}")
    for key, value in info.metadata.items():
        session.say(f"{'metadata':<10}{one_line(f'{key}={as_json(value)}')}")
    for name, value in variables.items():
        session.say(f"{'variable':<10}{one_line(f'{name}={as_json(value)}')}")
    for note in left.notes:
        session.say(f"{'left':<10}{one_line(note)}")
    if problem is not None:
        session.note(f"not everything can be shown: {problem}")
    if not tasks:
        fiber_positions.say(session, fibers, most)
        return
    session.say("")
    columns = ["task", "state", "effect", "saved", "started", "took", "failures", "now"]
    session.table(columns, [_row(alike, past) for alike in grouped_tasks.collapse(tasks)])
    fiber_positions.say(session, fibers, most)
    for task in tasks:
        if task.error is not None:
            session.say(f"\n{one_line(task.id)} raised {one_line(task.error)}")
    for note in past.notes(tasks):
        session.say(f"\n{note}")


def tasks_of(engine: Engine, info: RunInfo) -> tuple[list[TaskInfo], str | None]:
    """The tasks of a run, or why they cannot be told: their code may not be there."""
    return _or_reason(engine.list_tasks, info)


def _or_reason(look: Callable[[str], list[T]], info: RunInfo) -> tuple[list[T], str | None]:
    from onceflow.errors import NoSuchRun, OnceflowError, StorageError

    try:
        return look(info.id), None
    except (NoSuchRun, StorageError):
        raise
    except OnceflowError as error:
        return [], str(error)


def is_unheard(engine: Engine, info: RunInfo, tasks: list[TaskInfo]) -> bool:
    """Whether somebody drives the run and cannot be asked what runs. Of one that waits, nothing does."""
    driven = ACTIVE - {"waiting"}
    return info.status in driven and not all(task.live for task in tasks) and engine.status(info.id) in driven


def task_as_json(task: TaskInfo) -> dict[str, Any]:
    return {
        "id": task.id,
        "task": task.task,
        "state": task.state,
        "effect": task.effect,
        "saved": task.saved,
        "attempt": task.attempt,
        "failures": task.failures,
        "waits_for": list(task.waits_for),
        "reason": task.reason,
        "started": task.started,
        "progress": task.progress,
        "live": task.live,
        "metadata": task.metadata,
        "error": task.error,
    }


def _row(alike: list[TaskInfo], past: Details) -> list[str]:
    task = alike[0]
    if len(alike) > 1:
        return [*grouped_tasks.columns(alike), "", "", "", task.reason]
    saved = "yes" if task.saved else "no"
    failures = str(task.failures) if task.failures else ""
    now = task.reason or str(task.progress or "")
    return [task.id, task.state, task.effect, saved, *past.columns(task), failures, now]
