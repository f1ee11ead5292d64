"""What a task costs in a chain of 10 no-op tasks: all of the time is overhead.

The time of a whole run, from the building of its graph until its result is back, divided by 10. "Each further task" is
what a chain of 10 takes more than a chain of 1, divided by 9: the part that grows. Chains of default tasks, of
`@task.pure` and of one task take turns; plain SQLite commits and round trips to another process in between show how
fast the machine was meanwhile. A default task has an effect that cannot be taken back: the output before it is durable
before it starts, so no engine that keeps this promise can be faster than one commit and one round trip a task.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import comparing, limits, threads
from bench.field import Field
from bench.rows import Comparison, Row
from bench.workloads import _measuring
from onceflow import Engine, task

ROUNDS = 25
RUNS = 8
"""Of each kind in a round."""
LENGTH = 10
WARM_UP = 20
COMPARED = 10
"""Runs in a round of a comparison."""

MOST_SAVED = 0.5
MOST_PURE = 0.2
"""Milliseconds a task."""


@task
def saved(value: int) -> int:
    return value


@task.pure
def pure(value: int) -> int:
    return value


KINDS = {"default tasks": (saved, MOST_SAVED), "@task.pure": (pure, MOST_PURE)}


def _run(engine: Engine, step: Any, length: int, number: int) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    node = step.bind(number)
    for _ in range(length - 1):
        node = step.bind(node)
    result = engine.run(node)
    milliseconds = (time.perf_counter() - started) * 1e3
    assert result == number
    return milliseconds


def measure() -> list[Row]:
    times: dict[tuple[str, int], list[float]] = {(kind, length): [] for kind in KINDS for length in (1, LENGTH)}
    rounds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    commits: list[float] = []
    trips: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        limits.SOCKET.opened(Path(folder)) as trip,
        Engine(Path(folder) / "home") as engine,
    ):
        plain = _measuring.PlainCommits(Path(folder))
        for number in range(WARM_UP):
            for step, _ in KINDS.values():
                _run(engine, step, LENGTH, number)
        for _ in range(ROUNDS):
            for kind, (step, _) in KINDS.items():
                times[kind, 1] += [_run(engine, step, 1, number) for number in range(RUNS)]
                with threads.watched(f"chain of {LENGTH}, {kind}", "task", LENGTH * RUNS):
                    measured = [_run(engine, step, LENGTH, number) for number in range(RUNS)]
                times[kind, LENGTH] += measured
                rounds[kind].append(statistics.median(measured) / LENGTH)
            commits += [plain.seconds() * 1e3 for _ in range(RUNS)]
            trips.append(trip() * 1e3)
        plain.close()
    rows: list[Row] = []
    commit, trips_p50 = statistics.median(commits), statistics.median(trips)
    for kind, (_, limit) in KINDS.items():
        chain, single = statistics.median(times[kind, LENGTH]), statistics.median(times[kind, 1])
        each = chain / LENGTH
        rows += [
            Row(f"{kind}: a task", each, "ms", f"≤ {limit}", each <= limit, min(rounds[kind]), max(rounds[kind])),
            Row(f"{kind}: each further task", (chain - single) / (LENGTH - 1), "ms"),
            Row(f"{kind}: a task against a plain commit", each / commit, "×"),
            Row(f"{kind}: the whole run, p50", chain, "ms"),
            Row(f"{kind}: the whole run, p90", _measuring.percentile(times[kind, LENGTH], 90), "ms"),
        ]
    return [
        *rows,
        Row("plain commit, p50", commit, "ms"),
        Row("floor of a default task: a plain commit, a round trip to another process", commit + trips_p50, "ms"),
    ]


def compare(field: Field) -> list[Comparison]:
    what = f"a chain of {LENGTH} tasks, from its submission to its result"
    return [comparing.latencies(field, "chain", what, COMPARED, (limits.COMMIT, limits.SOCKET))]
