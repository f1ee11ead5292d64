"""Actors: what a call takes, there and back, from the task's side; what large arguments and snapshots take.

A call is a method that adds a number. Large arguments are echoed: they go there and back. A snapshot is taken when a
task returns that has taken the actor, so it is measured as the difference that saving makes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.rows import Row
from bench.workloads._measuring import most, percentile
from onceflow import Engine, actor, task
from onceflow.actors import Exclusive, const, create, later

MOST_CALL = 0.15
"""ms for a call, median. (Ray needs 1.0 to 1.8 here.)"""
CALLS = 3_000
MEGABYTES = 100
ROUNDS = 5


@actor
class Echo:
    def __init__(self, bytes: int = 0) -> None:
        self.count = 0
        self.state = np.zeros(bytes, np.uint8)

    def add(self, more: int) -> int:
        self.count += more
        return self.count

    @const
    def echo(self, value: Any) -> Any:
        return value


@task.pure
def begin(bytes: int = 0) -> Echo:
    return create(Echo, bytes)


@task(effect="none", checkpoint=False)
def call(echo: Exclusive[Echo], count: int) -> tuple[list[float], Echo]:
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        echo.add(1)
        seconds.append(time.perf_counter() - started)
    return seconds, echo


@task(effect="none", checkpoint=False)
def call_later(echo: Exclusive[Echo], count: int) -> tuple[float, Echo]:
    started = time.perf_counter()
    for answer in [later(echo.add, 1) for _ in range(count)]:
        answer.result()
    return (time.perf_counter() - started) / count, echo


@task(effect="none", checkpoint=False)
def send(echo: Echo, bytes: int, rounds: int) -> list[float]:
    value = np.ones(bytes, np.uint8)
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        echo.echo(value)
        seconds.append(time.perf_counter() - started)
    return seconds


@task(effect="none")
def made() -> float:
    started = time.perf_counter()
    create(Echo).add(1)
    return time.perf_counter() - started


@task.pure
def first(pair: tuple[Any, Echo]) -> Any:
    return pair[0]


@task(effect="none")
def touch(echo: Exclusive[Echo]) -> Echo:
    echo.add(1)
    return echo


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home", workers=2) as engine:
        calls = [second * 1e3 for second in engine.run(first.bind(call.bind(begin.bind(), CALLS)))]
        piped = engine.run(first.bind(call_later.bind(begin.bind(), CALLS)))
        large = engine.run(send.bind(begin.bind(), MEGABYTES * 2**20, ROUNDS))
        created = [engine.run(made.bind()) for _ in range(ROUNDS)]
        unsaved = [_steps(engine, saved=False) for _ in range(ROUNDS)]
        saved = [_steps(engine, saved=True) for _ in range(ROUNDS)]
    pause = statistics.median(saved) - statistics.median(unsaved)
    return [
        most("a call, median", [percentile(calls, 50)], "ms", MOST_CALL, f"of {CALLS:,} calls"),
        most("a call, 99 %", [percentile(calls, 99)], "ms"),
        most("a call that is not waited for", [piped * 1e3], "ms"),
        most(f"{MEGABYTES} MB there and back", [second * 1e3 for second in large], "ms"),
        most("creating one, until its first answer", [second * 1e3 for second in created], "ms"),
        Row(f"what a snapshot of {MEGABYTES} MB delays the next task", pause * 1e3, "ms", note="beside one not saved"),
    ]


def _steps(engine: Engine, *, saved: bool) -> float:
    """Seconds from one task that has taken an actor with a large state to the next."""
    echo = begin.bind(MEGABYTES * 2**20)
    started = time.perf_counter()
    node = touch.options(checkpoint=False).bind(touch.options(checkpoint=saved).bind(echo))
    engine.run(look.bind(node))
    return time.perf_counter() - started


@task.pure
def look(echo: Echo) -> int:
    return len(echo.echo(b""))
