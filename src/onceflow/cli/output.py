"""`onceflow output`: prints the saved output of a run or a task."""

from __future__ import annotations

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.session import Session, as_text, common, only_results_on_stdout


@click.command
@run_selection.runs_argument(required=True)
@run_selection.task_argument
@common
def output(session: Session, run: str, task: str | None) -> None:
    """Print the saved output of a run, or of one of its tasks. It does not wait, and hands out only what is saved and
    can never change any more.
    """
    targets.look_in_current_folder()
    with only_results_on_stdout(), session.engine_of([run]) as engine:
        info = engine.find(run)
        try:
            value = engine.get_output(info.id, task)
        except (ImportError, AttributeError, EOFError) as error:
            raise exits.Trouble(f"the output cannot be loaded here: {type(error).__name__}: {error}") from error
    if session.json:
        session.say_json({"id": info.id, "name": info.name, "task": task, "output": value})
    elif value is not None:
        click.echo(as_text(value))
