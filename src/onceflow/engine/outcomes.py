"""How a run came out: as a value, or as the exception that says why there is none.

Values and exceptions of user code are unpickled here, in the thread of whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceflow.driver.driver import Ending, load_result
from onceflow.errors import OnceflowError, RunCancelled, RunPaused, RunTimedOut, TaskFailed
from onceflow.values import failures


def value_of(ending: Ending, run: str, name: str | None, read: Callable[[str], bytes]) -> Any:
    """The result of a run. Raises what `error_of` gives if there is none. `read` fetches blobs."""
    if ending.status != "succeeded":
        raise error_of(ending, run, name)
    return load_result([part if isinstance(part, bytes) else read(part.reference) for part in ending.result])


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
