"""`onceflow.tasks.track`: a loop that reports its progress."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TypeVar

from onceflow.values.context import current, running

T = TypeVar("T")


def track(iterable: Iterable[T], total: float | None = None, note: str = "") -> Iterator[T]:
    """Yields the items, and reports how many have been dealt with (`Current.progress`). Outside of tasks it just yields
    them. `total` defaults to the length, if there is one.

    @task
    def load(rows: list[Row]) -> None:
        for row in track(rows, note="rows"):
            insert(row)
    """
    if running.get() is None:
        yield from iterable
        return
    if total is None:
        total = operator.length_hint(iterable) or None
    attempt = current()
    done = 0
    attempt.progress(done, total, note)
    for item in iterable:
        yield item
        done += 1
        attempt.progress(done, total, note)
