"""The statuses of a run. Imports nothing, so that the CLI can complete statuses without an engine."""

from __future__ import annotations

from typing import Literal, get_args

Status = Literal[
    "pending",
    "running",
    "waiting",
    "paused",
    "undoing",
    "undone",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
]
"""Status of a run. `waiting`: nothing runs, something is due later. `paused`: it waits for a user. `interrupted`:
its engine died or was closed; `resume` goes on."""

STATUSES: tuple[Status, ...] = get_args(Status)

ACTIVE: frozenset[Status] = frozenset(("pending", "running", "waiting", "undoing"))
"""Statuses in the journal of runs that an engine drives, or drove until they were interrupted."""

ENDED: frozenset[Status] = frozenset(("succeeded", "failed", "undone", "cancelled"))

AT_REST: frozenset[Status] = ENDED | {"paused"}
"""Statuses in the journal of runs without a driver."""
