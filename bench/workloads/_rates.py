"""What `fan_out` and `many_runs` share: several ways to do the same amount of work, in turns.

The limit on their rates must be met by at least one of the ways. The rows of all of them carry it, and their notes say
which of them meets it.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import threads
from bench.rows import Row
from bench.workloads import _measuring
from onceflow import Engine

ROUNDS = 3

Work = Callable[[Engine], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """Ways of which one must reach so many units a second."""

    ways: dict[str, Work]
    count: int
    """Units in the work."""
    unit: str
    least: float


def measured(groups: list[Limited], warm_up: Work) -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for group in groups for name in group.ways}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home", workers=cores) as engine:
        warm_up(engine)
        for _ in range(ROUNDS):
            for group in groups:
                for name, work in group.ways.items():
                    rates[name].append(_rate(name, work, group, engine))
    return [row for group in groups for row in _rows(group, rates)]


def _rate(name: str, work: Work, group: Limited, engine: Engine) -> float:
    with threads.watched(name, group.unit, group.count):
        started = time.perf_counter()
        work(engine)
        seconds = time.perf_counter() - started
    return group.count / seconds


def _rows(group: Limited, rates: dict[str, list[float]]) -> list[Row]:
    medians = {name: statistics.median(rates[name]) for name in group.ways}
    is_held = max(medians.values()) >= group.least
    rows: list[Row] = []
    for name, median in medians.items():
        note = "meets the limit" if median >= group.least else "does not meet the limit"
        row = _measuring.least(name, rates[name], f"{group.unit}s/s", group.least, note)
        rows.append(dataclasses.replace(row, ok=is_held))
    return rows
