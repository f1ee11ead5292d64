"""`onceflow why`: says what a run, or a task of it, waits for."""

from __future__ import annotations

import click
import msgspec

from onceflow.cli import run_selection
from onceflow.cli.session import Session, common, only_results_on_stdout, title
from onceflow.values.texts import one_line

MOST_OBSTACLES = 20
"""Tasks that are listed for one question."""


@click.command
@run_selection.runs_argument(required=True)
@run_selection.task_argument
@common
def why(session: Session, run: str, task: str | None) -> None:
    """Say what a run waits for, or one of its tasks: the tasks at which it stands, what each of them does or waits for
    (a worker, a save, a delay, a person), and how many others wait behind it.
    """
    with only_results_on_stdout(), session.engine_of([run]) as engine:
        info = engine.find(run)
        found = engine.why(info.id, task)
    if session.json:
        session.say_json(msgspec.to_builtins(found))
        return
    session.say(f"{title(info)} is {found.status}: {found.text}")
    for obstacle in found.obstacles[:MOST_OBSTACLES]:
        behind = f" ({obstacle.behind} behind it)" if obstacle.behind else ""
        session.say(f"  {one_line(obstacle.task)} {one_line(obstacle.text)}{behind}")
    if len(found.obstacles) > MOST_OBSTACLES:
        session.say(f"  … and {len(found.obstacles) - MOST_OBSTACLES} others")
