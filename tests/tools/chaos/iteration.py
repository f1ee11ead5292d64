"""One iteration: a random graph, a run whose engines are killed again and again until one of them comes to the end, and
the verdict on what is left."""

from __future__ import annotations

import itertools
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from onceflow import Engine
from onceflow.driver import entries
from onceflow.engine import settings
from onceflow.storage.home import Home
from onceflow.storage.journal import Durability
from tests.tools.chaos import judging, kills, leaks, ledger, plans, random_plans, steps
from tests.tools.chaos.kills import Bomb, Delay, Fuse, Target
from tests.tools.chaos.ledger import Ledger
from tests.tools.chaos.lives import HOME, NAME, OUTPUT, PLAN, How, Life, Nursery, Outcome, Started
from tests.tools.chaos.plans import Plan
from tests.tools.simulation.story import draw

PATIENCE = 60.0
"""Seconds after which an engine hangs."""
MOST_LIVES = 30
"""Engines after which a run that has not ended never will."""
MILD = 2
"""Workers and fork servers that are killed in one iteration, at most."""


class Verdict(msgspec.Struct, frozen=True):
    """What came of an iteration in which all was well."""

    seed: int
    status: str
    engines: int
    kills: int


class Caught(Exception):
    """Raised when an iteration went wrong. `story` tells all of it."""

    def __init__(self, seed: int, problems: list[str], story: str) -> None:
        self.seed = seed
        self.problems = problems
        self.story = story
        told = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"iteration {seed}:\n{told}\n\n{story}")


def play(seed: int, nursery: Nursery, folder: Path | None = None, *, connected: bool = False) -> Verdict:
    """Plays one iteration. Raises `Caught`; its folder is then left to be looked at. If this process is `connected`,
    because large values are kept elsewhere, descriptors come and go in it."""
    before = leaks.descriptors()
    folder = Path(tempfile.mkdtemp(prefix=f"onceflow-chaos-{seed}-")) if folder is None else folder / str(seed)
    folder.mkdir(exist_ok=True)
    iteration = _Iteration(seed, nursery, folder)
    problems = iteration.play()
    after = leaks.descriptors()
    left = set() if connected else after.keys() - before.keys()
    problems += [f"descriptor {number} ({after[number]}) was left open" for number in left]
    if problems:
        raise Caught(seed, problems, iteration.tell())
    shutil.rmtree(folder)
    return Verdict(seed, iteration.outcome.status, len(iteration.lives), iteration.kills)


