"""Shapes that are drawn and not played, because the product does something else there than its documents say.

Each has a name, and a predicate that goes with the fix.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.testing.random_programs.language import Program, Step, walk


def takes_what_is_not_saved_after_another(program: Program) -> bool:
    """While the task before a taker runs, the driver prepares the taker, and with that takes the actor out of its
    version: whoever reads the version next does not find it (`driver.ahead`)."""
    return any(
        step.kind == "take" and (step.reads or step.after) and not graph[step.actor or 0].checkpoint
        for graph in _graphs(program)
        for step in graph
    )


def undoes_on_top_of_what_took(program: Program) -> bool:
    """An undo that needs a version which is not saved does not find it, or finds that the task which made it, run once
    more for the undo, may not change the actor that it took (`driver.inputs`)."""
    return any(
        any(step.effect == "undoable" for step in graph)
        and any(step.kind == "take" and not (step.checkpoint and graph[step.actor or 0].checkpoint) for step in graph)
        for graph in _graphs(program)
    )


def loops_in_a_workflow_with_handlers(program: Program) -> bool:
    """They are not in force for the items (`authoring.loops.roles`)."""
    return bool(program.answers) and any(step.kind == "loop" for step in program.steps)


def loops_over_unsaved_effects(program: Program) -> bool:
    """An item that raises becomes a task of a graph, which an unsaved chunk may not return: `InvalidGraph`."""
    return any(
        step.kind == "loop" and step.effect == "irrevocable" and not step.checkpoint for step in walk(program.steps)
    )


def resumes_what_has_queues(program: Program) -> bool:
    """See `may_leave_places`."""
    return program.resumed and may_leave_places(program)


def may_leave_places(program: Program) -> bool:
    """When a run ends while a task in a queue is about to run that is not needed any more, its place is never given
    back: the workers of the memory engine forget the task, and tell nobody (`testing.kit.crew.Crew.forget`)."""
    steps = list(walk(program.steps))
    return any(step.queue for step in steps) and any(
        step.raises is not None or any(said.expires for said in step.statements) for step in steps
    )


LEFT_OUT: list[Callable[[Program], bool]] = [
    takes_what_is_not_saved_after_another,
    undoes_on_top_of_what_took,
    loops_in_a_workflow_with_handlers,
    loops_over_unsaved_effects,
    resumes_what_has_queues,
]


def _graphs(program: Program) -> list[tuple[Step, ...]]:
    found = [program.steps]
    for step in walk(program.steps):
        found += [step.inside, *[graph for said in step.statements for graph in said.graphs]]
    return found
