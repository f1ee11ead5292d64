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
from time import monotonic
from typing import Literal

from onceflow.core.model.graph import Graph
from onceflow.core.run import Run
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.scenarios import random_graph
from tests.tools.simulation.schedule import Outcome, Simulation
from tests.tools.simulation.story import draw
from tests.tools.simulation.world import Violation
from tests.tools.simulation.wrong_rules import (
    ConsumersRun,
    CutRun,
    ForgetfulRun,
    GreedyRun,
    HastyRun,
    LooseRun,
    OpenRun,
    RashRun,
    ReopeningRun,
    StaleRun,
    TornRun,
    TrustingRun,
    ValuesRun,
)

Rule = Literal[
    "right",
    "cut",
    "consumers",
    "values",
    "rash",
    "hasty",
    "stale",
    "trusting",
    "greedy",
    "loose",
    "open",
    "forgetful",
    "torn",
    "reopening",
]
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
    "forgetful": ForgetfulRun,
    "torn": TornRun,
    "reopening": ReopeningRun,
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
    mixed: bool = False
    """Does each seed have a set of these options of its own?"""

    @property
    def letter(self) -> bool:
        """Does every single start have to obey the letter?"""
        return self.rule == "right"

    def of(self, seed: int) -> Settings:
        """How the schedule of this seed is played."""
        if not self.mixed:
            return self
        options = dict.fromkeys(MIXTURE[seed % len(MIXTURE)], True)
        refs = not options.pop("plain", False)
        return Settings(self.rule, self.validate, refs=refs, **options)

    @property
    def flags(self) -> str:
        """The options of the command line that say the same."""
        flags = [] if self.rule == "right" else [f"--rule {self.rule}"]
        flags += ["--validate"] * self.validate + ["--without-refs"] * (not self.refs)
        flags += [f"--{name}" for name in ("actors", "queues", "forks", "mixed") if getattr(self, name)]
        return "".join(f" {flag}" for flag in flags)


RIGHT = Settings()
MIXTURE: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("forks",),
    ("forks",),
    ("queues",),
    ("actors",),
    ("actors", "forks"),
    ("queues", "forks"),
    ("actors", "queues", "forks"),
    ("actors", "queues", "forks"),
    ("plain", "forks"),
    ("plain",),
)
"""Sets of options as often as they are met; a run has most of them."""


@dataclass(slots=True)
class Tally:
    """What many schedules came to."""

    schedules: int = 0
    steps: int = 0
    faults: int = 0
    crashes: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    finds: list[Caught] = field(default_factory=list)
    """Those that broke the law."""

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
        self.finds += other.finds


def simulation_of(seed: int, settings: Settings = RIGHT, driver_class: type[Driver] = Driver) -> Simulation:
    """The graph and the schedule of one seed."""
    settings = settings.of(seed)
    random = Random(seed)
    graph = random_graph(
        random,
        relays=settings.refs,
        actors=settings.actors,
        queues=settings.queues,
        forks=settings.forks,
        nested=True,
    )
    return _simulate(graph, random, settings, driver_class)


def _simulate(graph: Graph, random: Random, settings: Settings, driver_class: type[Driver] = Driver) -> Simulation:
    return Simulation(
        graph,
        random,
        letter=settings.letter,
        run_class=RULES[settings.rule],
        driver_class=driver_class,
        validate=settings.validate,
        refs=settings.refs,
        actors=settings.actors,
    )


def play(seed: int, settings: Settings = RIGHT) -> Outcome:
    """The schedule of one seed. Raises `Caught`."""
    return _play(simulation_of(seed, settings), seed, settings.of(seed))


def play_graph(graph: Graph, random: Random, settings: Settings = RIGHT) -> Outcome:
    """One schedule of a graph. Raises `Caught`, also if the run itself raised something."""
    return _play(_simulate(graph, random, settings), None, settings)


def _play(simulation: Simulation, seed: int | None, settings: Settings) -> Outcome:
    try:
        return simulation.run()
    except Exception as error:
        reason = str(error) if isinstance(error, Violation) else traceback.format_exc(limit=-8)
        raise Caught(seed, reason, _tell(simulation, seed, settings)) from error


def _tell(simulation: Simulation, seed: int | None, settings: Settings) -> str:
    lines = [draw(simulation.driver.graph), f"  on failure: {simulation.driver.on_failure}", ""]
    lines.append(simulation.driver.story.text())
    if seed is not None:
        lines += ["", f"  replay: python -m tests.tools.simulation --seed {seed}{settings.flags}"]
    return "\n".join(lines)


def simulate_many(
    seeds: Iterable[int],
    settings: Settings = RIGHT,
    *,
    jobs: int = 1,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Plays the schedules of all seeds and stops at the first that breaks the law, with `Caught`."""
    tally = hunt(seeds, settings, jobs=jobs, most=1, progress=progress)
    if tally.finds:
        raise tally.finds[0]
    return tally


def hunt(
    seeds: Iterable[int],
    settings: Settings = RIGHT,
    *,
    jobs: int = 1,
    most: int,
    seconds: float | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Plays the schedules of all seeds, until so many have broken the law or so much time is over."""
    tally = Tally()
    until = None if seconds is None else monotonic() + seconds
    for part in _parts(iter(seeds), settings, jobs, most):
        tally.merge(part)
        progress(tally)
        if len(tally.finds) >= most or (until is not None and monotonic() > until):
            break
    return tally


def _parts(seeds: Iterator[int], settings: Settings, jobs: int, most: int) -> Iterator[Tally]:
    chunks = iter(lambda: list(islice(seeds, CHUNK)), [])
    if jobs == 1:
        yield from (_play_chunk(chunk, settings, most) for chunk in chunks)
        return
    # A spawned process has nothing of this one: neither its threads nor what they hold.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            pending: set[Future[Tally]] = set()
            while True:
                # Few chunks are handed out ahead, so that a violation ends everything soon.
                pending.update(
                    pool.submit(_play_chunk, chunk, settings, most) for chunk in islice(chunks, 2 * jobs - len(pending))
                )
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _play_chunk(seeds: list[int], settings: Settings, most: int) -> Tally:
    tally = Tally()
    for seed in seeds:
        try:
            tally.add(play(seed, settings))
        except Caught as caught:
            tally.schedules += 1
            tally.finds.append(caught)
            if len(tally.finds) >= most:
                break
    return tally
