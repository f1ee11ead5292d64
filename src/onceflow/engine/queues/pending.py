"""Runs that were submitted to a queue, and that no engine has taken yet. No engine counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceflow.engine.attaching import MOST_RUNS
from onceflow.engine.submission import decode_settings

if TYPE_CHECKING:
    from onceflow.storage.run_stores import Place

AT_ONCE = 500

FEW_ENTRIES = 1000
"""A run that begins with more than that was not submitted."""


def count_submitted(home: Place, queue: str, most: int) -> int:
    """How many there are. Counting stops there."""
    waiting = [row.id for row in home.journal.owned(None, ["pending"], MOST_RUNS)]
    count = 0
    for start in range(0, len(waiting), AT_ONCE):
        found = home.journal.load_short(waiting[start : start + AT_ONCE], most=FEW_ENTRIES)
        count += sum(decode_settings(short.settings).queue == queue for short in found.values())
        if count >= most:
            break
    return count
