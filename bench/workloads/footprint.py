"""What it costs to have onceflow: the time of `import onceflow`, and the memory of an engine that has nothing to do.

Import: starts of Python with and without it take turns; the difference of the medians counts. Modules are compiled.
Memory: the proportional set size (PSS) of the engine's process, its fork server and two workers that have both run
tasks. Pages that several processes share count in parts, so other Python programs on the machine make it a little less.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import threads
from bench.harness import Row
from bench.workloads import _idle, _measuring

STARTS = 25
MOST_MILLISECONDS = 100.0
ENGINES = 3
MOST_MEGABYTES = 60.0

BARE, IMPORT, ENGINE = "pass", "import onceflow", "from onceflow import Engine"


def _milliseconds(program: str, folder: Path) -> float:
    started = time.perf_counter()
    if _measuring.start(["-c", program], folder).wait():
        raise RuntimeError(f"{program!r} failed")
    return (time.perf_counter() - started) * 1e3


def _import_rows(folder: Path) -> list[Row]:
    programs = (BARE, IMPORT, ENGINE)
    times: dict[str, list[float]] = {program: [] for program in programs}
    for warm in range(STARTS + 1):
        for program in programs:
            taken = _milliseconds(program, folder)
            if warm:
                times[program].append(taken)
    rows = [_measuring.most("Python starts and ends", times[BARE], "ms")]
    bare = statistics.median(times[BARE])
    for program in (IMPORT, ENGINE):
        over = [taken - bare for taken in times[program]]
        limit = MOST_MILLISECONDS if program == IMPORT else None
        rows.append(_measuring.most(f"{program}, over bare Python", over, "ms", limit))
    return rows


def _megabytes(process: int) -> float:
    for line in (threads.PROCESSES / str(process) / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("smaps_rollup has no line Pss")


def _idle_engine(folder: Path) -> list[float]:
    """MB of the engine's process, its fork server and its workers."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        command = ["-c", "from bench.workloads import _idle; _idle.main()", home]
        program = _measuring.start(command, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdout
        if program.stdout.readline() != "ready\n":
            raise RuntimeError("the engine did not start")
        family = sorted(threads.descendants(program.pid).items(), key=lambda item: item[1] != program.pid)
        if len(family) != 1 + _idle.WORKERS:
            raise RuntimeError(f"the engine has {len(family)} processes, not a fork server and {_idle.WORKERS} workers")
        sizes = [_megabytes(process) for process in (program.pid, *(process for process, _ in family))]
        program.communicate("\n")
    return sizes


def _memory_rows(folder: Path) -> list[Row]:
    name = f"idle engine with {_idle.WORKERS} warm workers, PSS"
    if not (threads.PROCESSES / "self/smaps_rollup").exists():
        return [Row(name, None, "MB", note="there is no /proc/self/smaps_rollup here")]
    engines = [_idle_engine(folder) for _ in range(ENGINES)]
    parts: Sequence[tuple[str, slice]] = (
        ("the engine's process", slice(0, 1)),
        ("its fork server", slice(1, 2)),
        ("its workers together", slice(2, None)),
    )
    rows = [_measuring.most(name, [sum(sizes) for sizes in engines], "MB", MOST_MEGABYTES)]
    return rows + [
        _measuring.most(f"  {part}", [sum(sizes[which]) for sizes in engines], "MB") for part, which in parts
    ]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [*_import_rows(Path(folder)), *_memory_rows(Path(folder))]
