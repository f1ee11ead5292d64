"""How a run came out: as a value, or as the exception that says why there is none.

Values and exceptions of user code are unpickled here, in the thread of whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceflow.driver.driver import Ending
from onceflow.driver.outputs import Blob, Part
from onceflow.errors import OnceflowError, RunCancelled, RunPaused, RunTimedOut, TaskFailed
from onceflow.values import failures, packing

Map = Callable[[str], memoryview]
"""Gives the content of a blob."""


def value_of(ending: Ending, run: str, name: str | None, map: Map) -> Any:
    """The result of a run. Raises what `error_of` gives if there is none."""
    if ending.status != "succeeded":
        raise error_of(ending, run, name)
    parts = [_load(part, map) for part in ending.result]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _load(part: Part, map: Map) -> Any:
    """Whoever gets it may do with it what they like: it is theirs alone."""
    assert isinstance(part, bytes | Blob)
    return packing.unpack(part if isinstance(part, bytes) else map(part.reference), ours=True)


def error_of(ending: Ending, run: str, name: str | None) -> OnceflowError:
    cause = None if ending.failure is None else failures.load(ending.failure)
    error: OnceflowError
    if ending.timeout is not None:
        error = RunTimedOut(run, ending.timeout, ending.kept, ending.uncertain)
    elif ending.status == "cancelled":
        error = RunCancelled(run, ending.kept, ending.uncertain)
    elif ending.status == "paused":
        error = RunPaused(run, ending.failed[0])
    else:
        error = TaskFailed(
            run,
            ending.failed,
            name=name,
            reason="" if cause is None else f"{type(cause).__name__}: {failures.text_of(cause)}",
            undone=ending.status == "undone",
            kept=ending.kept,
            uncertain=ending.uncertain,
        )
    error.__cause__ = cause
    return error
