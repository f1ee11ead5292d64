"""The memory of an engine that has nothing to do.

It is the proportional set size (PSS) of its process, its fork server and two workers that have both run tasks. Pages
that several processes share count in parts, so other Python programs on the machine make it a little less.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import comparing, processes
from bench.field import Contestant, Field
from bench.rows import Comparison, Row
from bench.workloads import _idling, _measuring

ENGINES = 3
MOST_MEGABYTES = 60.0
NOT_HERE = "there is no /proc/self/smaps_rollup here"
WARM_UP = 3
"""Graphs of 100 tasks that each has run before it is idle."""


def _idle_engine(folder: Path) -> list[float]:
    """MB of the engine's process, its fork server and its workers."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        command = ["-c", "from bench.workloads import _idling; _idling.main()", home]
        program = _measuring.start(command, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout
        if program.stdout.readline() != "ready\n":
            raise RuntimeError("the engine did not start")
        family = sorted(processes.descendants(program.pid).items(), key=lambda item: item[1] != program.pid)
        if len(family) != 1 + _idling.WORKERS:
            expected = f"a fork server and {_idling.WORKERS} workers"
            raise RuntimeError(f"the engine has {len(family)} processes, not {expected}")
        sizes = [processes.megabytes(process) for process in (program.pid, *(process for process, _ in family))]
        program.communicate("\n")
    return sizes


def measure() -> list[Row]:
    name = f"idle engine with {_idling.WORKERS} warm workers, PSS"
    if not processes.tells_memory():
        return [Row(name, None, "MB", note=NOT_HERE)]
    with tempfile.TemporaryDirectory() as folder:
        engines = [_idle_engine(Path(folder)) for _ in range(ENGINES)]
    parts: Sequence[tuple[str, slice]] = (
        ("the engine's process", slice(0, 1)),
        ("its fork server", slice(1, 2)),
        ("its workers together", slice(2, None)),
    )
    rows = [_measuring.most(name, [sum(sizes) for sizes in engines], "MB", MOST_MEGABYTES)]
    return rows + [
        _measuring.most(f"  {part}", [sum(sizes[which]) for sizes in engines], "MB") for part, which in parts
    ]


def compare(field: Field) -> list[Comparison]:
    ours, *peers = [_side(contestant, field) for contestant in field.everyone]
    what = "memory of all its processes (PSS) when it is warm and has nothing to do"
    return [comparing.compared(what, "MB", [ours], peers, [], field.rounds)]


def _side(contestant: Contestant, field: Field) -> comparing.Side:
    def megabytes() -> float:
        with field.start(contestant) as program:
            program.ask("100x100", WARM_UP)
            total = 0.0
            for process in program.processes():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                    total += processes.megabytes(process)
            return total

    missing = contestant.missing or ("" if processes.tells_memory() else NOT_HERE)
    return comparing.Side(contestant.name, "", None if missing else megabytes, missing)
