"""Makes a program that fails smaller: leaves out whatever can be left out while it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tests.testing.random_programs.language import Program, Step

replace = msgspec.structs.replace


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """`fails` is given smaller and smaller programs, and must be true for the one that is given."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(program):
            if fails(smaller):
                program, changed = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    for steps in _smaller_graphs(program.steps):
        yield replace(program, steps=steps)
    yield from _defaults(program, keep=("seed", "steps"))


def _defaults(record: Any, keep: tuple[str, ...]) -> Iterator[Any]:
    """The same with one more field as it is by default."""
    for field in msgspec.structs.fields(record):
        if field.name not in keep and getattr(record, field.name) != field.default:
            yield replace(record, **{field.name: field.default})


def _smaller_graphs(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for number, step in enumerate(steps):
        if len(steps) > 1:
            yield _without(steps, number)
        if step.inside:
            yield _with(steps, number, replace(step, kind="task", inside=()))
            yield from (_with(steps, number, replace(step, inside=one)) for one in _smaller_graphs(step.inside))
        for inner in (*step.inside, *[one for said in step.statements for graph in said.graphs for one in graph]):
            reads = {"reads": step.reads, "after": step.after, "actor": None, "late": False}
            yield _with(steps, number, replace(inner, **reads))
        yield from (_with(steps, number, one) for one in _smaller_fibers(step))
        if step.items > 1:
            yield _with(steps, number, replace(step, items=step.items - 1, failing=0))
        keep = ("label", "kind", "inside", "statements", "items", "actor", "late", "failing")
        for one in _defaults(step, keep):
            yield _with(steps, number, one)
        for place in range(len(step.answers) if len(step.answers) > 1 else 0):
            yield _with(steps, number, replace(step, answers=step.answers[:place] + step.answers[place + 1 :]))


def _smaller_fibers(step: Step) -> Iterator[Step]:
    for number, statement in enumerate(step.statements):
        rest = [said for place, said in enumerate(step.statements) if place != number]
        if len(step.statements) > 1 and not any(said.verb == "join" and said.child == number for said in rest):
            moved = [replace(said, child=said.child - (said.verb == "join" and said.child > number)) for said in rest]
            yield replace(step, statements=tuple(moved))
        changed = [replace(statement, graphs=(graph,)) for graph in statement.graphs if len(statement.graphs) > 1]
        for place, graph in enumerate(statement.graphs):
            for smaller in _smaller_graphs(graph):
                if statement.expires and not smaller[-1].late:
                    continue
                if statement.direct and smaller[0].kind not in ("task", "graph", "transaction", "fiber"):
                    continue
                graphs = (*statement.graphs[:place], smaller, *statement.graphs[place + 1 :])
                changed.append(replace(statement, graphs=graphs))
        for one in (*changed, *_defaults(statement, ("label", "verb", "graphs", "child", "direct", "expires"))):
            yield replace(step, statements=(*step.statements[:number], one, *step.statements[number + 1 :]))


def _with(steps: tuple[Step, ...], number: int, step: Step) -> tuple[Step, ...]:
    return (*steps[:number], step, *steps[number + 1 :])


def _without(steps: tuple[Step, ...], number: int) -> tuple[Step, ...]:
    """What read it reads what it read."""
    gone = steps[number]
    kept = []
    for step in steps[:number] + steps[number + 1 :]:
        reads = {one for one in step.reads if one != number} | (set(gone.reads) if number in step.reads else set())
        after = {one for one in step.after if one != number} | (set(gone.after) if number in step.after else set())
        actor = None if step.actor is None or step.actor == number else _moved(step.actor, number)
        if step.actor == number and gone.actor is not None:
            actor = _moved(gone.actor, number)
        kept.append(
            replace(
                step,
                kind="task" if step.kind == "take" and actor is None else step.kind,
                actor=actor,
                reads=tuple(sorted(_moved(one, number) for one in reads)),
                after=tuple(sorted(_moved(one, number) for one in after - reads)),
            )
        )
    return tuple(kept)


def _moved(one: int, gone: int) -> int:
    return one - (one > gone)
