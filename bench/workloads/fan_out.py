"""How many no-op tasks finish in a second, in 100 graphs of 100 parallel tasks and one that takes all their outputs.

The graphs are runs one after the other and all together (`run_many`), with default tasks (each is saved) and with
`@task.pure` (nothing is saved but the run and its result). They are built inside the timed region.
"""

from __future__ import annotations

from typing import Any

from bench import comparing, limits
from bench.field import Field
from bench.rows import Comparison, Row
from bench.workloads import _rates
from onceflow import Engine, task

GRAPHS = 100
WIDTH = 100
TASKS = GRAPHS * (WIDTH + 1)

LEAST_SAVED = 6_000
LEAST_PURE = 12_000
"""Tasks a second."""


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


def graph(each: Any, sink: Any) -> Any:
    return sink.bind([each.bind(number) for number in range(WIDTH)])


def one_after_the_other(each: Any, sink: Any) -> _rates.Work:
    def work(engine: Engine) -> None:
        for _ in range(GRAPHS):
            assert engine.run(graph(each, sink)) == WIDTH

    return work


def all_together(each: Any, sink: Any) -> _rates.Work:
    def work(engine: Engine) -> None:
        assert engine.run_many(graph(each, sink) for _ in range(GRAPHS)) == [WIDTH] * GRAPHS

    return work


def both_ways(kind: str, each: Any, sink: Any, least: float) -> _rates.Limited:
    ways = {f"{kind}, run": one_after_the_other(each, sink), f"{kind}, run_many": all_together(each, sink)}
    return _rates.Limited(ways, TASKS, "task", least)


def warm_up(engine: Engine) -> None:
    for each, sink in ((saved, saved_count), (pure, pure_count)):
        engine.run_many(graph(each, sink) for _ in range(3))


def measure() -> list[Row]:
    groups = [both_ways("saved", saved, saved_count, LEAST_SAVED), both_ways("pure", pure, pure_count, LEAST_PURE)]
    return _rates.measured(groups, warm_up)


def compare(field: Field) -> list[Comparison]:
    what = f"{GRAPHS} workflows of {WIDTH} parallel tasks and one that collects them, all together"
    return [comparing.rates(field, "100x100", what, GRAPHS, WIDTH + 1, "tasks", (limits.COMMIT, limits.SOCKET))]
