"""Binding: how many nodes a second a program can make, and whether the cost of one grows with their number.

Rates are measured as a program meets them, with Python's garbage collector on. The collector walks all live objects
now and then, so *any* object costs more among many: growth is therefore shown twice, with the collector (no limit; a
plain class with slots grows more) and without it (what bind itself does, which must stay flat).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from bench.rows import Row
from onceflow import task
from onceflow.authoring.graph_builder import build_graph

SIZES = (1_000, 10_000, 100_000)
FEWEST = 80_000
"""Binds a second for small arguments."""
GROWTH = 1.5
"""How much dearer a bind may be among the most nodes than among the fewest, the garbage collector aside."""
ROUNDS = 5


@task
def step(value: Any, text: str = "", *, flag: bool = False) -> Any:
    return value


def positions(count: int) -> list[Any]:
    return [step.bind(number, "text") for number in range(count)]


def keywords(count: int) -> list[Any]:
    return [step.bind(number, text="text", flag=True) for number in range(count)]


def lists(count: int) -> list[Any]:
    return [step.bind([number, 2, 3]) for number in range(count)]


def chain(count: int) -> list[Any]:
    nodes = [step.bind(0)]
    for _ in range(count - 1):
        nodes.append(step.bind(nodes[-1]))
    return nodes


def lists_of_nodes(count: int) -> list[Any]:
    source = step.bind(0)
    return [step.bind([source, number]) for number in range(count)]


SHAPES: dict[str, Callable[[int], list[Any]]] = {
    "int and text": positions,
    "keywords": keywords,
    "list of ints": lists,
    "chained nodes": chain,
    "list with a node": lists_of_nodes,
}


class Plain:
    """What a node is compared with: an object with as many slots that does nothing."""

    __slots__ = ("a", "b", "c", "d", "e", "f", "g", "h")

    def __init__(self, value: object) -> None:
        self.a = self.b = self.c = self.d = self.e = self.f = self.g = self.h = value


def plain(count: int) -> list[Any]:
    return [Plain((number, "text")) for number in range(count)]


def seconds(make: Callable[[], object], times: int = 1, *, collector: bool = True) -> float:
    """Processor time of one call, the best of some rounds: what the code costs, not what else the machine does."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        if not collector:
            gc.disable()
        try:
            start = time.process_time()
            for _ in range(times):
                made = make()
            best = min(best, time.process_time() - start)
        finally:
            gc.enable()
        del made
    return best / times


def cost(shape: Callable[[int], list[Any]], size: int, *, collector: bool = True) -> float:
    """Seconds for one bind among so many. Every round binds as often as for the largest size, so that a short round
    does not look better only because it was lucky more easily."""
    return seconds(lambda: shape(size), SIZES[-1] // size, collector=collector) / size


def measure() -> list[Row]:
    rows = []
    span = f"cost per bind from {SIZES[0]:,} to {SIZES[-1]:,} nodes"
    for name, shape in SHAPES.items():
        costs = [cost(shape, size) for size in SIZES]
        for size, each in zip(SIZES, costs, strict=True):
            rows.append(Row(f"{name}, {size:,} nodes", 1 / each, "binds/s", f"≥ {FEWEST:,}", ok=1 / each >= FEWEST))
        rows.append(Row(f"{name}, {span}, with the collector", costs[-1] / costs[0], "×"))
        growth = cost(shape, SIZES[-1], collector=False) / cost(shape, SIZES[0], collector=False)
        rows.append(Row(f"{name}, {span}, without the collector", growth, "×", f"≤ {GROWTH}", ok=growth <= GROWTH))
    growth = cost(plain, SIZES[-1]) / cost(plain, SIZES[0])
    rows.append(Row(f"for comparison: plain objects, {span}, with the collector", growth, "×"))
    for size in SIZES:
        sink = chain(size)[-1]
        rate = size / seconds(lambda sink=sink: build_graph(sink))  # type: ignore[misc]
        rows.append(Row(f"chain of {size:,} built into a graph", rate, "nodes/s"))
    return rows
