"""How fast the law decides: events and edges a second through `core.Run`, and how that grows with the graph.

Each run is played to its end by the shortest possible driver: every `Start` is answered by `Finished`, every `Save`
by `Saved`. Processor time of one thread, garbage collector on, `validate` off. "Events + edges" counts the events
that were handled and the edges of the graph, over the whole life of a run including the building of its rows. "Cost
of an event" is what `begin` and `handle` take per event.
"""

from __future__ import annotations

import contextlib
import gc
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench import comparing, programs
from bench.field import Contestant, Field
from bench.peers import _serving
from bench.rows import Comparison, Row
from onceflow.core.model import commands, events
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node
from onceflow.core.run import Run

SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 5
LEAST_NODES = 3_000
"""A round plays small graphs several times, so that every round is long enough to be measured."""

LEAST_RATE = 100_000
MOST_GROWTH = 1.5
COMPARED = 10_000
"""Nodes of a graph in a comparison."""

PURE = Options(checkpoint=False, deterministic=True, effect="none")
KEPT = Options(effect="none")
UNDOABLE = Options(effect="undoable")
DEFAULT = Options()
LOOSE = Options(checkpoint=False, effect="none")
MIXED = (PURE, PURE, KEPT, UNDOABLE, DEFAULT, DEFAULT)

Build = Callable[[int, random.Random], Graph]


def _node(index: int, parents: Sequence[int], options: Options) -> Node:
    return Node(id=f"n{index}", task="n", options=options, edges=tuple((parent, 1) for parent in parents))


def chain(size: int, choose: random.Random) -> Graph:
    return Graph([_node(i, [i - 1] if i else [], choose.choice(MIXED)) for i in range(size)])


def fan(size: int, choose: random.Random) -> Graph:
    middle = [_node(i, [0], choose.choice(MIXED)) for i in range(1, size - 1)]
    return Graph([_node(0, [], DEFAULT), *middle, _node(size - 1, range(1, size - 1), DEFAULT)])


def layered(size: int, choose: random.Random, options: Sequence[Options] = MIXED, last: Options = DEFAULT) -> Graph:
    width, reads = 10, 3
    nodes: list[Node] = []
    unread = set(range(size - 1))
    for i in range(size - 1):
        above = range((i // width - 1) * width, i // width * width)
        parents = sorted({choose.choice(above) for _ in range(reads)}) if i >= width else []
        unread -= set(parents)
        nodes.append(_node(i, parents, choose.choice(options)))
    return Graph([*nodes, _node(size - 1, sorted(unread), last)])


def irrevocable(size: int, choose: random.Random) -> Graph:
    return layered(size, choose, [DEFAULT])


def settling_together(size: int, choose: random.Random) -> Graph:
    """Unsaved nondeterministic tasks everywhere: nothing is settled before the very end, and then everything is."""
    return layered(size, choose, [PURE, KEPT, KEPT, LOOSE], last=KEPT)


SHAPES: dict[str, Build] = {
    "chain": chain,
    "fan-out and fan-in": fan,
    "layered random": layered,
    "layered, all irrevocable": irrevocable,
    "layered, settling together": settling_together,
}


class Played(NamedTuple):
    events: int
    building: float
    """Seconds to make the rows."""
    handling: float
    """Seconds in `begin` and `handle`, and in the driver around them."""


def play(graph: Graph) -> Played:
    started = time.process_time()
    run = Run(graph)
    built = time.process_time()
    handled = 0
    pending = deque(run.begin())
    while pending:
        match pending.popleft():
            case commands.Start(node, attempt):
                pending.extend(run.handle(events.Finished(node, attempt)))
            case commands.Save(node, part, attempt):
                pending.extend(run.handle(events.Saved(node, part, attempt)))
            case _:
                continue
        handled += 1
    assert run.status == "succeeded"
    return Played(handled, built - started, time.process_time() - built)


def _best(build: Build, size: int) -> tuple[float, float, float]:
    """(events + edges a second, µs an event, µs to build a row), the best of several rounds."""
    graph = build(size, random.Random(size))
    edges = sum(len(node.edges) for node in graph.nodes)
    rates: list[float] = []
    costs: list[float] = []
    builds: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        played = [play(graph) for _ in range(max(1, LEAST_NODES // size))]
        handled = sum(p.events for p in played)
        building, handling = sum(p.building for p in played), sum(p.handling for p in played)
        rates.append((handled + edges * len(played)) / (building + handling))
        costs.append(handling / handled * 1e6)
        builds.append(building / (size * len(played)) * 1e6)
    return max(rates), min(costs), min(builds)


def measure() -> list[Row]:
    rows: list[Row] = []
    for name, build in SHAPES.items():
        costs: dict[int, float] = {}
        rates: dict[int, float] = {}
        for size in SIZES:
            rate, costs[size], building = _best(build, size)
            rates[size] = rate
            limited = size == 10_000
            rows.append(
                Row(
                    f"{name}, {size:,} nodes",
                    rate,
                    "events + edges/s",
                    f"≥ {LEAST_RATE:,}" if limited else "",
                    rate >= LEAST_RATE or not limited,
                )
            )
            rows.append(Row(f"{name}, {size:,} nodes: cost of an event", costs[size], "µs"))
            rows.append(Row(f"{name}, {size:,} nodes: building a row", building, "µs"))
        growth = costs[SIZES[-1]] / costs[SIZES[0]]
        label = f"{name}: cost of an event, {SIZES[-1]:,} against {SIZES[0]:,} nodes"
        rows.append(Row(label, growth, "×", f"≤ {MOST_GROWTH}", growth <= MOST_GROWTH))
        rows.append(Row(f"{name}: the same with building the rows", rates[SIZES[0]] / rates[SIZES[-1]], "×"))
    return rows


def compare(field: Field) -> list[Comparison]:
    """Shape by shape, always in processor time. Each number is that of a new process: where its memory happens to lie
    makes a process some percent faster or slower for as long as it lives."""
    return [_compared(shape, field) for shape in SHAPES]


def _compared(shape: str, field: Field) -> Comparison:
    ours, *others = [_side(who, shape, field) for who in field.everyone]
    what = f"the life of a run of {COMPARED:,} nodes, {shape}"
    return comparing.compared(what, "µs a node", [ours], others, [], field.rounds)


def _side(who: Contestant, shape: str, field: Field) -> comparing.Side:
    def measure() -> float:
        folder = field.new_folder()
        folder.mkdir()
        with programs.Program(who.command(who.deciding), folder, who.environment) as program:
            program.ask("core", COMPARED, shape)  # which warms it up
            return sum(program.ask("core", COMPARED, shape)) / COMPARED * 1e6

    if not who.deciding:
        return comparing.Side(who.name, "", None, "has no law that could be asked alone")
    return comparing.Side(who.name, "", measure)


def main() -> None:
    """The program of a comparison: how long a run of one shape takes."""
    graphs: dict[tuple[str, int], Graph] = {}

    def measure(shape: str, _: str, size: int) -> list[float]:
        if (shape, size) not in graphs:
            graphs[shape, size] = SHAPES[shape](size, random.Random(size))
        gc.collect()
        played = play(graphs[shape, size])
        return [played.building + played.handling]

    _serving.serve(contextlib.nullcontext({shape: shape for shape in SHAPES}), measure)
