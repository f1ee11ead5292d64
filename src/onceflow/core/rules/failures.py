"""Failures of tasks (design 2.8): retries, outcomes that handlers make, and how a run is stopped.

A run is **stopped** when a task fails for good, or when it is cancelled. Nothing new starts. Attempts without effect
are stopped; begun irrevocable ones may finish (a cancelled run gives up on them on request); undoable ones may finish
too, unless the run is cancelled or will be undone: then they are ended and undone. What comes when all is quiet is
decided in `ending.conclude`.

**Handlers.** Whether a handler answers for an exception is found out where the exception was raised (`backends`); here
counts what follows from the answer. An outcome that a handler made is not what the task would give if it ran again. So
the row is **handled**: it counts as nondeterministic and is saved, whatever its task declares, until it is dropped. If
the journal does not know the graph that the row belongs to, because that was not to be saved, it is saved after all.
An undoable attempt that raised is undone first: the row is done when that has happened. Nothing of this is in the
journal before the outcome is saved: a crash forgets it, and the task is tried again.
"""

from __future__ import annotations

from typing import Literal

from onceflow.core.model import commands, records
from onceflow.core.model.rows import Row, Scope
from onceflow.core.rules import outputs, recovery, starting
from onceflow.core.rules.state import State


def attempt_raised(run: State, row: Row, permanent: bool, again: bool = False) -> None:
    run.running -= 1
    starting.end_turn(run, row)
    row.failures += 1
    final = not again and (permanent or row.failures > row.node.options.retries)
    row.move("failed" if final else "backoff")
    run.append(records.Failed(row.id, row.failures, final))
    if row.effect == "undoable":
        recovery.undo_locally(run, row)
    elif not final:
        run.emit(commands.Wait(row.id, row.attempt, row.failures))
    if final:
        fail(run, row.id, row.scope)


def fail(run: State, node: str, scope: Scope) -> None:
    note_failed(run, node, scope)
    stop(run, "failed")


def note_failed(run: State, node: str, scope: Scope | None) -> None:
    """The call that cancelled the run decided what is undone."""
    run.failed[node] = scope
    if run.stopping is None:
        run.stopping = "failed"
        run.undo_all = run.on_failure == "undo"


def stop(run: State, why: Literal["failed", "cancelled"]) -> None:
    if run.stopping is None:
        run.stopping = why
    run.stalled = True
    take_back = run.stopping == "cancelled" or run.undo_all
    groups = () if take_back else failed_groups(run)
    for row in run.rows.values():
        undone = take_back or any(row.scope.is_in(group) for group in groups)
        if row.state == "running" and (row.effect == "none" or (row.effect == "undoable" and undone)):
            recovery.end_attempt(run, row)
            if row.effect == "undoable":
                recovery.undo_locally(run, row)
        elif row.effect == "irrevocable" and row.state == "running":
            run.emit(commands.Withdraw(row.id, row.attempt))


def give_up(run: State) -> None:
    for row in run.rows.values():
        if row.state == "running" and row not in run.gave_up:
            run.gave_up[row] = None
            run.emit(commands.Stop(row.id, row.attempt))


def failed_groups(run: State) -> list[Scope]:
    """The outermost transactions without a result in which something failed for good. (The call that cancels a run
    decides what is undone.)"""
    if run.stopping == "cancelled":
        return []
    groups: dict[Scope, None] = {}
    for scope in run.failed.values():
        outermost: Scope | None = None
        while scope is not None:
            if scope.is_transaction and not scope.has_result:
                outermost = scope
            scope = scope.outer
        if outermost is not None:
            groups[outermost] = None
    return list(groups)


# -- outcomes that handlers make ---------------------------------------------------------------------------------------


def was_handled(run: State, row: Row, small: bool) -> None:
    """The current attempt raised, and a handler gave an outcome."""
    if row.visible:  # it gave something before, which counts; a handler cannot know what that was
        attempt_raised(run, row, permanent=True)
        return
    run.running -= 1
    row.small = small
    if row.effect == "undoable":
        row.move("handled")
        starting.end_turn(run, row)
        recovery.undo_locally(run, row)
    else:
        become_handled(run, row)


def undone_and_handled(run: State, row: Row) -> None:
    if run.stopping is None and not row.scope.closed:
        become_handled(run, row)
    else:
        row.move("waiting")
        row.attempt = 0


def become_handled(run: State, row: Row) -> None:
    make_handled(run, row)
    _record_handling(run, row)
    if row.follows_writer:
        starting.follow_writes(row)  # it may never have started: what was written above it may be on its way
    outputs.become_done(run, row, None, row.small, handled=True)


def make_handled(run: State, row: Row) -> None:
    row.handled = True
    row.repeatable = False
    outputs.force(row)


def _record_handling(run: State, row: Row) -> None:
    """The journal learns that it is not what the task declares; or, where it does not know the row, that the
    graphs around it are not."""
    if row.is_known:
        if row.node.options.repeatable:
            run.append(records.Handled(row.id))
        return
    outputs.save_around(run, row)
