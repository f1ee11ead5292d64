"""`onceflow set-result`: the result of a failed task, given by a person."""

from __future__ import annotations

from typing import Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.run import print_result, wait_shown
from onceflow.cli.session import Session, common, only_results_on_stdout, output_option
from onceflow.cli.types import TEXT, as_value


@click.command("set-result")
@run_selection.runs_argument(required=True)
@click.argument("task", type=TEXT)
@click.argument("value", type=TEXT)
@click.option("--resume", is_flag=True, help="Go on with the run, and print its result.")
@output_option()
@common
def set_result(session: Session, run: str, task: str, value: str, resume: bool, output: Any) -> int:
    """Give the result of a task that has failed. When the run goes on, the task is done with that and does not run.
    VALUE is JSON, or else a text; it is checked against what the task's function is declared to return.
    """
    from onceflow.errors import ResultRefused

    targets.look_in_current_folder()
    with only_results_on_stdout(), session.engine_of([run], output) as engine:
        info = engine.find(run)
        try:
            engine.set_result(info.id, task, as_value(value))
        except ResultRefused as error:
            raise exits.Refused(str(error)) from error
        handle = engine.resume_async(info.id) if resume else None
        if handle is not None:
            wait_shown(session, engine, handle)
    if handle is not None:
        print_result(session, handle, handle.result())
    elif session.json:
        session.say_json({"id": info.id, "name": info.name, "task": task})
    else:
        session.note(f"{task} is done with that when the run goes on: onceflow resume {info.name or info.id}")
    return exits.FINE
