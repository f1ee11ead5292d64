"""`python -m tests.tools.simulation`: plays schedules, and makes small what breaks the law."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from itertools import count
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.tools.simulation.bulk import RULES, Caught, Settings, Tally, hunt, play
from tests.tools.simulation.shrinking import kind_of, record, shrink

EVERY = 60.0
"""Seconds between two lines of progress where nobody watches a bar."""


def main() -> int:
    """Exit code 0 if the law held, 1 if it was broken, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, help="how many to play (10,000, or as many as there is time for)")
    parser.add_argument("--seconds", type=float, help="play for so long")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="the first seed is made of date and time, and is printed")
    parser.add_argument("--seed", type=int, help="play this one only, and tell its story if it breaks the law")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most", type=int, default=20, help="stop after so many schedules that broke the law")
    parser.add_argument(
        "--rule", choices=tuple(RULES), default="right", help="the right one, or one that looks right and is not"
    )
    parser.add_argument("--validate", action="store_true", help="compare every state with its definition; slow")
    parser.add_argument("--without-refs", action="store_true", help="no task returns a reference")
    parser.add_argument("--queues", action="store_true", help="many tasks ask before they start")
    parser.add_argument("--forks", action="store_true", help="many returned graphs have nodes aside, which others join")
    parser.add_argument("--actors", action="store_true", help="tasks return actors, and take them for themselves")
    parser.add_argument("--mixed", action="store_true", help="each schedule has its own set of these options")
    arguments = parser.parse_args()
    settings = Settings(
        arguments.rule,
        arguments.validate,
        refs=not arguments.without_refs,
        actors=arguments.actors,
        queues=arguments.queues,
        forks=arguments.forks,
        mixed=arguments.mixed,
    )
    console = Console()
    try:
        if arguments.seed is not None:
            return _play_one(arguments.seed, settings, console)
        first = int(time.strftime("%y%m%d%H%M%S", time.gmtime())) * 1_000_000 if arguments.fresh else arguments.first
        schedules = arguments.schedules
        if schedules is None and arguments.seconds is None:
            schedules = 10_000
        return _play_all(first, schedules, arguments, settings, console)
    except KeyboardInterrupt:
        console.print("[yellow]stopped[/yellow]")
        return 130


def _play_one(seed: int, settings: Settings, console: Console) -> int:
    try:
        outcome = play(seed, settings)
    except Caught as caught:
        console.print(f"[red]seed {seed} breaks the law[/red]\n{escape(str(caught))}", soft_wrap=True)
        _print_test(caught, settings, console)
        return 1
    console.print(f"seed {seed}: {outcome.status} after {outcome.steps} steps, {outcome.faults} faults")
    return 0


def _play_all(
    first: int, schedules: int | None, arguments: argparse.Namespace, settings: Settings, console: Console
) -> int:
    console.print(f"seeds from {first:,}{settings.flags}".replace(",", "_"))
    seeds: Iterable[int] = count(first) if schedules is None else range(first, first + schedules)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    began = monotonic()
    told = began
    known = 0
    shown = Tally()
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("schedules", total=schedules)

        def show(tally: Tally) -> None:
            nonlocal shown, told, known
            shown = tally
            for caught in tally.finds[known:]:
                reason = caught.reason.strip().splitlines()[-1]
                console.print(f"[red]seed {caught.seed} breaks the law:[/red] {escape(reason)}", soft_wrap=True)
            known = len(tally.finds)
            rate = tally.schedules / (monotonic() - began)
            found = f", [red]{len(tally.finds)} broke the law[/red]" if tally.finds else ""
            progress.update(bar, completed=tally.schedules, description=f"{rate:,.0f} schedules/s{found}")
            if not console.is_terminal and monotonic() > told + EVERY:
                told = monotonic()
                console.print(f"{tally.schedules:,} schedules, {rate:,.0f}/s{found}")

        try:
            hunt(seeds, settings, jobs=arguments.jobs, most=arguments.most, seconds=arguments.seconds, progress=show)
        except KeyboardInterrupt:
            _sum_up(shown, monotonic() - began, console)
            raise
    _sum_up(shown, monotonic() - began, console)
    kinds: dict[str, Caught] = {}
    for caught in shown.finds:
        kinds.setdefault(kind_of(caught.reason), caught)
    for caught in kinds.values():
        console.print(f"[red]seed {caught.seed} breaks the law[/red]\n{escape(str(caught))}", soft_wrap=True)
        _print_test(caught, settings, console)
    return 1 if kinds else 0


def _sum_up(tally: Tally, seconds: float, console: Console) -> None:
    ends = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common())
    console.print(
        f"{tally.schedules:,} schedules, {tally.steps:,} steps, {tally.faults:,} faults, {tally.crashes:,} crashes in "
        f"{seconds:.1f} s ({tally.schedules / seconds:,.0f} schedules/s): {ends}."
    )
    if tally.finds:
        each = tally.schedules / len(tally.finds)
        console.print(f"[red]{len(tally.finds)} broke the law, one in {each:,.0f} schedules.[/red]")
    else:
        console.print("No violation.")


def _print_test(caught: Caught, settings: Settings, console: Console) -> None:
    assert caught.seed is not None
    find = record(caught.seed, settings)
    if find is None:
        console.print("\nIt cannot be written down as a script; the seed is all there is.")
        return
    small = shrink(find)
    console.print("\nThe same as a test (tests/core/found):\n")
    console.print(escape(small.as_test(f"seed_{caught.seed}")), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
