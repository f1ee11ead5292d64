"""The parent of all processes of the demo."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from onceflow.testing.demo import points, proof, traveller
from onceflow.testing.demo.ledger import Ledger
from onceflow.testing.demo.points import Point
from onceflow.testing.demo.screen import Screen, ledger_table, open_screen
from onceflow.testing.demo.traveller import Came, Happened, Line

PATIENCE = 60.0
"""Seconds after which a process that has not ended is given up."""

SEEDS = 10_000

INTRODUCTION = {
    "ann": "Ann's trip: a flight, a room and a payment, booked by a process that is killed again and again.",
    "bob": "Bob's card is refused for good. With on_failure='undo' what was booked is taken back, killed meanwhile.",
}


def show(console: Console, seed: int | None = None) -> bool:
    """Whether the proof holds."""
    chosen = secrets.randbelow(SEEDS) if seed is None else seed
    console.print(f"[bold]onceflow demo[/bold], seed {chosen} (onceflow demo --seed {chosen} kills at the same points)")
    with tempfile.TemporaryDirectory(prefix="onceflow-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        ledger = Ledger(folder)
        ledger.create()
        claims: list[proof.Claim] = []
        for trip, plan in points.plan(chosen).items():
            console.print(f"\n{INTRODUCTION[trip]}", highlight=False)
            claims += _show_trip(console, folder, ledger, trip, plan)
    holds = all(claim.holds for claim in claims)
    verdict = "[bold green]Proved" if holds else "[bold red]Not proved"
    console.print(f"\n{verdict}[/]: {sum(claim.holds for claim in claims)} of {len(claims)} claims hold.")
    return holds


def _show_trip(
    console: Console, folder: Path, ledger: Ledger, trip: str, plan: Sequence[Point]
) -> Sequence[proof.Claim]:
    kills: list[Point] = []
    came: Came | None = None
    with open_screen(console, ledger, trip) as screen:
        for point in (*plan, None):
            screen.process_started()
            came, killed = _run_process(folder, trip, point, screen)
            if not killed or point is None:
                break
            kills.append(point)
            screen.killed(point)
    if not console.is_terminal:
        console.print(ledger_table(ledger, trip))
    if came is not None:
        end = f"After {len(kills)} kills the run {proof.said(came.status)}: {came.text}."
        console.print(Text(end), soft_wrap=True)
    claims = proof.prove(ledger, trip, came, kills)
    for claim in claims:
        mark = "[green]✓[/green]" if claim.holds else "[bold red]✗ not true:[/bold red]"
        console.print(f"  {mark} {claim.text}", highlight=False)
    return claims


def _run_process(folder: Path, trip: str, point: Point | None, screen: Screen) -> tuple[Came | None, bool]:
    """How the run came out, if it did; and whether the process has killed itself."""
    came: Came | None = None
    process = subprocess.Popen(
        [sys.executable, "-m", traveller.__name__, str(folder), trip],
        env={**os.environ, points.ARMED: "" if point is None else str(point)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us alone
    )
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    alarm = threading.Timer(PATIENCE, give_up)
    alarm.daemon = True
    alarm.start()
    with process:
        try:
            assert process.stdout is not None
            # The end of the pipe is the end of the workers, too: they have it as well.
            for text in process.stdout:
                line: Happened | Came = msgspec.json.decode(text, type=Line)
                match line:
                    case Happened(kind, task):
                        screen.happened(kind, task)
                    case Came():
                        came = line
        except BaseException:
            process.kill()
            raise
        finally:
            alarm.cancel()
    return came, process.returncode == -signal.SIGKILL and not late.is_set()
