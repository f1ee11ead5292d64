"""`onceflow watch`: a live view of one run, or of all that go on. It only looks, again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.cancel import GOING_ON
from onceflow.cli.session import Session, as_time, common
from onceflow.cli.show import UNHEARD, is_unheard, tasks_of
from onceflow.errors import NoSuchRun
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo

INTERVAL = 0.5
"""Seconds between two looks."""

SUMMARY = 5.0
"""Seconds between two lines about a run that goes on."""

DRIVEN = frozenset(GOING_ON) - {"interrupted"}

States = dict[tuple[str, str], str]
"""(run, task) → state, and (run, "") → status."""


@click.command
@run_selection.runs_argument()
@click.option("--interval", type=click.FloatRange(0.05, 3600), default=INTERVAL, metavar="S", help="Between two looks.")
@common
def watch(session: Session, run: str | None, interval: float) -> int:
    """Follow a run until it ends, or all runs that go on until none does, wherever they are driven. On a terminal a
    live display; elsewhere a line for each change and every few seconds, or with --json an object for each change.

    The exit code says how the run ended: 0 if it succeeded, 1 if not.
    """
    targets.look_in_current_folder()
    with session.engine_if_any() as engine:
        if engine is None:
            if run is not None:
                raise NoSuchRun(run)
            return exits.FINE
        id = None if run is None else engine.find(run).id
        if sys.stdout.isatty() and not session.json and not session.quiet:
            _display(engine, id, interval)
        else:
            _print(session, engine, id, interval)
        if id is not None:
            status = engine.info(id).status
            if status != "succeeded":
                session.note(f"run {run} is {status}")
                return exits.FAILED
    return exits.FINE


def _runs(engine: Engine, id: str | None, before: Iterable[str]) -> list[str]:
    """The run that is asked for; else those that go on, and those that did at the last look."""
    if id is not None:
        return [id]
    listed: Any = tuple(DRIVEN)
    found = [run.id for run in engine.list_runs(status=listed, limit=None)]
    return list(dict.fromkeys([*before, *found]))


# -- on a terminal -----------------------------------------------------------------------------------------------------


def _display(engine: Engine, id: str | None, interval: float) -> None:
    from onceflow.engine.display.progress_view import Looking
    from onceflow.engine.display.refresh import Live

    looking = Looking(engine)
    shown: list[str] = []
    live = Live(sys.stdout)
    try:
        while True:
            views = looking.look(_runs(engine, id, shown))
            for view in [view for view in views if view.has_ended]:
                live.end(view)
            going_on = [view for view in views if not view.has_ended]
            shown = [view.info.id for view in going_on]
            if not going_on:
                return
            live.show(going_on, looking.hidden)
            time.sleep(looking.pause(interval))
    finally:
        live.close()


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def _print(session: Session, engine: Engine, id: str | None, interval: float) -> None:
    from onceflow.engine.display.progress_view import Looking

    looking = Looking(engine)
    states: States = {}
    told = time.monotonic()
    while True:
        begun = time.monotonic()
        runs = _still_there(engine, _runs(engine, id, [run for run, task in states if not task]))
        names = {run.id: run.name for run in runs}
        now = _states(session, engine, runs, states)
        _print_changes(session, names, states, now)
        states = now
        if not any(run.status in DRIVEN for run in runs):
            return
        if time.monotonic() - told >= SUMMARY and not session.json:
            told = time.monotonic()
            _print_summaries(session, looking, [run.id for run in runs if run.status in DRIVEN])
        time.sleep(max(interval, looking.pause(0), 20 * (time.monotonic() - begun)))


def _states(session: Session, engine: Engine, runs: list[RunInfo], before: States) -> States:
    states: States = {}
    for run in runs:
        tasks = tasks_of(engine, run)[0]
        if (run.id, "") not in before and is_unheard(engine, run, tasks):
            session.note(f"run {run.name or run.id}: {UNHEARD}")
        states |= {(run.id, task.id): task.state for task in tasks}
        states[run.id, ""] = run.status
    return states


def _still_there(engine: Engine, ids: Iterable[str]) -> list[RunInfo]:
    runs = []
    for id in ids:
        try:
            runs.append(engine.info(id))
        except NoSuchRun:
            continue
    return runs


def _print_summaries(session: Session, looking: Any, runs: list[str]) -> None:
    from onceflow.engine.display import wording

    for view in looking.look(runs):
        session.say(f"{as_time(time.time())}  {wording.name(view)}  {wording.line(view)}")


def _print_changes(session: Session, names: dict[str, str | None], before: States, now: States) -> None:
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
