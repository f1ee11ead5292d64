"""`kill -9` of everything in the middle of a workflow of 100 steps, and the same program started again.

The engine's process, its fork server and its workers are killed at a random moment of a random step. Measured is the
time from just before the new process is started until the first step starts (which the step itself writes down), so the
start of Python and all imports count; a start of Python that does nothing stands beside it. The step that was running
when everything died has to run again; no other may.
"""

from __future__ import annotations

import collections
import contextlib
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import comparing, processes, programs
from bench.field import Contestant, Field
from bench.rows import Comparison, Row
from bench.workloads import _measuring, _steps

ROUNDS = 7
MOST_SECONDS = 0.4
MOST_AGAIN = 1
"""Steps that start twice."""
PATIENCE = 60.0
"""Seconds until a program that does not get on is given up."""
NOT_HERE = "the processes to kill are found in /proc, which is not here"

PROGRAMS = {
    "importable steps": ["-c", "from bench.workloads import _steps; _steps.main()"],
    "steps of a script": [_steps.__file__],
}


def _read(ledger: Path) -> list[tuple[int, float]]:
    """The steps that were started so far, and when."""
    if not ledger.exists():
        return []
    lines = ledger.read_text().splitlines()
    return [(int(step), float(started)) for step, started in (line.split() for line in lines)]


def _kill_in_the_middle(program: subprocess.Popen[str], ledger: Path, choose: random.Random) -> None:
    """Returns when the program and all that it had started are gone."""
    wanted = choose.randrange(_steps.STEPS // 4, _steps.STEPS * 3 // 4)
    until = time.monotonic() + PATIENCE
    while len(_read(ledger)) < wanted:
        if program.poll() is not None or time.monotonic() > until:
            raise programs.Failed(f"the program did not come to step {wanted}")
        time.sleep(0.001)
    time.sleep(choose.random() * _steps.SECONDS)
    processes.kill({program.pid, *processes.descendants(program.pid)})
    program.wait()


Start = Callable[[Path, Path], "subprocess.Popen[str]"]
"""Starts the program. It gets a place for what it keeps and the path of the ledger."""


def _recover(start: Start, folder: Path, choose: random.Random) -> tuple[float, int]:
    """(seconds until the first step starts again, steps that started twice)"""
    with tempfile.TemporaryDirectory(dir=folder) as place, contextlib.ExitStack() as started_programs:

        def new() -> subprocess.Popen[str]:
            program = start(Path(place) / "home", ledger)
            started_programs.callback(_end, program)
            return program

        ledger = Path(place) / "ledger"
        _kill_in_the_middle(new(), ledger, choose)
        done = len(_read(ledger))
        started = time.time()
        again = new()
        try:
            status = again.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise programs.Failed(f"the program did not end within {PATIENCE:g} s after it was killed") from None
        if status:
            raise programs.Failed(f"the program failed with status {status} after it was killed")
        steps = _read(ledger)
    counts = collections.Counter(step for step, _ in steps)
    if len(counts) != _steps.STEPS or done == _steps.STEPS:
        raise programs.Failed(f"of {_steps.STEPS} steps {len(counts)} ran, {done} before the kill")
    return steps[done][1] - started, sum(count - 1 for count in counts.values())


def _end(program: subprocess.Popen[str]) -> None:
    if program.poll() is None:
        processes.kill({program.pid, *processes.descendants(program.pid)})
        program.wait()


def _start_ours(command: list[str], folder: Path) -> Start:
    return lambda home, ledger: _measuring.start([*command, home, ledger], folder)


def _bare(folder: Path) -> float:
    started = time.perf_counter()
    _measuring.start(["-c", "pass"], folder).wait()
    return time.perf_counter() - started


def measure() -> list[Row]:
    if not processes.PROCESSES.is_dir():
        return [Row("recovery", None, "s", note=NOT_HERE)]
    choose = random.Random(3)
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    again: dict[str, list[int]] = {name: [] for name in PROGRAMS}
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for warm in range(ROUNDS + 1):
            for name, program in PROGRAMS.items():
                seconds, twice = _recover(_start_ours(program, Path(folder)), Path(folder), choose)
                if warm:
                    times[name].append(seconds)
                again[name].append(twice)
            if warm:
                bare.append(_bare(Path(folder)))
    rows: list[Row] = []
    for name in PROGRAMS:
        most = max(again[name])
        ratios = [seconds / start for seconds, start in zip(times[name], bare, strict=True)]
        rows += [
            _measuring.most(f"{name}: first step after the new process's start", times[name], "s", MOST_SECONDS),
            _measuring.most(f"{name}: the same against a bare start of Python", ratios, "×"),
            Row(f"{name}: steps that ran twice, at most", most, "steps", f"≤ {MOST_AGAIN}", most <= MOST_AGAIN),
        ]
    return [*rows, _measuring.most("for comparison: Python starts and ends", bare, "s")]


def compare(field: Field) -> list[Comparison]:
    ours, *peers = [_side(contestant, field) for contestant in field.everyone]
    bare = comparing.Side("a start of Python", "", lambda: _bare(field.folder))
    what = f"kill -9 amid {_steps.STEPS} steps: from the new process's start to the first step"
    return [comparing.compared(what, "s", [ours], peers, [bare], field.rounds, warm_up=1)]


def _side(contestant: Contestant, field: Field) -> comparing.Side:
    choose = random.Random(3)

    def start(home: Path, ledger: Path) -> subprocess.Popen[str]:
        command = contestant.command(contestant.recovering, home, ledger)
        return subprocess.Popen(command, cwd=field.folder, env=contestant.environment, text=True)

    missing = contestant.missing
    if not contestant.recovering:
        missing = "it keeps nothing that it could go on with"
    elif not processes.PROCESSES.is_dir():
        missing = NOT_HERE
    measured = None if missing else lambda: _recover(start, field.folder, choose)[0]
    return comparing.Side(contestant.name, contestant.kinds[""], measured, missing)
