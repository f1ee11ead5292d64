"""`onceflow submit`: leaves a run to an engine that serves."""

from __future__ import annotations

from typing import Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.run import print_result
from onceflow.cli.session import Session, common, only_results_on_stdout


@click.command
@targets.arguments
@targets.run_options
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended, and print its result.")
@common
def submit(
    session: Session,
    target: str,
    given: tuple[str, ...],
    input: str | None,
    waits: bool,
    **options: Any,
) -> int:
    """Leave a workflow or a task to an engine that serves (`onceflow serve`), on whatever host, and print the run's id.
    Until one takes it, the run is pending.

    MODULE is what it is for `onceflow run`. Its code must be found where it is served.
    """
    with only_results_on_stdout():
        node = targets.bind(target, given, input)
        with session.engine() as engine:
            handle = engine.submit(node, **options)
            result = handle.result() if waits else None
    if waits:
        print_result(session, handle, result)
    elif session.json:
        session.say_json({"id": handle.id, "name": handle.name, "status": "pending"})
    else:
        click.echo(handle.id)
    return exits.FINE
