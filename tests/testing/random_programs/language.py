"""Random programs as data: what a program is made of, and how one is shown to people.

A program is a graph of steps. A step is a task, or something that has steps inside: a task that returns a graph, a
transaction, a loop, a fiber. Everything that a program does follows from these records, so it does the same in each
life, and a program that fails can be made smaller by leaving things out. Each step has a label of its own, under which
the world knows what it does; the items of a loop have the label of the loop and a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

Kind = Literal["task", "make", "take", "graph", "transaction", "loop", "fiber"]
"""`make` returns a new actor, and `take` changes one."""
Effect = Literal["none", "undoable", "irrevocable"]
Decision = Literal["retry", "ignore", "own", "break", "terminate"]
"""What a handler decides; `own`: its function makes a value, another one each time."""
Verb = Literal["await", "fork", "join", "look", "sleep"]

FATAL = ("TaskFailed",)
"""The outcome of a run that failed."""


class Raises(msgspec.Struct, frozen=True):
    """Which calls of a task raise. It depends on nothing but how often the task was called."""

    times: int | None = None
    """The first so many; None: all of them."""
    late: bool = False
    """After the effect, not before it."""
    grave: bool = False
    """A `Grave` instead of a `Trouble`: handlers may be for one of them only."""


class Answer(msgspec.Struct, frozen=True):
    """A handler."""

    decision: Decision
    count: int = 1
    """Of a retry."""
    trouble: bool = True
    grave: bool = True

    def covers(self, raises: Raises) -> bool:
        return self.grave if raises.grave else self.trouble


class Statement(msgspec.Struct, frozen=True):
    """What a fiber does between two others."""

    label: str
    verb: Verb
    graphs: tuple[tuple[Step, ...], ...] = ()
    """What is awaited, or forked; if several, they are gathered."""
    direct: bool = False
    """`await task.call(…)` or `fork(task, …)`, with the only step of the only graph."""
    limited: bool = False
    """Of a fork: it waits until all children before it have ended."""
    child: int = 0
    """Which statement of the fiber forked what is joined."""
    block: Answer | None = None
    """`with on(…)` around it."""
    tries: bool = False
    """`try` around it."""
    expires: bool = False
    """In an `async with timeout(…)` that is shorter than what is awaited."""


class Step(msgspec.Struct, frozen=True):
    label: str
    kind: Kind = "task"
    reads: tuple[int, ...] = ()
    """Earlier steps of the graph. A step that reads none is given what the graph was given."""
    after: tuple[int, ...] = ()
    actor: int | None = None
    """What a `take` takes."""
    refs: bool = False
    """It is given refs to what it reads."""
    effect: Effect = "none"
    deterministic: bool = False
    checkpoint: bool = True
    raises: Raises | None = None
    retry: int = 0
    answers: tuple[Answer, ...] = ()
    catch: bool = False
    writes: tuple[str, ...] = ()
    """Variables: `entries` is updated, `cell` is set."""
    looks: bool = False
    """It reads the variable `entries`."""
    queue: bool = False
    late: bool = False
    """It waits for a long time before it starts."""
    inside: tuple[Step, ...] = ()
    """The graph that it returns."""
    statements: tuple[Statement, ...] = ()
    items: int = 0
    listed: bool = False
    """A task makes the list of the items."""
    failing: int = 0
    """The item that raises."""
    on_error: Literal["stop", "skip", "collect"] = "stop"


class Program(msgspec.Struct, frozen=True):
    seed: int
    steps: tuple[Step, ...]
    answers: tuple[Answer, ...] = ()
    """The handlers of the workflow."""
    on_failure: Literal["keep", "undo"] = "keep"
    concurrency: int | None = None
    rate: str | None = None
    """Limits of the queue in which some tasks are."""
    resumed: bool = False
    """If it fails, it is resumed, and nothing raises any more."""
    in_queue: bool = False
    """The run is in a queue of its own."""
    order: int | None = None
    """The seed of the engine: what happens first where the law leaves a choice."""

    def __str__(self) -> str:
        told = [f"program {self.seed}: order={self.order} on_failure={self.on_failure}"]
        if self.concurrency or self.rate:
            told[0] += f" queue={self.concurrency or self.rate}"
        told[0] += " in_queue" * self.in_queue + " resumed" * self.resumed
        if self.answers:
            told.append(f"  workflow handlers: {_answers(self.answers)}")
        return "\n".join([*told, *_told(self.steps, 1)])


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, with those inside of others."""
    for step in steps:
        yield step
        yield from walk(step.inside)
        for statement in step.statements:
            for graph in statement.graphs:
                yield from walk(graph)


def labels_of(step: Step) -> list[str]:
    """The labels under which the step itself does something."""
    return [f"{step.label}.{number}" for number in range(step.items)] if step.kind == "loop" else [step.label]


def _told(steps: tuple[Step, ...], depth: int) -> Iterator[str]:
    for number, step in enumerate(steps):
        told = [f"{'  ' * depth}{number} {step.label}: {step.kind}"]
        for name in step.__struct_fields__:
            value, default = getattr(step, name), getattr(Step("") if name != "kind" else step, name)
            if value != default and name not in ("label", "kind", "inside", "statements", "answers", "raises"):
                told.append(name if value is True else f"{name}={value}")
        if step.raises:
            told.append(_raises(step.raises))
        if step.answers:
            told.append(_answers(step.answers))
        yield " ".join(told)
        yield from _told(step.inside, depth + 2)
        for place, statement in enumerate(step.statements):
            yield f"{'  ' * (depth + 1)}.{place} {_statement(statement)}"
            for graph in statement.graphs:
                yield from _told(graph, depth + 3)


def _raises(raises: Raises) -> str:
    often = "always" if raises.times is None else f"{raises.times}x"
    return f"raises({often}{' late' if raises.late else ''}{' grave' if raises.grave else ''})"


def _answers(answers: tuple[Answer, ...]) -> str:
    def tell(answer: Answer) -> str:
        count = f"({answer.count})" if answer.decision == "retry" else ""
        only = "" if answer.trouble and answer.grave else " Trouble" if answer.trouble else " Grave"
        return f"{answer.decision}{count}{only}"

    return f"[{', '.join(map(tell, answers))}]"


def _statement(statement: Statement) -> str:
    told = f"{statement.label}: {'direct ' * statement.direct}{statement.verb}"
    if statement.verb == "join":
        told += f" .{statement.child}"
    if statement.block:
        told += f" on{_answers((statement.block,))}"
    return told + " limited" * statement.limited + " try" * statement.tries + " expires" * statement.expires
