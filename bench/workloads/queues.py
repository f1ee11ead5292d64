"""Who waits for whom: a run of one task beside a loop of 100,000 items, and what a place in a queue costs.

The one-task run is measured while nothing else goes on, then while the loop keeps all workers busy, in rounds, because
the speed of a shared machine changes from second to second. The ratio of the medians of a round is what counts: it may
not be more than ten.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench.rows import Row
from bench.workloads import _measuring
from onceflow import Engine, for_each, task
from onceflow.tasks import Task

ITEMS = 100_000
ROUNDS = 5
RUNS = 12
"""In a round, of each kind."""
WARM_UP = 50
BUSY = 100e-6
"""Seconds that an item computes."""

MOST_TIMES = 10.0


@task
def echo(value: int) -> int:
    return value


@task
def compute(value: int) -> int:
    until = time.perf_counter() + BUSY
    while time.perf_counter() < until:
        pass
    return value


@task(queue="queued")
def echo_in_queue(value: int) -> int:
    return value


def _latency(engine: Engine, number: int, what: Task[[int], int] = echo) -> float:
    started = time.perf_counter()
    engine.run(what.bind(number))
    return (time.perf_counter() - started) * 1e3


def measure() -> list[Row]:
    idle: list[float] = []
    queued: list[float] = []
    beside: list[float] = []
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home") as engine:
        engine.queue("queued", concurrency=2)
        for number in range(WARM_UP):
            _latency(engine, number)
        for _ in range(ROUNDS):
            alone = [_latency(engine, number) for number in range(RUNS)]
            queued += [_latency(engine, number, echo_in_queue) for number in range(RUNS)]
            loop = engine.run_async(for_each(compute, range(ITEMS)))
            engine.run(echo.bind(0))
            together = [_latency(engine, number) for number in range(RUNS)]
            assert not loop.done()
            loop.cancel()
            idle += alone
            beside += together
            times.append(statistics.median(together) / statistics.median(alone))
    return [
        _measuring.most("one task, idle", idle, "ms"),
        _measuring.most("one task in a queue, idle", queued, "ms"),
        _measuring.most(f"one task beside a loop of {ITEMS:,} items", beside, "ms"),
        _measuring.most("beside the loop against idle", times, "×", MOST_TIMES),
    ]
