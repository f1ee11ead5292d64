"""`python -m onceflow.testing.simulation`: plays schedules until all are played or one breaks the law."""

from __future__ import annotations

import argparse
import sys
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onceflow.testing.simulation.bulk import RULES, Caught, Settings, Tally, play, simulate_many


def main() -> int:
    """Exit code 0 if the law held, 1 if it was broken, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m onceflow.testing.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000, help="how many to play")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one only, and tell its story if it breaks the law")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--rule", choices=tuple(RULES), default="right", help="the right one, or one that looks right and is not"
    )
    parser.add_argument("--validate", action="store_true", help="compare every state with its definition; slow")
    parser.add_argument("--without-refs", action="store_true", help="no task returns a reference")
    parser.add_argument("--queues", action="store_true", help="many tasks ask before they start")
    parser.add_argument("--forks", action="store_true", help="many returned graphs have nodes aside, which others join")
    parser.add_argument("--actors", action="store_true", help="tasks return actors, and take them for themselves")
    arguments = parser.parse_args()
    refs = not arguments.without_refs
    settings = Settings(
        arguments.rule,
        arguments.validate,
        refs=refs,
        actors=arguments.actors,
        queues=arguments.queues,
        forks=arguments.forks,
    )
    console = Console()
    try:
        if arguments.seed is not None:
            outcome = play(arguments.seed, settings)
            console.print(
                f"seed {arguments.seed}: {outcome.status} after {outcome.steps} steps, {outcome.faults} faults"
            )
        else:
            seeds = range(arguments.first, arguments.first + arguments.schedules)
            _play_all(seeds, settings, arguments.jobs, console)
    except Caught as caught:
        console.print(f"[red]seed {caught.seed} breaks the law[/red]\n{escape(str(caught))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("[yellow]stopped; no violation so far[/yellow]")
        return 130
    return 0


def _play_all(seeds: range, settings: Settings, jobs: int, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = monotonic()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("schedules", total=len(seeds))

        def show(tally: Tally) -> None:
            rate = tally.schedules / (monotonic() - began)
            progress.update(bar, completed=tally.schedules, description=f"{rate:,.0f} schedules/s")

        tally = simulate_many(seeds, settings, jobs=jobs, progress=show)
    seconds = monotonic() - began
    ends = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common())
    console.print(
        f"{tally.schedules:,} schedules, {tally.steps:,} steps, {tally.faults:,} faults, {tally.crashes:,} crashes in "
        f"{seconds:.1f} s ({tally.schedules / seconds:,.0f} schedules/s): {ends}. No violation."
    )


if __name__ == "__main__":
    sys.exit(main())
