"""`python -m tests.tools.chaos`: plays iterations until all are played or one goes wrong."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.tools.chaos.iteration import Caught, play
from tests.tools.chaos.lives import Nursery


def main() -> int:
    """Exit code 0 if all was well, 1 if something went wrong, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.chaos", description=__doc__)
    parser.add_argument("--iterations", type=int, default=60, help="how many to play")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each further one has the next number")
    parser.add_argument("--first", type=int, default=0, help="how many to leave out")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first that goes wrong")
    arguments = parser.parse_args()
    console = Console()
    first = arguments.seed + arguments.first
    try:
        wrong = _play_all(range(first, arguments.seed + arguments.iterations), arguments.go_on, console)
    except KeyboardInterrupt:
        return 130
    return 1 if wrong else 0


def _play_all(seeds: range, go_on: bool, console: Console) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = monotonic()
    ends: Counter[str] = Counter()
    engines = killed = wrong = 0
    with Nursery() as nursery, Progress(*columns, console=console) as progress:
        bar = progress.add_task("iterations", total=len(seeds))
        for seed in seeds:
            try:
                verdict = play(seed, nursery)
            except Caught as caught:
                wrong += 1
                console.print(f"[red]something went wrong[/red] in {escape(str(caught))}", soft_wrap=True)
                if not go_on:
                    break
            else:
                ends[verdict.status] += 1
                engines += verdict.engines
                killed += verdict.kills
            progress.advance(bar)
    told = ", ".join(f"{count:,} {status}" for status, count in ends.most_common())
    console.print(
        f"{ends.total():,} iterations in {monotonic() - began:.0f} s: {told}; {engines:,} engines, {killed:,} of them "
        f"killed. {f'{wrong} went wrong.' if wrong else 'No effect lost, none doubled, nothing left behind.'}"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
