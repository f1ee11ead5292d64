"""`onceflow limit`: how many chunks of a loop may be in flight."""

from __future__ import annotations

import click

from onceflow.cli import run_selection, targets
from onceflow.cli.session import Session, common, only_results_on_stdout


@click.command
@run_selection.runs_argument(required=True)
@click.argument("loop")
@click.argument("count", type=click.IntRange(min=1))
@common
def limit(session: Session, run: str, loop: str, count: int) -> None:
    """Say how many chunks of a loop may be in flight from now on, while the run goes on and wherever it is driven. LOOP
    is the id of the loop's task, as show tells it. What is in flight is not stopped.
    """
    targets.look_in_current_folder()
    with only_results_on_stdout(), session.engine_of([run]) as engine:
        info = engine.find(run)
        engine.limit(info.id, loop, count)
    if session.json:
        session.say_json({"id": info.id, "name": info.name, "loop": loop, "limit": count})
    else:
        session.say(f"{info.name or info.id}: at most {count} of {loop} in flight")
