"""Live continuations: fibers that stay in the worker which paused them (design 2.11).

A segment that continues one takes it, so it is used once: a segment that runs once more, here or elsewhere, begins with
the saved one, as does every segment where nothing is kept. What has been kept longest goes first when it becomes too
much.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from onceflow.values.context import link

if TYPE_CHECKING:
    from onceflow.authoring.fibers.durable_coroutine import Fiber

MOST = 64
"""Fibers that are kept in a process."""

LARGEST = 16 * 1024 * 1024
"""Bytes of their snapshots together, about what they take."""

_kept: OrderedDict[str, tuple[Fiber, int]] = OrderedDict()
_lock = threading.Lock()


def token_of(run: str, task: str, attempt: str) -> str:
    """By what a fiber is known that an attempt has paused."""
    return f"{run}/{task}/{attempt}"


def keep(token: str, fiber: Fiber, size: int) -> None:
    """It is paused here, and its snapshot has so many bytes."""
    here = link()
    if here is None or not here.hosts_fibers:
        forget(fiber)
        return
    with _lock:
        _kept[token] = fiber, size
        total = sum([size for _, size in _kept.values()])
        dropped: list[Fiber] = []
        while len(_kept) > MOST or (total > LARGEST and _kept):
            _, (oldest, freed) = _kept.popitem(last=False)
            total -= freed
            dropped.append(oldest)
    for oldest in dropped:
        forget(oldest)


def forget(fiber: Fiber) -> None:
    """It does not go on here. None of its code runs."""
    from onceflow.authoring.fiber_tasks.ops import Awaited  # engines import this module: few of them have fibers

    op = fiber.op
    fiber.discard()
    if isinstance(op, Awaited):
        op.forget()


def take(token: str) -> Fiber | None:
    """The fiber, if it is here."""
    with _lock:
        found = _kept.pop(token, None)
    return None if found is None else found[0]


def drop(token: str) -> None:
    """The attempt that paused it does not count."""
    fiber = take(token)
    if fiber is not None:
        forget(fiber)
