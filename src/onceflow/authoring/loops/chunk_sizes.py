"""How many items go into a chunk.

A chunk should be long enough to be worth its start, and short enough that little is lost with it and that others get
their share. How long items take is known only when some of them have run. So a loop begins with a few large chunks,
and a chunk that has run for `ENOUGH` seconds looks back: what it has done in this time is how much the others should
do. It returns what it has, and its remaining items as chunks of that size. Whatever an item takes, and however
different they are, no chunk runs much longer than that or one item.

A loop with very many chunks has **blocks** of them, which are opened one after the other: what has been gathered is
forgotten, and what has not been opened takes no room. If nothing of it is saved, nothing can be forgotten (design
2.10); then chunks are made larger, so that there are not too many of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onceflow.authoring.loops.roles import Role, is_saved
from onceflow.authoring.loops.workflow_tasks import Building

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask

ENOUGH = 0.05
"""Seconds that a chunk should take, where that is measured."""

FEWEST, MOST = 32, 256
"""Chunks that a loop begins with, if there are as many items."""

FIRST = 4096
"""Items of a first chunk, if there are neither few nor very many."""

WIDEST = 1000
"""Chunks of one graph. If there are more, the graph has blocks of them."""

UNSAVED = 4000
"""Chunks of a loop of which nothing is saved."""

TOGETHER = 100
"""Async items of one chunk, which run at the same time, if there are many of them."""

PATIENT = 1000
"""How many may be in flight if nothing was said, of those that mostly wait: what is async or in threads, and
workflows."""

Range = tuple[int, int]
"""Number of the first item, and how many."""


def is_measured(task: AnyTask[..., Any], role: Role) -> bool:
    """Whether the size of chunks is found out by measuring: not if items run at the same time, or if each of them must
    be a node of its own."""
    return role.chunk == 0 and not is_single(task) and not task._base.is_async


def is_single(task: AnyTask[..., Any]) -> bool:
    """Whether each item has to be a node of its own, unless the user says otherwise: what is taken back or stopped by
    itself, waits in a thread, or needs a place in a queue."""
    settings = task.settings
    if isinstance(task._base.function, Building) or settings.fiber:
        return True
    limited = settings.timeout is not None or settings.total_timeout is not None
    waits = settings.threads or settings.queue is not None
    return settings.rollback is not None or limited or waits or settings.catch > 0 or settings.transaction


def limit_of(task: AnyTask[..., Any], role: Role) -> int:
    """How many chunks may be in flight."""
    if role.limit:
        return role.limit
    is_patient = task.settings.fiber or isinstance(task._base.function, Building)
    if task._base.is_async or task.settings.threads or is_patient:
        return PATIENT
    return max(256, 4 * (os.cpu_count() or 1))


def smallest(count: int, task: AnyTask[..., Any], role: Role) -> int:
    """Items that a chunk has at the least, except for what is left over."""
    if is_single(task) and task.settings.rollback is not None:
        return 1
    return 1 if is_saved(task, role) else -(-count // UNSAVED)


def first_size(count: int, task: AnyTask[..., Any], role: Role) -> int:
    """Items of the chunks that a loop of so many items begins with."""
    least = smallest(count, task, role)
    if role.chunk:
        return max(role.chunk, least)
    if is_single(task):
        return least
    if task._base.is_async:
        return max(least, min(TOGETHER, -(-count // WIDEST)))
    chunks = max(FEWEST, min(MOST, -(-count // FIRST)))
    return max(least, -(-count // chunks))


def next_size(done: int, seconds: float, left: int, least: int) -> int:
    """Items of the chunks that the rest of a chunk is split into, which has done so many items in this time."""
    fitting = int(done * ENOUGH / seconds)
    return max(least, fitting, -(-left // MOST))


def ranges(count: int, size: int) -> Iterator[Range]:
    """These items in pieces of this size; the last one is what is left."""
    for start in range(0, count, size):
        yield start, min(size, count - start)


def block_size(count: int, size: int) -> int:
    """Items of each block, if so many items in chunks of this size need blocks; else 0."""
    chunks = -(-count // size)
    if chunks <= WIDEST:
        return 0
    return size * max(WIDEST, -(-chunks // WIDEST))
