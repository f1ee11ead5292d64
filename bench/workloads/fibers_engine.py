"""Fibers in a run: what an await costs, what a long life costs, and what those cost that only wait.

A no-op pure task is what an await can cost at the least: a worker carries it out itself, and saves where the fiber
stands now and then. A task that is saved costs a trip to the engine and back, and a commit. The engine's memory is
measured after a tenth of the awaits and after all of them. Parked fibers are measured as `waits` does it with other
runs.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from bench.rows import Row
from bench.workloads import waits
from onceflow import Engine, fiber, task

AWAITS = 10_000
LONG = 100_000
SAVED = 2_000

MOST_PURE = 0.3
"""Milliseconds for an awaited no-op pure task."""
MOST_GROWTH = 1.05
"""Of the engine's memory."""


@task.pure
def same(number: int) -> int:
    return number


@task(effect="none")
def kept(number: int) -> int:
    return number


@fiber
async def pure(count: int) -> int:
    total = 0
    for number in range(count):
        total += await same.call(number)
    return total


@fiber
async def saved(count: int) -> int:
    total = 0
    for number in range(count):
        total += await kept.call(number)
    return total


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as made, Engine(Path(made) / "home", workers=2) as engine:
        engine.run(pure.bind(100))
        each = _seconds(engine, pure, AWAITS) / AWAITS * 1e3
        rows = [Row(f"{AWAITS:,} awaited pure tasks, each", each, "ms", f"≤ {MOST_PURE}", each <= MOST_PURE)]
        each = _seconds(engine, saved, SAVED) / SAVED * 1e3
        rows.append(Row(f"{SAVED:,} awaited saved tasks, each", each, "ms"))
        before = _bytes()
        _seconds(engine, saved, SAVED)
        _seconds(engine, pure, LONG)
        growth = _bytes() / before
        limit = f"≤ {MOST_GROWTH}"
        rows.append(Row(f"engine memory after {LONG:,} awaits more", growth, "x", limit, growth <= MOST_GROWTH))
    return rows + waits.parked("fill_with_fibers")


def _seconds(engine: Engine, durable: object, count: int) -> float:
    started = time.perf_counter()
    result = engine.run(durable.bind(count))  # type: ignore[attr-defined]
    if result != sum(range(count)):
        raise AssertionError(f"{durable} gave {result}")
    return time.perf_counter() - started


def _bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
