"""Shapes that are drawn and not played, because the product does something else there than its documents say.

Each has a name, and a predicate that goes with the fix.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.testing.random_programs.language import Program, walk


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
    loops_in_a_workflow_with_handlers,
    loops_over_unsaved_effects,
    resumes_what_has_queues,
]
