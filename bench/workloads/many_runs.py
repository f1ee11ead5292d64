"""How many runs of one default task finish in a second.

10,000 of them, through `run_many` and through 32 threads that call `run`. Graphs are built inside the timed region.
"""

from __future__ import annotations

import itertools
import threading

from bench import comparing, limits
from bench.field import Field
from bench.rows import Comparison, Row
from bench.workloads import _rates
from onceflow import Engine, task

RUNS = 10_000
CALLERS = 32
"""Threads."""
LEAST_RUNS = 2_500
"""A second."""


@task
def echo(value: int) -> int:
    return value


def together(engine: Engine) -> None:
    assert engine.run_many(echo.bind(number) for number in range(RUNS)) == list(range(RUNS))


def from_threads(engine: Engine) -> None:
    numbers = itertools.count()
    results: list[int] = []

    def call() -> None:
        while (number := next(numbers)) < RUNS:
            results.append(engine.run(echo.bind(number)))

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(results) == list(range(RUNS))


def warm_up(engine: Engine) -> None:
    engine.run_many(echo.bind(number) for number in range(300))


def measure() -> list[Row]:
    ways = {"one-task runs, run_many": together, f"one-task runs, {CALLERS} threads": from_threads}
    return _rates.measured([_rates.Limited(ways, RUNS, "run", LEAST_RUNS)], warm_up)


def compare(field: Field) -> list[Comparison]:
    what = f"{RUNS:,} workflows of one task, all together"
    return [comparing.rates(field, "10000x1", what, RUNS, 1, "runs", (limits.COMMIT, limits.SOCKET))]
