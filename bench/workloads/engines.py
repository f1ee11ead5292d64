"""Two engines in two processes that share a home directory, both with more work than they can do: is it fair?

Each does one-task runs for a fixed time, beginning together. Neither may finish, or commit, more than twice as much as
the other. One engine alone stands beside them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from bench.rows import Row
from bench.workloads import _measuring

ROUNDS = 3
SECONDS = 4
MOST_UNFAIR = 2.0


def _compete(count: int, folder: Path) -> list[dict[str, int]]:
    """What each of so many engines has done."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        command = ["-c", "from bench.workloads import _saturating; _saturating.main()", home, str(SECONDS)]
        programs = [
            _measuring.start(command, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
        ]
        for program in programs:
            assert program.stdout
            if program.stdout.readline() != "ready\n":
                raise RuntimeError("an engine did not start")
        for program in programs:
            assert program.stdin
            program.stdin.write("\n")
            program.stdin.flush()
        outputs = [program.communicate()[0] for program in programs]
    if any(program.returncode for program in programs):
        raise RuntimeError("an engine failed")
    return [json.loads(output) for output in outputs]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        alone, together = [], []
        for _ in range(ROUNDS):
            alone += _compete(1, Path(folder))
            together.append(_compete(2, Path(folder)))
    rows: list[Row] = []
    for what in ("runs", "commits"):
        ratios = [max(a[what], b[what]) / max(1, min(a[what], b[what])) for a, b in together]
        rows.append(_measuring.most(f"two engines: {what} of the quicker against the slower", ratios, "×", MOST_UNFAIR))
    for what in ("runs", "commits"):
        both = [(a[what] + b[what]) / SECONDS for a, b in together]
        rows.append(_measuring.least(f"two engines together: {what}", both, f"{what}/s"))
        rows.append(_measuring.least(f"one engine alone: {what}", [a[what] / SECONDS for a in alone], f"{what}/s"))
    return rows
