"""Waiting for what only looking can tell: how a run stands that another process drives."""

from __future__ import annotations

import time
from collections.abc import Iterator

FIRST, LAST = 0.005, 0.25
"""Seconds between two looks; twice as long each time."""


def looks() -> Iterator[None]:
    """Never ends; waits before each look but the first."""
    pause = FIRST
    while True:
        yield
        time.sleep(pause)
        pause = min(2 * pause, LAST)
