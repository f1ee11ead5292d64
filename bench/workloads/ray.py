"""On a Ray cluster, beside plain Ray in the same run: no-ops in 100 graphs of 100, and 100 MB from task to task.

Plain Ray saves nothing; ours are saved, in a file and in PostgreSQL. Both are measured on one cluster on this machine,
on the loopback address, one after the other, in several rounds: the machine's speed changes from minute to minute.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.rows import Row
from bench.workloads import fan_out
from onceflow import Engine, task
from onceflow.testing.servers.postgres import PostgresServer

ROUNDS = 3
GRAPHS = 100
PASSES = 8
"""Times that 100 MB are passed on in a round."""
MEGABYTES = 100
STORE = 600 * 2**20

LEAST = 1.0
"""Tasks a second, against plain Ray's."""
MOST = 1.2
"""Times as long as plain Ray takes for 100 MB."""


@task.pure
def produce(number: int) -> Any:
    import numpy

    return numpy.full(MEGABYTES * 10**6 // 8, number, dtype=numpy.int64)


@task.pure
def consume(array: Any) -> int:
    return int(array[0] + array[-1])


def measure() -> list[Row]:
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it takes an address that others reach for its own
    from onceflow.backends.ray import cluster

    cluster.connect("ray", os.cpu_count(), STORE)
    import ray

    try:
        with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
            return _measure(ray, Path(folder), server.create_database())
    finally:
        ray.shutdown()


def _measure(ray: Any, folder: Path, database: str) -> list[Row]:
    plain: list[float] = []
    ours: dict[str, list[float]] = {"SQLite": [], "PostgreSQL": []}
    passed: list[float] = []
    passed_plain: list[float] = []
    for number in range(ROUNDS):
        rate, seconds = _plain(ray)
        plain.append(rate)
        passed_plain.append(seconds)
        for journal, rates in ours.items():
            url = database if journal == "PostgreSQL" else None
            with Engine(folder / f"{journal}-{number}", backend="ray", journal=url) as engine:
                fan_out.warm_up(engine)
                rates.append(
                    _rate(lambda engine=engine: fan_out.all_together(fan_out.saved, fan_out.saved_count)(engine))
                )
                if url is None:
                    engine.run(consume.bind(produce.bind(0)))
                    passed.append(_median(lambda engine=engine: engine.run(consume.bind(produce.bind(1)))))
    found = [Row("plain Ray, nothing saved", statistics.median(plain), "tasks/s", "", True, min(plain), max(plain))]
    for journal, rates in ours.items():
        ratio = statistics.median([mine / other for mine, other in zip(rates, plain, strict=True)])
        found.append(Row(f"saved in {journal}", statistics.median(rates), "tasks/s", "", True, min(rates), max(rates)))
        found.append(Row(f"saved in {journal}, against plain Ray", ratio, "×", f"≥ {LEAST:g}", ratio >= LEAST))
    ratio = statistics.median([mine / other for mine, other in zip(passed, passed_plain, strict=True)])
    return [
        *found,
        Row(f"{MEGABYTES} MB on plain Ray", statistics.median(passed_plain) * 1e3, "ms"),
        Row(f"{MEGABYTES} MB from task to task", statistics.median(passed) * 1e3, "ms"),
        Row(f"{MEGABYTES} MB, against plain Ray", ratio, "×", f"≤ {MOST:g}", ratio <= MOST),
    ]


def _plain(ray: Any) -> tuple[float, float]:
    """Tasks a second, and seconds for passing on 100 MB."""
    echo, make, use = ray.remote(_echo), ray.remote(produce.function), ray.remote(consume.function)
    count = ray.remote(_count)

    def graphs() -> None:
        sinks = [count.remote(*[echo.remote(number) for number in range(fan_out.WIDTH)]) for _ in range(GRAPHS)]
        assert ray.get(sinks) == [fan_out.WIDTH] * GRAPHS

    ray.get([echo.remote(number) for number in range(200)])
    rate = _rate(graphs)
    ray.get(use.remote(make.remote(0)))
    return rate, _median(lambda: ray.get(use.remote(make.remote(1))))


def _rate(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return fan_out.TASKS / (time.perf_counter() - started)


def _median(work: Callable[[], object]) -> float:
    """Seconds."""
    taken: list[float] = []
    for _ in range(PASSES):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _echo(number: int) -> int:
    return number


def _count(*numbers: int) -> int:
    return len(numbers)
