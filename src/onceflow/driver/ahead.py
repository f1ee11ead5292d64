"""What will start next, if nothing else happens.

While a run has a single attempt under way, and only one task without effect waits for nothing but its output, that task
is certain to start next: unless the attempt fails, returns a graph, or something happens meanwhile. A host that knows
it can have it run where the attempt ran, without asking in between. A task without effect that ran in vain has no
consequences, so nothing depends on whether the foresight comes true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceflow.core.model.rows import Row
from onceflow.driver.inputs import Inputs
from onceflow.driver.outputs import Part
from onceflow.driver.work import Ahead, Work

FARTHEST = 16
"""Tasks that are foreseen at once."""


def foresee(
    row: Row, attempt: int, inputs: Inputs, key_of: Callable[[Row], str], guard_of: Callable[[Row], Any]
) -> list[Ahead]:
    """The chain of tasks behind this attempt, each with the number that its attempt will have."""
    found: list[Ahead] = []
    while len(found) < FARTHEST and (follower := _follower(row)) is not None and guard_of(follower) is None:
        attempt += 1
        ahead = _prepare(follower, row, attempt, inputs, key_of(follower))
        if ahead is None:
            break
        found.append(ahead)
        row = follower
    return found


def is_plain(call: Any) -> bool:
    """Whether it runs in a worker's lane, with no limits and no needs of its own."""
    settings = call.settings
    return not (
        call.is_async
        or settings.fiber
        or settings.threads
        or settings.cpus is not None
        or settings.resources
        or settings.placement
        or settings.memory
        or settings.timeout is not None
        or settings.total_timeout is not None
        or settings.until is not None
    )


def _follower(row: Row) -> Row | None:
    """The only consumer, if it may start as soon as this row is done."""
    if len(row.consumers) != 1:
        return None
    follower = row.consumers[0][0]
    certain = follower.effect == "none" and follower.missing == 1 and follower.state == "waiting"
    if follower.writes or follower.follows_writer or follower.node.admission is not None or follower.node.takes:
        return None  # it may have to wait, for a commit or for others; and what is taken is taken when it starts
    return follower if certain and follower.undo is None and not follower.foreign else None


def _prepare(row: Row, before: Row, attempt: int, inputs: Inputs, key: str) -> Ahead | None:
    """None if its inputs, or how it is to be run, are not known yet."""
    call = row.node.call
    if not is_plain(call):
        return None
    values: list[Part] = []
    fed: list[tuple[int, int]] = []
    needs = inputs.of_attempt(row)
    if needs.refs is not None:
        return None
    for slot, ((edge, part), value) in enumerate(zip(call.slots, needs.values, strict=True)):
        if len(value) != 1:
            return None
        if row.parents[edge][0] is before:
            fed.append((slot, part or 0))
            values.append(b"")
        elif not isinstance(value[0], tuple):
            values.append(value[0])
        else:
            return None
    work = Work(
        row.id,
        row.node.task,
        attempt,
        call,
        values,
        row.node.parts,
        key,
        failures=row.failures,
        again=row.visible,
        keep=row.checkpoint,
    )
    return Ahead(work, fed)