class _Iteration:
    def __init__(self, seed: int, nursery: Nursery, folder: Path) -> None:
        random = Random(seed)
        self._seed = seed
        self._nursery = nursery
        self._folder = folder
        self.plan = random_plans.random_plan(random)
        self._is_script = random.random() < 0.15
        self._bombs, self._schedule = _schedule(random, self.plan, self._is_script)
        self._heals = random.random() < 0.6
        self.lives: list[str] = []
        """What each engine was, and what became of it."""
        self.outcome = Outcome("error")

    @property
    def kills(self) -> int:
        return sum("ended with -9" in life for life in self.lives)

    def play(self) -> list[str]:
        ledger.create(self._folder)
        (self._folder / PLAN).write_bytes(msgspec.msgpack.encode(self.plan))
        world = Ledger(str(self._folder))
        try:
            for bomb in self._bombs:
                world.plant(bomb.node, bomb.stage, bomb.target)
            problems = self._play(world)
            problems += leaks.wait_for_processes(self._folder)
            if not problems:
                problems = leaks.files(self._folder / HOME) + self._ask_again(world)
            return problems
        finally:
            world.close()

    def _play(self, world: Ledger) -> list[str]:
        problems = self._live_until_told(world)
        if not problems and self._heals and self.outcome.cause in judging.TROUBLE:
            problems = judging.judge(self.plan, world.lines(), self.outcome)
            if not problems:
                self.lives.append("the world is healed")
                world.note(steps.HEALED)
                problems = self._live_until_told(world)
        return problems or judging.judge(self.plan, world.lines(), self.outcome)

    def _live_until_told(self, world: Ledger) -> list[str]:
        """Starts engines until one of them says how the run came out."""
        for life in itertools.islice(self._schedule, MOST_LIVES):
            before = len(judging.outcomes(world.lines()))
            problems = self._live(life)
            told = [outcome for _, outcome in judging.outcomes(world.lines())[before:]]
            told = [outcome for outcome in told if not self._is_excused(life, outcome)]
            results = {outcome.result for outcome in told if outcome.status == "succeeded"}
            if len(results) > 1:
                problems.append(f"callers were told different results: {results}")
            if told:
                self.outcome = told[-1]
            # If one engine was told of a failure, its rival has gone on with the run, and may have died of that.
            unsure = life.rival and not results and any("ended with -9" in ended for ended in self.lives[-2:])
            if problems or (told and not unsure):
                return problems
        return [f"the run has not ended after {MOST_LIVES} engines"]

    def _is_excused(self, life: Life, outcome: Outcome) -> bool:
        """A fork server that is killed before it has forked anything looks like one that cannot work."""
        return "WorkersUnavailable" in outcome.cause and any(
            kill is not None and kill.target == "server" for kill in (life.fuse, life.delay)
        )

    def _live(self, life: Life) -> list[str]:
        """One engine, and perhaps a rival, from the start to the end. Returns what is wrong with that."""
        started = self._nursery.start(self._folder, life)
        rival = None
        if life.rival:
            undisturbed = msgspec.structs.replace(life, number=-life.number, fuse=None, delay=None)
            rival = self._nursery.start(self._folder, undisturbed)
        if life.delay is not None and not started.wait(life.delay.seconds):
            kills.assassinate(started.pid, life.delay.target, lambda: not started.wait(0))
        problems = self._wait_for(started, str(life))
        if rival is not None:
            problems += self._wait_for(rival, f"the rival of engine {life.number}")
        return problems

    def _wait_for(self, started: Started, who: str) -> list[str]:
        hangs = not started.wait(PATIENCE)
        if hangs:
            started.signal(signal.SIGUSR1)  # it writes down where its threads are
            started.wait(1)
            started.signal(signal.SIGKILL)
            started.wait(PATIENCE)
        status = self._nursery.reap(started)
        self.lives.append(f"{who}, process {started.pid} ended with {status}")
        if hangs:
            return [f"process {started.pid} hangs"]
        return [] if status in (0, -signal.SIGKILL) else [f"process {started.pid} ended with {status}"]

    def _ask_again(self, world: Ledger) -> list[str]:
        """What the journal says must be what was told, and asking must not run anything."""
        lines = world.lines()
        told, _ = judging.outcomes(lines)[-1]
        problems = []
        if self.outcome.status == "succeeded":
            late = [line for line in lines if line.id > told]
            problems += [f"happened after the result was told: {line}" for line in late]
        with Engine(self._folder / HOME) as engine:
            status = engine.status(NAME)
            if status != self.outcome.status:
                problems.append(f"the run is {status}, but its caller was told that it is {self.outcome.status}")
            elif status == "succeeded" and not self._is_script:  # what a script returned only it can load
                value = engine.get_output(NAME)
                if (value.node, value.token) != self.outcome.result:
                    problems.append(f"the saved result is {(value.node, value.token)}, not {self.outcome.result}")
        return problems

    def tell(self) -> str:
        """The story."""
        world = Ledger(str(self._folder))
        try:
            lines = [str(line) for line in world.lines()]
        finally:
            world.close()
        output = self._folder / OUTPUT
        printed = output.read_text(errors="replace")[-20_000:] if output.exists() else ""
        extras = [
            f"{id}: raises {step.raises}{' late' if step.late else ''}, {step.way}, {step.size} bytes"
            for id, step in plans.all_steps(self.plan.steps)
        ]
        parts = {
            f"The graph (on_failure={self.plan.on_failure!r})": [draw(plans.graph_of(self.plan.steps)), *extras],
            "The kills": [*map(str, self._bombs), *self.lives],
            "The ledger": lines,
            "The journal": list(self._journal()),
            "Printed": [printed],
            f"The folder is {self._folder}. To play it again": [
                f"python -m tests.tools.chaos --iterations 1 --seed {self._seed}"
            ],
        }
        return "\n\n".join("\n".join([f"{title}:", *told]) for title, told in parts.items())

    def _journal(self) -> Iterator[str]:
        try:
            found = settings.find(home=self._folder / HOME)
            with Home(found.home, journal=found.journal, blobs=found.blobs) as home:
                row = home.journal.find_name(NAME)
                if row is None:
                    yield "no such run"
                    return
                yield str(row)
                with home.journal.load(row.id) as loaded:
                    for entry in loaded.entries:
                        record = entries.record_of(entry, home.blobs.read)
                        size = f" ({len(entry.value)} bytes)" if entry.value is not None else ""
                        yield f"{record}{size}{f' {entry.blob}' if entry.blob else ''}"
        except Exception as error:  # a graph of a script's functions, for instance
            yield f"cannot be read: {error}"


def _schedule(random: Random, plan: Plan, script: bool) -> tuple[list[Bomb], Iterator[Life]]:
    """Who is to be killed, and how each engine lives. Without end: after the last kill they live undisturbed."""
    mild = MILD
    nodes = [id for id, _ in plans.all_steps(plan.steps)]
    lives: list[Life] = []

    def target() -> Target:
        nonlocal mild
        chosen: Target = random.choice(kills.TARGETS) if mild else random.choice(("engine", "all"))
        mild -= chosen in ("worker", "actor", "server")
        return chosen

    bombs = [
        Bomb(random.choice(nodes), random.choice(kills.STAGES), target()) for _ in range(random.choice((0, 1, 1, 2, 3)))
    ]
    for number in range(random.choice((0, 1, 2, 2, 3))):
        fuse = delay = None
        if random.random() < 0.6:
            fuse = Fuse(random.choice(kills.POINTS), random.choice((1, 1, 2, 2, 3, 4, 6, 9)), target())
        else:
            delay = Delay(random.random() ** 2 * 0.6, target())
        lives.append(_life(random, script, number, fuse, delay))
    return bombs, itertools.chain(lives, (_life(random, script, number) for number in itertools.count(len(lives))))


def _life(random: Random, script: bool, number: int, fuse: Fuse | None = None, delay: Delay | None = None) -> Life:
    how: How = random.choice(("run", "resume", "async", "recover")) if number else "run"
    durability: Durability = random.choice(("process", "process", "power"))
    preload, rival = random.random() < 0.8, random.random() < 0.1
    slow = random.uniform(0.005, 0.05) if random.random() < 0.3 else 0.0
    return Life(number, how, durability, script, preload, rival, slow, fuse, delay)
