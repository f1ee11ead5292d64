"""Waiting for what only looking can tell: how a run stands that another process drives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

FIRST, LAST = 0.005, 0.25
"""Seconds between two looks; twice as long each time."""


def looks(wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Never ends; waits before each look but the first."""
    pause = FIRST
    while True:
        yield
        wait(pause)
        pause = min(2 * pause, LAST)
