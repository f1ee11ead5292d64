"""The outcome of a run: its value, or the exception that says why there is none.

Values and exceptions of user code are unpickled here, in the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from onceflow.driver.endings import Ending
from onceflow.driver.fiber_failures import let_through
from onceflow.driver.outputs import Blob
from onceflow.errors import RunCancelled, RunPaused, RunTimedOut, TaskFailed
from onceflow.errors.runs import PINNED
from onceflow.values import actors, failures, packed_outputs
from onceflow.values.refs import ValueRef, is_own, restore

if TYPE_CHECKING:
    from onceflow.driver.outputs import Part
    from onceflow.errors import OnceflowError
    from onceflow.values.refs import Ref

Map = Callable[[str], memoryview]
"""Gives the content of a blob."""


def value_of(ending: Ending, run: str, name: str | None, map: Map) -> Any:
    """The result of a run. Raises what `error_of` gives if there is none."""
    if ending.status != "succeeded":
        raise error_of(ending, run, name, map)
    declared, held = ending.result[: ending.parts], ending.result[ending.parts :]
    handles = [_ref(part, f"{run}.{number}", map) for number, part in enumerate(held, ending.parts)]
    parts = [_load(part, map, handles) for part in declared]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _ref(part: Part, id: str, map: Map) -> Any:
    content = _content(part, map)
    if is_own(content):
        return restore(content)
    if actors.is_snapshot(content):
        return actors.restore(content)  # outside of tasks an actor is an ordinary object
    return ValueRef(id, lambda: _load(part, map, ()), "a run, whose result it is in")


def _load(part: Part, map: Map, refs: Sequence[Ref[Any]]) -> Any:
    """The caller may change it: it is a copy of its own."""
    return packed_outputs.unpack(_content(part, map), refs, ours=True)


def _content(part: Part, map: Map) -> bytes | memoryview:
    assert isinstance(part, bytes | Blob)
    return part if isinstance(part, bytes) else map(part.reference)


def error_of(ending: Ending, run: str, name: str | None, map: Map) -> OnceflowError:
    """Why there is no result. What fibers only let through is reported as the failure of what they awaited."""
    cause = None if ending.failure is None else failures.load(ending.failure)
    error: OnceflowError
    if ending.timeout is not None:
        error = RunTimedOut(run, ending.timeout, ending.kept, ending.uncertain, ending.ended_fibers)
    elif ending.status == "cancelled":
        error = RunCancelled(run, ending.kept, ending.uncertain, ending.ended_fibers)
    elif ending.status == "paused":
        error = RunPaused(run, ending.failed[0] if ending.failed else None)
    else:
        awaited = [] if ending.failure is None else let_through(ending.failure, ending.awaited, map)
        error = TaskFailed(
            run,
            (*[one.id for one in awaited], *ending.failed),
            name=name,
            reason="" if cause is None else f"{type(cause).__name__}: {failures.text_of(cause)}",
            hint=" ".join([note for note in getattr(cause, "__notes__", ()) if note.endswith(PINNED)]),
            undone=ending.status == "undone",
            kept=ending.kept,
            uncertain=(*ending.uncertain, *[one.id for one in awaited if one.uncertain]),
        )
    error.__cause__ = cause
    return error
