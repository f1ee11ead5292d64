"""Draws programs. Each seed is one program: safe, small, and of a mixture of everything."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from onceflow import UnsafeGraph, check
from tests.testing.random_programs.judge import Allowed, outcomes
from tests.testing.random_programs.language import Answer, Program, Raises, Statement, Step, walk
from tests.testing.random_programs.tasks import build, graph_of
from tests.testing.random_programs.verdicts import Racing, Verdicts
from tests.testing.random_programs.world import world

FEWEST, MOST = 3, 8
"""Tasks of a program: items of loops and whatever is in graphs count, too."""
DEEPEST = 3

KINDS = {"task": 50, "graph": 12, "transaction": 12, "fiber": 14, "loop": 6, "make": 6}
EFFECTS = {"none": 30, "undoable": 35, "irrevocable": 35}
DECISIONS = {"retry": 28, "ignore": 22, "own": 20, "break": 22, "terminate": 8}
VERBS = {"await": 55, "fork": 18, "join": 18, "look": 5, "sleep": 4}

MOST_OUTCOMES = 4


def draw(seed: int) -> tuple[Program, list[Allowed]]:
    """The program of this seed, and what it may lead to. What is not safe, or anybody's guess, is drawn again."""
    attempt = 0
    while True:
        program = Generator(Random(f"{seed}/{attempt}")).program(seed)
        attempt += 1
        try:
            check_all(program)
            allowed = outcomes(program)
        except (Racing, UnsafeGraph):
            continue
        if len(allowed) <= MOST_OUTCOMES:
            return program, allowed


def check_all(program: Program) -> None:
    """Raises `Racing`, or `UnsafeGraph` for any graph in it."""
    Verdicts(program)
    world.begin(program)
    check(graph_of(program))
    for step in walk(program.steps):
        graphs = [step.inside, *[graph for statement in step.statements for graph in statement.graphs]]
        for graph in filter(None, graphs):
            check(build(graph, 0))


