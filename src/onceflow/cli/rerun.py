"""`onceflow rerun`."""

from __future__ import annotations

from typing import Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.run import print_result, wait_shown
from onceflow.cli.session import Session, common, only_results_on_stdout, output_option
from onceflow.cli.types import TEXT


@click.command
@run_selection.runs_argument(required=True)
@click.option(
    "--from",
    "from_tasks",
    type=TEXT,
    multiple=True,
    metavar="TASK",
    help="Do this task again, and all that it leads to. May be given many times.",
)
@click.option("--as", "target", type=TEXT, metavar="MODULE:WORKFLOW", help="Run this, and reuse what is the same.")
@targets.values
@targets.name_option
@output_option()
@common
def rerun(
    session: Session,
    run: str,
    from_tasks: tuple[str, ...],
    target: str | None,
    given: tuple[str, ...],
    input: str | None,
    name: str | None,
    output: Any,
) -> int:
    """Run a run again from a task on, as a new run that reuses everything else that was saved, and print its result.

    With --as, the new run is of that workflow, with the arguments given: tasks that are the same as in the run, above
    which everything is the same, are reused. The code is always that of now.
    """
    targets.look_in_current_folder()
    if target is None and (given or input):
        raise exits.Wrong("--arg and --input are for the workflow that --as names")
    if target is None and not from_tasks:
        raise exits.Wrong("from which task on? Give --from TASK, or --as MODULE:WORKFLOW with what is to be different")
    with only_results_on_stdout():
        node = None if target is None else targets.bind(target, given, input)
        with session.engine_of([run], output) as engine:
            handle = engine.rerun_async(engine.find(run).id, from_task=from_tasks, node=node, name=name)
            result = wait_shown(session, engine, handle)
    print_result(session, handle, result)
    return exits.FINE
