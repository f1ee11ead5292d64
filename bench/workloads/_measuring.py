"""What several workloads need: medians with their spread as rows, a plain SQLite commit to compare with, and programs
of their own."""

from __future__ import annotations

import compileall
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onceflow
from bench.rows import Row

RECORD = os.urandom(300)


def most(name: str, values: Sequence[float], unit: str, limit: float | None = None, note: str = "") -> Row:
    """The median of repeats, which may not be more than the limit."""
    median = statistics.median(values)
    text = "" if limit is None else f"≤ {limit:g}"
    return Row(name, median, unit, text, limit is None or median <= limit, min(values), max(values), note)


def least(name: str, values: Sequence[float], unit: str, limit: float | None = None, note: str = "") -> Row:
    """The median of repeats, which may not be less than the limit."""
    median = statistics.median(values)
    text = "" if limit is None else f"≥ {limit:,g}"
    return Row(name, median, unit, text, limit is None or median >= limit, min(values), max(values), note)


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


class PlainCommits:
    """One row of a few hundred bytes and a sync, by somebody who needs nothing else: `sqlite3` and no thread."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, value)")

    def seconds(self) -> float:
        """What a commit takes now."""
        started = time.perf_counter()
        self._connection.execute("INSERT INTO record (value) VALUES (?)", (RECORD,))
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()


def environment(folder: Path, package: Path = Path(onceflow.__file__).parent) -> dict[str, str]:
    """For a program as its user would start it: nothing in it but what was installed, and that compiled, as pip leaves
    it. A checkout is often not (fork servers never write compiled modules, and `PYTHONDONTWRITEBYTECODE` may be set),
    so the program gets a compiled copy of the package, made in this folder when it is first asked for."""
    packages = folder / "packages"
    if not packages.exists():
        for source in (package, Path(__file__).parents[1]):
            shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__", ".venvs"))
        compileall.compile_dir(packages, quiet=1)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONCEFLOW_")}
    variables["PYTHONPATH"] = os.pathsep.join([str(packages), *filter(None, sys.path)])
    return variables


def start(program: Sequence[str | Path], folder: Path, **options: Any) -> subprocess.Popen[str]:
    """A Python program, in a folder of its own."""
    command = [sys.executable, *map(str, program)]
    return subprocess.Popen(command, cwd=folder, env=environment(folder), text=True, **options)
