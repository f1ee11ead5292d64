"""How a run that is driven stands, and how a driver came to its end."""

from __future__ import annotations

from typing import Literal

import msgspec

from onceflow.driver.fiber_failures import Awaited
from onceflow.driver.outputs import Part

Status = Literal["pending", "running", "waiting", "paused", "undoing", "undone", "succeeded", "failed", "cancelled"]
"""Status of a driven run, as shown to users. `waiting`: nothing runs, something is due later."""


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a driver came to its end."""

    status: Status
    result: tuple[Part, ...] = ()
    """The parts of the run's output, if it succeeded; then what the refs in it refer to."""
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    failure: bytes | None = None
    """The exception that the first of `failed` raised (`values.failures`), or the undo for which the run is paused."""
    timeout: float | None = None
    """How many seconds it had, if it was cancelled because it ran out of time."""
    parts: int = 1
    """How many of `result` are parts of the output."""
    ended_fibers: tuple[str, ...] = ()
    """Ids of fibers that have ended because it was cancelled, and cannot go on."""
    awaited: tuple[tuple[Awaited, Part], ...] = ()
    """If the first of `failed` is a segment of a fiber: what that had waited for, and what may be an error of it."""
