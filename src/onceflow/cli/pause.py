"""`onceflow pause`."""

from __future__ import annotations

import click

from onceflow.cli import run_selection
from onceflow.cli.cancel import stop_runs
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, common


@click.command
@run_selection.selection
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def pause(session: Session, chosen: Selection, yes: bool) -> int:
    """Let runs rest, wherever they are driven: nothing more of them starts. Waits until what was running has ended and
    is saved; resume goes on. With --all, or filters, all that go on or were interrupted. A run that has ended is
    refused.
    """
    return stop_runs(
        *(session, chosen, "Pause", "paused", yes),
        lambda engine, runs: engine.ask_to_pause(runs),
        lambda engine, run: engine.pause(run),
    )
