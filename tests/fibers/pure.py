"""Pure tasks, and fibers that await them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from onceflow import fiber, task, timeout

elapse: list[Callable[[float], None]] = []
"""What lets time pass, if that is not up to the clock on the wall."""


@task.pure
def take(seconds: float) -> float:
    if seconds:
        elapse[0](seconds)
    return seconds


@task.pure
def take_too_long() -> str:
    threading.Event().wait(60)
    return "not stopped"


@fiber
async def within(limit: float, *seconds: float) -> list[Any]:
    seen: list[Any] = []
    try:
        async with timeout(limit):
            for each in seconds:
                seen += [await take.call(each)]
    except TimeoutError:
        seen.append("too late")
    return seen


@fiber
async def without_limit(seconds: float) -> float:
    return await take.call(seconds)


@fiber
async def waiting_too_long() -> str:
    try:
        async with timeout(0.2):
            return await take_too_long.call()
    except TimeoutError:
        return "too late"
