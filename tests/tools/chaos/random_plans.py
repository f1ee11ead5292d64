"""Random plans.

The structure comes from the simulation's generator, which favours what is hard: shared consumers, unsaved
nondeterministic tasks above effects, parts, control-only edges, nested graphs. Added here is what only real processes
have: large values, errors, pauses, threads and coroutines, and processes of actors.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from onceflow.backends.local.live_outputs import WORTH_IT
from onceflow.core.model.graph import Graph, Node
from onceflow.core.rules.state import OnFailure
from onceflow.values.packed_outputs import SMALL
from tests.tools.chaos.plans import FOREVER, Plan, Step
from tests.tools.simulation.scenarios import random_graph

QUEUE = "chaos"


def random_plan(random: Random) -> Plan:
    """A plan whose graph is safe."""
    steps = _steps(random, random_graph(random, actors=random.random() < 0.4))
    if random.random() < 0.3:
        doomed = random.randrange(len(steps))
        steps[doomed] = msgspec.structs.replace(steps[doomed], raises=FOREVER, late=random.random() < 0.5)
    on_failure: OnFailure = "undo" if random.random() < 0.5 else "keep"
    ballast = SMALL + random.randrange(200_000) if random.random() < 0.2 else 0
    queue = QUEUE if random.random() < 0.3 else None
    return Plan(tuple(_queued(steps) if queue else steps), on_failure, ballast, queue)


def _queued(steps: Sequence[Step]) -> list[Step]:
    """The same, every second one in a queue."""
    return [
        msgspec.structs.replace(
            step,
            queue=None if number % 2 else QUEUE,
            alternatives=tuple([None if nested is None else tuple(_queued(nested)) for nested in step.alternatives]),
        )
        for number, step in enumerate(steps)
    ]


def _size(random: Random) -> int:
    """Of a value that stands in the journal, of one that is written to shared memory, or of one that may stay where it
    was made."""
    least, most = random.choices(((0, 100), (SMALL, SMALL + 100_000), (WORTH_IT, WORTH_IT + 100_000)), (6, 2, 2))[0]
    return random.randrange(least, most)


def _steps(random: Random, graph: Graph) -> list[Step]:
    return [_step(random, node) for node in graph.nodes]


def _step(random: Random, node: Node) -> Step:
    retries = node.options.retries
    return Step(
        node.id,
        node.options.effect,
        node.options.deterministic,
        node.options.checkpoint,
        retries,
        node.parts,
        node.edges,
        size=_size(random),
        refs=random.random() < 0.3,
        raises=random.randint(0, retries) if random.random() < 0.4 else 0,
        late=random.random() < 0.5,
        pause=random.choice((0.0, 0.0, 0.0, 0.005, 0.02)),
        way=random.choice(("plain",) * 8 + ("threads", "async")),
        writes=node.options.writes,
        takes=() if node.call else node.takes,
        actors=random.choice((0, 0, 0, 1, 2)) if node.takes or random.random() < 0.3 else 0,
        alternatives=tuple(None if nested is None else tuple(_steps(random, nested)) for nested in node.call or ()),
    )
