"""Waiting for what only looking can tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LONG = 60.0
"""Seconds after which a test gives up waiting. Nothing here takes that long unless something is broken."""


def until(condition: Callable[[], Any]) -> Any:
    """Waits for something that only looking can tell."""
    deadline = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)
    return found
