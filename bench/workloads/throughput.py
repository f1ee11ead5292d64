"""How many no-op tasks, and how many runs, finish in a second. Graphs are built inside the timed region.

100 graphs of 100 parallel tasks and one task that takes all their outputs, as runs one after the other and all together
(`run_many`), with default tasks (each is saved) and with `@task.pure` (nothing is saved but the run and its result).
Beside them stands `concurrent.futures.ProcessPoolExecutor`, which saves nothing, with the same tasks and as many
processes. Then 10,000 runs of one default task, through `run_many` and through 32 threads that call `run`.

All kinds take turns in each round. Where a limit may be met in one of two ways, both rows carry it, and their notes say
which of them meets it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench import threads
from bench.harness import Row
from bench.workloads import _measuring
from onceflow import Engine, task

ROUNDS = 3
GRAPHS = 100
WIDTH = 100
TASKS = GRAPHS * (WIDTH + 1)
RUNS = 10_000
CALLERS = 32
"""Threads."""

LEAST_SAVED = 6_000
LEAST_PURE = 12_000
"""Tasks a second."""
LEAST_RUNS = 2_500
"""Runs a second."""


def echo(value: int) -> int:
    return value


def count(values: list[int]) -> int:
    return len(values)


@task
def saved(value: int) -> int:
    return value


@task
def saved_count(values: list[int]) -> int:
    return len(values)


@task.pure
def pure(value: int) -> int:
    return value


@task.pure
def pure_count(values: list[int]) -> int:
    return len(values)


Work = Callable[[Engine], None]


def graph(each: Any, sink: Any) -> Any:
    return sink.bind([each.bind(number) for number in range(WIDTH)])


def one_after_the_other(each: Any, sink: Any) -> Work:
    def work(engine: Engine) -> None:
        for _ in range(GRAPHS):
            assert engine.run(graph(each, sink)) == WIDTH

    return work


def all_together(each: Any, sink: Any) -> Work:
    def work(engine: Engine) -> None:
        assert engine.run_many(graph(each, sink) for _ in range(GRAPHS)) == [WIDTH] * GRAPHS

    return work


def runs_together(engine: Engine) -> None:
    assert engine.run_many(saved.bind(number) for number in range(RUNS)) == list(range(RUNS))


def runs_of_threads(engine: Engine) -> None:
    numbers = itertools.count()
    results: list[int] = []

    def call() -> None:
        while (number := next(numbers)) < RUNS:
            results.append(engine.run(saved.bind(number)))

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(results) == list(range(RUNS))


@dataclasses.dataclass(frozen=True)
class Kind:
    work: Work
    count: int
    unit: str


KINDS = {
    "saved, run": Kind(one_after_the_other(saved, saved_count), TASKS, "task"),
    "saved, run_many": Kind(all_together(saved, saved_count), TASKS, "task"),
    "pure, run": Kind(one_after_the_other(pure, pure_count), TASKS, "task"),
    "pure, run_many": Kind(all_together(pure, pure_count), TASKS, "task"),
    "one-task runs, run_many": Kind(runs_together, RUNS, "run"),
    f"one-task runs, {CALLERS} threads": Kind(runs_of_threads, RUNS, "run"),
}
LIMITS = {"saved": LEAST_SAVED, "pure": LEAST_PURE, "one-task runs": LEAST_RUNS}
POOL = "ProcessPoolExecutor"


def _rate(name: str, kind: Kind, engine: Engine) -> float:
    with threads.watched(name, kind.unit, kind.count):
        started = time.perf_counter()
        kind.work(engine)
        seconds = time.perf_counter() - started
    return kind.count / seconds


def _pool_rate(pool: ProcessPoolExecutor) -> float:
    started = time.perf_counter()
    for _ in range(GRAPHS):
        futures = [pool.submit(echo, number) for number in range(WIDTH)]
        assert pool.submit(count, [future.result() for future in futures]).result() == WIDTH
    return TASKS / (time.perf_counter() - started)


def rows_of(what: str, rates: dict[str, list[float]], pool: Sequence[float]) -> list[Row]:
    """For all ways to do the same."""
    limit = LIMITS[what]
    ways = {name: values for name, values in rates.items() if name.startswith(what)}
    is_held = any(statistics.median(values) >= limit for values in ways.values())
    rows: list[Row] = []
    for name, values in ways.items():
        note = "meets the limit" if statistics.median(values) >= limit else "does not meet the limit"
        row = _measuring.least(name, values, f"{KINDS[name].unit}s/s", limit, note)
        rows.append(dataclasses.replace(row, ok=is_held))
        if KINDS[name].unit == "task":
            ratios = [ours / theirs for ours, theirs in zip(values, pool, strict=True)]
            rows.append(_measuring.least(f"{name}, against {POOL}", ratios, "×"))
    return rows


def measure() -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for name in KINDS}
    pool_rates: list[float] = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ProcessPoolExecutor(cores) as pool, tempfile.TemporaryDirectory() as folder:
        _pool_rate(pool)  # forks its processes before the engine has threads
        with Engine(Path(folder) / "home", workers=cores) as engine:
            for step, sink in ((saved, saved_count), (pure, pure_count)):
                engine.run_many(graph(step, sink) for _ in range(3))
            for _ in range(ROUNDS):
                pool_rates.append(_pool_rate(pool))
                for name, kind in KINDS.items():
                    rates[name].append(_rate(name, kind, engine))
    rows = [row for what in LIMITS for row in rows_of(what, rates, pool_rates)]
    return [*rows, _measuring.least(f"{POOL}, {cores} processes, nothing saved", pool_rates, "tasks/s")]
