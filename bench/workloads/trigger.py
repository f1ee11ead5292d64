"""Durable trigger latency: from the submission of a one-task workflow until its result is back, one after the other.

All defaults: the run and what it saves are synced to the disk (`synchronous=FULL`), the task runs in a worker. Beside
it stands a single plain SQLite commit in the same folder. Short rounds of runs and of commits alternate, because the
speed of a disk and of a shared machine changes from second to second; the ratio is what to look at, and p10 if the
machine has other work. Measured twice: for a task that workers can import, and for one of a script, which is shipped by
value (this file, started as a program).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import comparing, limits, threads
from bench.field import Field
from bench.rows import Comparison, Row
from bench.workloads import _measuring
from onceflow import Engine, task

ROUNDS = 100
RUNS = 10
"""In a round, with as many commits after them."""
WARM_UP = 100
COMPARED = 30
"""Runs in a round of a comparison."""

MOST_MILLISECONDS = 1.0
MOST_COMMITS = 4.0
"""How many times a plain commit a run may take."""


@task
def echo(value: int) -> int:
    return value


class Measured(NamedTuple):
    """Milliseconds, round by round."""

    runs: list[list[float]]
    commits: list[list[float]]
    trips: list[float]
    """Round trips through a socket to another process."""
    journal: float
    """How often the journal committed for a run."""


def measure_here(folder: Path) -> Measured:
    plain = _measuring.PlainCommits(folder)
    runs: list[list[float]] = []
    commits: list[list[float]] = []
    trips: list[float] = []
    with limits.SOCKET.opened(folder) as trip, Engine(folder / "home") as engine:
        for number in range(WARM_UP):
            engine.run(echo.bind(number))
            plain.seconds()
        before = engine._home.journal.statistics().commits
        for _ in range(ROUNDS):
            with threads.watched(f"trigger, {echo.__module__}", "run", RUNS):
                runs.append([_run(engine, number) * 1e3 for number in range(RUNS)])
            commits.append([plain.seconds() * 1e3 for _ in range(RUNS)])
            trips.append(trip() * 1e3)
        committed = engine._home.journal.statistics().commits - before
    plain.close()
    return Measured(runs, commits, trips, committed / (ROUNDS * RUNS))


def _run(engine: Engine, number: int) -> float:
    started = time.perf_counter()
    result = engine.run(echo.bind(number))
    seconds = time.perf_counter() - started
    assert result == number
    return seconds


def measure_script(folder: Path) -> Measured:
    program = _measuring.start([Path(__file__), folder], folder, stdout=subprocess.PIPE)
    output, _ = program.communicate()
    if program.returncode:
        raise RuntimeError(f"{__file__} failed with status {program.returncode}")
    return Measured(*json.loads(output))


def rows_of(kind: str, measured: Measured) -> list[Row]:
    every = [each for runs in measured.runs for each in runs]
    plain = [each for commits in measured.commits for each in commits]
    rounds = [statistics.median(runs) for runs in measured.runs]
    plain_rounds = [statistics.median(commits) for commits in measured.commits]
    p50, plain_p50 = statistics.median(every), statistics.median(plain)
    floor = measured.journal * plain_p50 + statistics.median(measured.trips)
    ratio, ratio10 = p50 / plain_p50, _measuring.percentile(every, 10) / _measuring.percentile(plain, 10)
    return [
        Row(f"{kind}: p10", _measuring.percentile(every, 10), "ms"),
        Row(f"{kind}: p50", p50, "ms", f"≤ {MOST_MILLISECONDS}", p50 <= MOST_MILLISECONDS, min(rounds), max(rounds)),
        Row(f"{kind}: p90", _measuring.percentile(every, 90), "ms"),
        Row(f"{kind}: p99", _measuring.percentile(every, 99), "ms"),
        Row(f"{kind}: plain commit, p10", _measuring.percentile(plain, 10), "ms"),
        Row(f"{kind}: plain commit, p50", plain_p50, "ms", low=min(plain_rounds), high=max(plain_rounds)),
        Row(f"{kind}: p10 against a plain commit", ratio10, "×"),
        Row(f"{kind}: p50 against a plain commit", ratio, "×", f"≤ {MOST_COMMITS:g}", ratio <= MOST_COMMITS),
        Row(f"{kind}: commits of the journal", measured.journal, "a run"),
        Row(f"{kind}: floor: these commits, a round trip to another process", floor, "ms"),
    ]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of("importable task", measure_here(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        rows += rows_of("task of a script", measure_script(Path(folder)))
    return rows


def compare(field: Field) -> list[Comparison]:
    what = "a workflow of one task, from its submission to its result"
    return [comparing.latencies(field, "trigger", what, COMPARED, (limits.COMMIT, limits.SYNC, limits.SOCKET))]


if __name__ == "__main__":
    print(json.dumps(measure_here(Path(sys.argv[1]))))
