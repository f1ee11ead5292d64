"""Many schedules at once: every seed makes its own graph and its own schedule, so a seed is all that a replay needs."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from random import Random
from typing import Literal

from onceflow.core.graph import Graph
from onceflow.core.run import Run
from onceflow.testing.simulation.scenarios import random_graph, with_forks, with_queues
from onceflow.testing.simulation.schedule import Outcome, Simulation
from onceflow.testing.simulation.story import draw
from onceflow.testing.simulation.world import Violation
from onceflow.testing.simulation.wrong_rules import (
    ConsumersRun,
    CutRun,
    GreedyRun,
    HastyRun,
    LooseRun,
    OpenRun,
    RashRun,
    StaleRun,
    TrustingRun,
    ValuesRun,
)

Rule = Literal["right", "cut", "consumers", "values", "rash", "hasty", "stale", "trusting", "greedy", "loose", "open"]
RULES: dict[Rule, type[Run]] = {
    "right": Run,
    "cut": CutRun,
    "consumers": ConsumersRun,
    "values": ValuesRun,
    "rash": RashRun,
    "hasty": HastyRun,
    "stale": StaleRun,
    "trusting": TrustingRun,
    "greedy": GreedyRun,
    "loose": LooseRun,
    "open": OpenRun,
}
CHUNK = 250
"""Schedules that a process plays before it reports."""


class Caught(Exception):
    """Raised when a schedule broke the law: `seed` replays it, the text tells the story."""

    def __init__(self, seed: int | None, reason: str, story: str) -> None:
        self.seed = seed
        self.reason = reason
        self.story = story
        super().__init__(seed, reason, story)

    def __str__(self) -> str:
        return f"{self.story}\n\n{self.reason}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How schedules are played. A wrong rule is judged by its consequences alone, not by the letter of the law."""

    rule: Rule = "right"
    validate: bool = False
    refs: bool = True
    """Do tasks return refs?"""
    actors: bool = False
    """Are some of them actors, and do tasks take them for themselves?"""
    queues: bool = False
    """Do tasks ask before they start?"""
    forks: bool = False
    """Have returned graphs nodes that stand aside?"""

    @property
    def letter(self) -> bool:
        """Does every single start have to obey the letter?"""
        return self.rule == "right"


RIGHT = Settings()


@dataclass(slots=True)
class Tally:
    """What many schedules came to."""

    schedules: int = 0
    steps: int = 0
    faults: int = 0
    crashes: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """One more schedule."""
        self.schedules += 1
        self.steps += outcome.steps
        self.faults += outcome.faults
        self.crashes += outcome.epochs - 1
        self.statuses[outcome.status] += 1

    def merge(self, other: Tally) -> None:
        """What another process came to."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.faults += other.faults
        self.crashes += other.crashes
        self.statuses += other.statuses


def play(seed: int, settings: Settings = RIGHT) -> Outcome:
    """The schedule of one seed. Raises `Caught`."""
    random = Random(seed)
    graph = random_graph(random, relays=settings.refs, actors=settings.actors)
    if settings.queues:
        graph = with_queues(random, graph)
    if settings.forks:
        graph = with_forks(random, graph)
    return play_graph(graph, random, settings, seed)


def play_graph(graph: Graph, random: Random, settings: Settings = RIGHT, seed: int | None = None) -> Outcome:
    """One schedule of a graph. Raises `Caught`, also if the run itself raised something."""
    simulation = Simulation(
        graph,
        random,
        letter=settings.letter,
        run_class=RULES[settings.rule],
        validate=settings.validate,
        refs=settings.refs,
        actors=settings.actors,
    )
    try:
        return simulation.run()
    except Exception as error:
        reason = str(error) if isinstance(error, Violation) else traceback.format_exc(limit=-8)
        raise Caught(seed, reason, _tell(simulation, seed, settings)) from error


def _tell(simulation: Simulation, seed: int | None, settings: Settings) -> str:
    lines = [draw(simulation.driver.graph), f"  on failure: {simulation.driver.on_failure}", ""]
    lines.append(simulation.driver.story.text())
    if seed is not None:
        rule = "" if settings.rule == "right" else f" --rule {settings.rule}"
        refs = "" if settings.refs else " --without-refs"
        actors = " --actors" if settings.actors else ""
        played = f"{' --queues' if settings.queues else ''}{' --forks' if settings.forks else ''}"
        lines += ["", f"  replay: python -m onceflow.testing.simulation --seed {seed}{rule}{refs}{actors}{played}"]
    return "\n".join(lines)


def simulate_many(
    seeds: Iterable[int],
    settings: Settings = RIGHT,
    *,
    jobs: int = 1,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Plays the schedules of all seeds and stops at the first that breaks the law, with `Caught`."""
    tally = Tally()
    for part in _parts(iter(seeds), settings, jobs):
        tally.merge(part)
        progress(tally)
    return tally


def _parts(seeds: Iterator[int], settings: Settings, jobs: int) -> Iterator[Tally]:
    chunks = iter(lambda: list(islice(seeds, CHUNK)), [])
    if jobs == 1:
        yield from (_play_chunk(chunk, settings) for chunk in chunks)
        return
    # A spawned process has nothing of this one: neither its threads nor what they hold.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            pending: set[Future[Tally]] = set()
            while True:
                # Few chunks are handed out ahead, so that a violation ends everything soon.
                pending.update(
                    pool.submit(_play_chunk, chunk, settings) for chunk in islice(chunks, 2 * jobs - len(pending))
                )
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _play_chunk(seeds: list[int], settings: Settings) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(play(seed, settings))
    return tally
