"""Runs that only wait: what each costs, how soon they are picked up after a restart, and how fast events wake them.

Half of the parked runs wait for an event, half sleep. Then events are sent to some of them by a process of its own,
while the engine drives what they wake; once more with `kill -9` of the engine in the middle. Each run returns the
number that was sent to it, so that an event which was lost, or taken by another, would be seen.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from bench import processes, programs
from bench.rows import Row
from bench.workloads import _measuring, _waiting
from onceflow import Engine

PARKED = 100_000
WOKEN = 10_000
SENDERS = 1

MOST_BYTES = 1_000.0
MOST_SECONDS = 5.0
LEAST_WOKEN = 3_000
"""Runs a second."""

PATIENCE = 300.0

PROGRAM = ["-c", "from bench.workloads import _waiting; _waiting.main()"]


def _start(folder: Path, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    return _measuring.start([*PROGRAM, *map(str, arguments)], folder, **options)


def _drive(folder: Path, home: Path, count: int) -> tuple[subprocess.Popen[str], float, float]:
    program = _start(folder, "drive", home, count, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stdout: IO[str] | None = program.stdout
    assert stdout is not None
    told = stdout.readline().split()
    if not told:
        raise programs.Failed("the engine did not pick the runs up")
    return program, float(told[0]), float(told[1])


def _send(folder: Path, home: Path, first: int, count: int) -> list[subprocess.Popen[str]]:
    """Returns when they begin."""
    each = count // SENDERS
    senders = [
        _start(folder, "send", home, first + number * each, each, stdout=subprocess.PIPE) for number in range(SENDERS)
    ]
    for sender in senders:
        assert sender.stdout is not None
        sender.stdout.readline()
    return senders


def _succeeded(engine: Engine) -> int:
    """How many runs. Counted by the database, so that looking does not take the time of those who work."""
    return sum(engine._home.journal.owners(["succeeded"]).values())


def _wait_for(engine: Engine, count: int) -> None:
    """Until so many have succeeded."""
    until = time.monotonic() + PATIENCE
    while _succeeded(engine) < count:
        if time.monotonic() > until:
            raise programs.Failed("not all runs were woken")
        time.sleep(0.02)


def _check(engine: Engine, first: int, count: int) -> None:
    """Each of these has returned the number that was sent to it."""
    for number in range(first, first + count):
        if engine.get_output(f"number-{number}") != number:
            raise programs.Failed(f"run number-{number} has got another event")


def _new_runs(home: Path) -> float:
    """What the task of a woken run takes by itself, in a second."""
    with Engine(home, workers=2, output="inherit", event_log=False) as engine:
        engine.run(_waiting.got.bind(0))
        started = time.perf_counter()
        engine.run_many([_waiting.got.bind(number) for number in range(WOKEN)])
        return WOKEN / (time.perf_counter() - started)


def measure() -> list[Row]:
    return parked("fill")


def parked(fill: str) -> list[Row]:
    """What runs that were made by this verb of `_waiting` take, and how fast they are woken."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        home = folder / "home"
        if _start(folder, fill, home, PARKED).wait(PATIENCE):
            raise programs.Failed("the home was not filled")
        program, seconds, size = _drive(folder, home, PARKED)
        rows = [
            Row(f"{PARKED:,} parked, memory each", size, "bytes", f"≤ {MOST_BYTES:,.0f}", size <= MOST_BYTES),
            Row("picked up after a restart", seconds, "s", f"≤ {MOST_SECONDS:g}", seconds <= MOST_SECONDS),
        ]
        with Engine(home) as engine:
            senders = _send(folder, home, 1, WOKEN)
            started = time.perf_counter()
            _wait_for(engine, WOKEN)
            rate = WOKEN / (time.perf_counter() - started)
            _check(engine, 1, WOKEN)
            limit = f"≥ {LEAST_WOKEN:,}"
            rows.append(Row(f"{WOKEN:,} woken by events", rate, "runs/s", limit, rate >= LEAST_WOKEN))
            rows.append(Row("floor: as many new runs of that task", _new_runs(folder / "new"), "runs/s"))
            senders += _send(folder, home, WOKEN + 1, WOKEN)
            while _succeeded(engine) < WOKEN * 3 // 2:
                time.sleep(0.01)
            processes.kill({program.pid, *processes.descendants(program.pid)})
            program.wait()
            left = PARKED - _succeeded(engine)
            again = _start(
                folder, "drive", home, max(0, left - WOKEN), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            _wait_for(engine, 2 * WOKEN)
            _check(engine, WOKEN + 1, WOKEN)
            rows.append(Row(f"{WOKEN:,} more, killed in the middle", float(WOKEN), "runs", "each once"))
            again.communicate()
            for sender in senders:
                sender.communicate()
    return rows
