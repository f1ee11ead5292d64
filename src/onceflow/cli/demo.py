"""`onceflow demo`."""

from __future__ import annotations

import sys

import click


@click.command
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Kill at the points of this seed again.")
@click.option("--law", is_flag=True, help="Show the check and a crash at every moment as well.")
def demo(seed: int | None, law: bool) -> None:
    """Book two trips in processes that are killed with SIGKILL again and again, then prove from a ledger outside that
    each effect happened once. Takes about ten seconds. Exits with 1 if the proof fails.
    """
    from rich.console import Console

    from onceflow.testing.demo import law as second_act
    from onceflow.testing.demo import show

    console = Console()
    try:
        proved = show.show(console, seed)
        if law:
            second_act.show(console)
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(130)
    sys.exit(0 if proved else 1)
