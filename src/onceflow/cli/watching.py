"""`onceflow watch`: a live view of one run, or of all that go on. It only looks, again and again."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, selecting, targets
from onceflow.cli.acting import GOING_ON
from onceflow.cli.looking import tasks_of
from onceflow.cli.session import Session, as_time, common, rich_table, title
from onceflow.errors import NoSuchRun
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.describing import TaskInfo
    from onceflow.engine.engine import Engine
    from onceflow.engine.listing import RunInfo

INTERVAL = 0.5
"""Seconds between two looks."""

MOST_TASKS = 40
"""Rows of a live table. Tasks that are done go first when there are more."""

DRIVEN = frozenset(GOING_ON) - {"interrupted"}


class View:
    """What was seen at one look."""

    def __init__(self, runs: list[RunInfo], tasks: dict[str, list[TaskInfo]]) -> None:
        self.runs = runs
        self.tasks = tasks

    @property
    def states(self) -> dict[tuple[str, str], str]:
        """(run, task) → state, and (run, "") → status."""
        states: dict[tuple[str, str], str] = {}
        for run in self.runs:
            states |= {(run.id, task.id): task.state for task in self.tasks.get(run.id, ())}
            states[run.id, ""] = run.status
        return states


@click.command
@selecting.runs_argument()
@click.option("--interval", type=click.FloatRange(0.05, 3600), default=INTERVAL, metavar="S", help="Between two looks.")
@common
def watch(session: Session, run: str | None, interval: float) -> int:
    """Follow a run until it ends, or all runs that go on until none does. On a terminal a live table; elsewhere a line
    for each change, or with --json an object. Of a run that another process drives, what has been saved is seen.

    The exit code says how the run ended: 0 if it succeeded, 1 if not.
    """
    targets.look_in_current_folder()
    with session.engine_if_any() as engine:
        if engine is None:
            if run is not None:
                raise NoSuchRun(run)
            return exits.FINE
        id = None if run is None else engine.find(run).id
        last = _follow(session, engine, id, interval)
    if id is not None and last[id, ""] != "succeeded":
        session.note(f"run {run} is {last[id, '']}")
        return exits.FAILED
    return exits.FINE


def _follow(session: Session, engine: Engine, id: str | None, interval: float) -> dict[tuple[str, str], str]:
    """Returns the states that were seen last."""
    live: Any = None
    states: dict[tuple[str, str], str] = {}
    with contextlib.ExitStack() as shown:
        if sys.stdout.isatty() and not session.json and not session.quiet:
            from rich.live import Live

            live = shown.enter_context(Live(auto_refresh=False))
        while True:
            view = _look(engine, id, [run for run, task in states if not task])
            names = {run.id: run.name for run in view.runs}
            if live is not None:
                live.update(_drawn(view), refresh=True)
            else:
                _print_changes(session, names, states, view.states)
            states = view.states
            if not any(run.status in DRIVEN for run in view.runs):
                return states
            time.sleep(interval)


def _look(engine: Engine, id: str | None, before: Iterable[str]) -> View:
    """The run that is asked for; else those that go on, and those that did at the last look."""
    if id is not None:
        runs = [engine.info(id)]
    else:
        listed: Any = tuple(DRIVEN)
        found = {run.id: run for run in engine.list_runs(status=listed, limit=None)}
        runs = [*found.values(), *[run for run in _still_there(engine, before) if run.id not in found]]
    return View(runs, {run.id: tasks_of(engine, run)[0] for run in runs})


def _still_there(engine: Engine, ids: Iterable[str]) -> list[RunInfo]:
    runs = []
    for id in ids:
        try:
            runs.append(engine.info(id))
        except NoSuchRun:
            continue
    return runs


def _print_changes(
    session: Session,
    names: dict[str, str | None],
    before: dict[tuple[str, str], str],
    now: dict[tuple[str, str], str],
) -> None:
    moment = time.time()
    for (run, task), state in now.items():
        if before.get((run, task)) == state or (task and (run, task) not in before and state == "waiting"):
            continue
        if session.json:
            session.say_json({"time": moment, "id": run, "name": names[run], "task": task or None, "state": state})
        elif task:
            session.say(f"{as_time(moment)}  {one_line(names[run] or run)}  {one_line(task)}: {state}")
        else:
            session.say(f"{as_time(moment)}  {one_line(names[run] or run)}  {state}")


def _drawn(view: View) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for run in view.runs:
        tasks = view.tasks[run.id]
        counts = Counter([task.state for task in tasks])
        told = ", ".join([f"{count} {state}" for state, count in counts.items()])
        parts.append(Text(f"{title(run)}  {run.workflow}  {run.status}  ({told})", style="bold"))
        shown = sorted(tasks, key=lambda task: task.state == "done")[:MOST_TASKS] if len(tasks) > MOST_TASKS else tasks
        rows = [[task.id, task.state, ", ".join(task.waits_for) if task.state == "waiting" else ""] for task in shown]
        parts.append(rich_table(["task", "state", "waits for"], rows))
    return Group(*parts)
