"""`onceflow cancel`."""

from __future__ import annotations

from typing import Any

import click

from onceflow.cli import run_selection
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, common
from onceflow.cli.stopping import stop_runs
from onceflow.cli.types import AGE


@click.command
@run_selection.selection
@click.option("--undo", is_flag=True, help="Take back what its undoable tasks have done.")
@click.option(
    "--grace",
    type=AGE,
    metavar="AGE",
    help="How long irrevocable tasks that have begun may take to finish: 2s, 1m.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def cancel(session: Session, chosen: Selection, undo: bool, grace: float | None, yes: bool) -> int:
    """Stop runs, wherever they are driven, and wait until nothing of them runs any more. With --all, or filters, all
    that go on or were interrupted. A run that has ended otherwise is refused.
    """
    options: dict[str, Any] = {"undo": undo} if grace is None else {"undo": undo, "grace": grace}
    return stop_runs(
        *(session, chosen, "Cancel", "cancelled", yes),
        lambda engine, runs: engine.ask_to_cancel(runs, **options),
        lambda engine, run: engine.cancel(run, **options),
    )
