"""Answers of handlers to a failure, on their way from where the exception was raised to the
driver."""

from __future__ import annotations

from typing import Literal

import msgspec

THE_TASK = -1
"""The place of an answer that is about the failed task itself."""


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`value`: what failed is done, with these parts. `again`: it is tried again. `break`: the graph around it ends
    cleanly, with nothing."""

    kind: Literal["value", "again", "break"]
    at: int = THE_TASK
    """What has failed, as far as the handler is concerned: the task itself, or the graph at this depth in which it
    is."""
    parts: list[bytes] = []
    """The outcome, packed."""
    delay: float = 0.0
    """Seconds until it is tried again."""
    jitter: float = 0.0
    """Fraction of the delay by which it is lengthened or shortened at random."""