class Generator:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._left = chance.randint(FEWEST, MOST)
        """Tasks that may still be drawn."""
        self._labels = 0
        self._transactions = 0
        """That are around what is drawn."""
        self._with_queue = chance.random() < 0.3

    def program(self, seed: int) -> Program:
        chance = self._chance
        limited = chance.random() < 0.6
        steps = self._graph(0, MOST)
        return Program(
            seed,
            steps,
            answers=self._answers(1) if chance.random() < 0.15 else (),
            on_failure="undo" if chance.random() < 0.4 else "keep",
            concurrency=1 if self._with_queue and limited else None,
            rate="1/s" if self._with_queue and not limited else None,
            resumed=chance.random() < 0.5,
            in_queue=chance.random() < 0.1,
            order=None if chance.random() < 0.35 else chance.randrange(1_000_000),
        )

    def _pick(self, weights: dict[Any, int]) -> Any:
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def _happens(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _label(self, letter: str = "t") -> str:
        self._labels += 1
        return f"{letter}{self._labels}"

    # -- graphs --------------------------------------------------------------------------------------------------------

    def _graph(self, depth: int, most: int) -> tuple[Step, ...]:
        """At least one step. The last one reads all that no other reads."""
        steps: list[Step] = []
        while not steps or (len(steps) < most and self._left > 0):
            count = self._chance.choice([0, 1, 1, 2])
            self._add(steps, self._step(depth, steps), self._chance.sample(range(len(steps)), min(len(steps), count)))
        read = {one for step in steps for one in (*step.reads, *step.after, step.actor)}
        unread = [one for one in range(len(steps)) if one not in read]
        # Nobody can catch what fails in a graph that gives an actor.
        if len(unread) > 1 or (depth and _is_actor(steps[-1])):
            self._add(steps, self._task(depth, "task"), unread)
        return tuple(steps)

    def _add(self, steps: list[Step], step: Step, parents: list[int]) -> None:
        plain = step.kind in ("task", "graph", "transaction")
        reads = [one for one in parents if step.kind not in ("fiber", "loop") or not _is_actor(steps[one])]
        after = [reads.pop()] if plain and reads and self._happens(0.1) else []
        refs = plain and reads and self._happens(0.08) and not any(steps[one].catch for one in reads)
        refs = refs and not any(_is_actor(steps[one]) for one in reads)
        changed = {"reads": tuple(sorted(reads)), "after": tuple(after), "refs": bool(refs)}
        steps.append(msgspec.structs.replace(step, **changed))

    def _step(self, depth: int, steps: list[Step]) -> Step:
        kind = self._pick(KINDS)
        actors = [number for number, step in enumerate(steps) if _is_actor(step)]
        if actors and self._happens(0.45):
            return msgspec.structs.replace(self._task(depth, "take"), actor=self._chance.choice(actors))
        if depth >= DEEPEST and kind in ("graph", "transaction", "fiber"):
            kind = "task"
        match kind:
            case "graph" | "transaction":
                return self._expander(depth, kind)
            case "fiber":
                return self._fiber(depth)
            case "loop":
                return self._loop(depth)
            case _:
                return self._task(depth, kind)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _task(self, depth: int, kind: Any, *, saved: bool = False) -> Step:
        self._left -= 1
        chance = self._chance
        effect = self._pick(EFFECTS)
        if kind in ("make", "take", "graph") and self._happens(0.5):
            effect = "none"
        writes: tuple[str, ...] = ()
        if effect != "undoable" and self._happens(0.22):
            writes = chance.choice([("entries",), ("entries",), ("cell",), ("entries", "cell")])
        looks = self._happens(0.15)
        raises = self._raises(0.22)
        return Step(
            self._label(),
            kind,
            effect=effect,
            deterministic=not looks and self._happens(0.4),
            checkpoint=bool(writes) or saved or self._happens(0.7),
            raises=raises,
            retry=chance.randint(1, 2) if raises and self._happens(0.3) else 0,
            answers=self._answers(chance.randint(1, 2)) if self._happens(0.6 if raises else 0.05) else (),
            catch=kind not in ("make", "take") and self._happens(0.15 if raises else 0.03),
            writes=writes,
            looks=looks,
            queue=self._with_queue and self._happens(0.5),
        )

    def _raises(self, probability: float) -> Raises | None:
        if not self._happens(probability):
            return None
        times = None if self._happens(0.45) else self._chance.randint(1, 2)
        return Raises(times, late=self._happens(0.6), grave=self._happens(0.25))

    def _answers(self, count: int) -> tuple[Answer, ...]:
        found = []
        for _ in range(count):
            trouble, grave = self._chance.choices([(True, True), (True, False), (False, True)], [70, 20, 10])[0]
            found.append(Answer(self._pick(DECISIONS), self._chance.randint(1, 2), trouble, grave))
        return tuple(found)

    def _expander(self, depth: int, kind: Any) -> Step:
        chance = self._chance
        if kind == "transaction":
            retry = chance.randint(1, 2) if self._happens(0.25) else 0
            raises = Raises(grave=self._happens(0.25)) if self._happens(0.04) else None
            step = Step(self._label("x"), "transaction", raises=raises, retry=retry)
        else:
            step = msgspec.structs.replace(self._task(depth, "graph", saved=True), writes=())
            if self._happens(0.8):
                step = msgspec.structs.replace(step, raises=None)
            self._left += 1
        self._transactions += kind == "transaction"
        inside = _returned(self._graph(depth + 1, chance.randint(1, 4)))
        self._transactions -= kind == "transaction"
        return msgspec.structs.replace(
            step,
            inside=inside,
            answers=self._answers(chance.randint(1, 2)) if self._happens(0.4) else (),
            catch=self._happens(0.2),
        )

    def _loop(self, depth: int) -> Step:
        step = self._task(depth, "loop")
        items = self._chance.randint(2, 3)
        self._left -= items - 1
        strict = step.effect == "undoable" or step.answers
        on_error = "stop" if strict else self._pick({"stop": 30, "skip": 35, "collect": 35})
        return msgspec.structs.replace(
            step,
            items=items,
            listed=self._happens(0.3),
            failing=self._chance.randrange(items),
            on_error=on_error,
            catch=False,
            writes=(),
        )

    # -- fibers --------------------------------------------------------------------------------------------------------

    def _fiber(self, depth: int) -> Step:
        label = self._label("f")
        statements: list[Statement] = []
        forked: list[int] = []
        for number in range(self._chance.randint(2, 4)):
            verb = self._pick(VERBS)
            if verb == "fork" and self._transactions:  # nothing may stand aside there
                verb = "await"
            if verb in ("await", "fork") and self._left <= 0 and statements:
                verb = "join" if forked else "look"
            if verb == "join" and not forked:
                verb = "await"
            if verb == "join":
                child = forked.pop(self._chance.randrange(len(forked)))
                statements.append(Statement(self._label("s"), "join", child=child, tries=self._happens(0.6)))
            elif verb == "await":
                statements.append(self._await(depth))
            elif verb == "fork":
                forked.append(number)
                statements.append(self._fork(depth))
            else:
                statements.append(Statement(self._label("s"), verb))
        return Step(
            label,
            "fiber",
            statements=tuple(statements),
            answers=self._answers(1) if self._happens(0.2) else (),
            catch=self._happens(0.15),
        )

    def _await(self, depth: int) -> Statement:
        label, tries = self._label("s"), self._happens(0.6)
        block = self._answers(1)[0] if self._happens(0.3) else None
        if self._happens(0.4):
            return Statement(label, "await", ((self._alone(depth),),), direct=True, block=block, tries=tries)
        graph = self._graph(depth + 1, self._chance.randint(1, 3))
        if self._happens(0.12) and graph[-1].kind == "task":
            late = msgspec.structs.replace(graph[-1], late=True, raises=None)
            return Statement(label, "await", ((*graph[:-1], late),), tries=True, expires=True)
        if self._happens(0.2) and self._left > 0:
            other = self._graph(depth + 1, self._chance.randint(1, 2))
            return Statement(label, "await", (graph, other), tries=tries)
        return Statement(label, "await", (graph,), block=block, tries=tries)

    def _fork(self, depth: int) -> Statement:
        label = self._label("s")
        if self._happens(0.6):
            alone = msgspec.structs.replace(self._alone(depth), catch=False)  # a join raises what a child has raised
            return Statement(label, "fork", ((alone,),), direct=True, limited=self._happens(0.2))
        graph = self._graph(depth + 1, self._chance.randint(1, 2))
        return Statement(label, "fork", (graph,), limited=self._happens(0.2))

    def _alone(self, depth: int) -> Step:
        """A step that a fiber calls."""
        kinds = {"task": 60, "graph": 10, "transaction": 15, "fiber": 15}
        kind = self._pick(kinds) if depth < DEEPEST else "task"
        if kind == "fiber":
            return self._fiber(depth + 1)
        return self._task(depth, "task") if kind == "task" else self._expander(depth + 1, kind)


def _is_actor(step: Step) -> bool:
    return step.kind in ("make", "take")


def _returned(graph: tuple[Step, ...]) -> tuple[Step, ...]:
    """Whoever returns a graph has one output, and so has the graph."""
    return (*graph[:-1], msgspec.structs.replace(graph[-1], catch=False))
