"""The journal in PostgreSQL: how long a run of one task takes, and how many saved tasks finish in a second.

A server of our own on loopback, with its usual durability: every commit is synced. Beside it stands a plain commit of
one small row over a connection of its own. Rounds of runs and of commits alternate, because the speed of a disk and of
a shared machine changes from second to second; the ratio is what to look at, and p10 if the machine has other work.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from bench.rows import Row
from bench.workloads import _measuring, fan_out
from bench.workloads.trigger import echo
from onceflow import Engine
from onceflow.testing.servers.postgres import PostgresServer

ROUNDS = 50
RUNS = 10
"""In a round, with as many commits after them."""
WARM_UP = 100
REPEATS = 3
"""Of the 100 × 100 tasks."""

MOST_MILLISECONDS = 3.0
LEAST_SAVED = 4_000
"""Tasks a second."""


def measure() -> list[Row]:
    with (
        PostgresServer(durable=True) as server,
        tempfile.TemporaryDirectory() as folder,
        Engine(Path(folder) / "home", journal=server.create_database()) as engine,
    ):
        return _trigger(engine, server.url) + _fan_out(engine)


def _trigger(engine: Engine, url: str) -> list[Row]:
    runs: list[float] = []
    commits: list[float] = []
    with psycopg.connect(url, autocommit=True) as plain:
        plain.execute("CREATE TABLE plain (number bigint, body bytea)")
        for number in range(WARM_UP):
            engine.run(echo.bind(number))
            _commit(plain, number)
        before = engine._home.journal.statistics().commits
        for _ in range(ROUNDS):
            runs += [_run(engine, number) for number in range(RUNS)]
            commits += [_commit(plain, number) for number in range(RUNS)]
        committed = engine._home.journal.statistics().commits - before
    p50, plain_p50 = statistics.median(runs), statistics.median(commits)
    return [
        Row("run of one task: p10", _measuring.percentile(runs, 10), "ms"),
        Row("run of one task: p50", p50, "ms", f"≤ {MOST_MILLISECONDS:g}", p50 <= MOST_MILLISECONDS),
        Row("run of one task: p90", _measuring.percentile(runs, 90), "ms"),
        Row("plain commit: p10", _measuring.percentile(commits, 10), "ms"),
        Row("plain commit: p50", plain_p50, "ms"),
        Row("p50 against a plain commit", p50 / plain_p50, "×"),
        Row("commits of the journal", committed / len(runs), "a run"),
    ]


def _run(engine: Engine, number: int) -> float:
    started = time.perf_counter()
    assert engine.run(echo.bind(number)) == number
    return (time.perf_counter() - started) * 1e3


def _commit(connection: psycopg.Connection[tuple[object, ...]], number: int) -> float:
    started = time.perf_counter()
    connection.execute("INSERT INTO plain VALUES (%b, %b)", (number, bytes(300)), prepare=True)
    return (time.perf_counter() - started) * 1e3


def _fan_out(engine: Engine) -> list[Row]:
    work = fan_out.all_together(fan_out.saved, fan_out.saved_count)
    rates: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work(engine)
        rates.append(fan_out.TASKS / (time.perf_counter() - started))
    rate = statistics.median(rates)
    name = "100 × 100 saved tasks, run_many"
    return [Row(name, rate, "tasks/s", f"≥ {LEAST_SAVED:,}", rate >= LEAST_SAVED, min(rates), max(rates))]
