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


def tries_again_what_has_graphs(program: Program) -> bool:
    """A transaction that is tried again does not find the outputs of those inside that returned graphs
    (`driver.inputs.carry`), and does not save again what is in a graph that had ended (`core`)."""
    retried = bool([answer for answer in program.answers if answer.decision == "retry"])
    return any(_tries_again(step, retried) for step in program.steps)


def _tries_again(step: Step, retried: bool) -> bool:
    retried = retried or bool(step.retry) or any(answer.decision == "retry" for answer in step.answers)
    if step.kind == "transaction" and retried:
        return any(inner.kind not in ("task", "make", "take") for inner in step.inside)
    within = [*step.inside, *[inner for said in step.statements for graph in said.graphs for inner in graph]]
    blocks = any(said.block is not None and said.block.decision == "retry" for said in step.statements)
    return any(_tries_again(inner, retried or blocks) for inner in within)


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
    tries_again_what_has_graphs,
    resumes_what_has_queues,
]


def _graphs(program: Program) -> list[tuple[Step, ...]]:
    found = [program.steps]
    for step in walk(program.steps):
        found += [step.inside, *[graph for said in step.statements for graph in said.graphs]]
    return found
