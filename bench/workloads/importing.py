"""What it costs to import onceflow.

Starts of Python with and without it take turns; the difference of the medians counts. Modules are compiled.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import comparing, programs
from bench.field import Contestant, Field
from bench.rows import Comparison, Row
from bench.workloads import _measuring

STARTS = 25
MOST_MILLISECONDS = 100.0
COMPARED = 3
"""Starts with and without, in a round of a comparison."""

BARE, IMPORT, ENGINE = "pass", "import onceflow", "from onceflow import Engine"


def _milliseconds(program: str, folder: Path) -> float:
    started = time.perf_counter()
    if _measuring.start(["-c", program], folder).wait():
        raise RuntimeError(f"{program!r} failed")
    return (time.perf_counter() - started) * 1e3


def measure() -> list[Row]:
    programs = (BARE, IMPORT, ENGINE)
    times: dict[str, list[float]] = {program: [] for program in programs}
    with tempfile.TemporaryDirectory() as folder:
        for warm in range(STARTS + 1):
            for program in programs:
                taken = _milliseconds(program, Path(folder))
                if warm:
                    times[program].append(taken)
    rows = [_measuring.most("Python starts and ends", times[BARE], "ms")]
    bare = statistics.median(times[BARE])
    for program in (IMPORT, ENGINE):
        over = [taken - bare for taken in times[program]]
        limit = MOST_MILLISECONDS if program == IMPORT else None
        rows.append(_measuring.most(f"{program}, over bare Python", over, "ms", limit))
    return rows


def compare(field: Field) -> list[Comparison]:
    ours, *peers = [_side(contestant, field) for contestant in field.everyone]
    bare = comparing.Side("a start of Python", "", lambda: _taken(field.ours, BARE, field))
    what = "importing it, over a start of Python with the same environment"
    return [comparing.compared(what, "ms", [ours], peers, [bare], field.rounds, warm_up=1)]


def _side(contestant: Contestant, field: Field) -> comparing.Side:
    def over() -> float:
        times = {BARE: [], contestant.importing: []}
        for _ in range(COMPARED):
            for statement, taken in times.items():
                taken.append(_taken(contestant, statement, field))
        return statistics.median(times[contestant.importing]) - statistics.median(times[BARE])

    if contestant.missing:
        return comparing.Side(contestant.name, "", None, contestant.missing)
    return comparing.Side(contestant.name, "", over, contestant.importing)


def _taken(contestant: Contestant, statement: str, field: Field) -> float:
    command = contestant.command(statement)
    started = time.perf_counter()
    done = subprocess.run(command, cwd=field.folder, env=contestant.environment, capture_output=True, check=False)
    milliseconds = (time.perf_counter() - started) * 1e3
    if done.returncode:
        raise programs.Failed(f"{statement!r} failed: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
    return milliseconds
