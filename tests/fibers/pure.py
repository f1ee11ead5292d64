"""Pure tasks, and fibers that await them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from onceflow import fiber, sleep, task
from onceflow.fibers import timeout

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


class Unreachable(Exception):
    def __init__(self, host: str, connection: object) -> None:
        super().__init__(host)
        self.connection = connection
        self.host = host


@task.pure
def reach(host: str) -> str:
    raise Unreachable(host, threading.Lock()) from KeyError(host)


@fiber
async def keeping_an_error() -> list[Any]:
    """Saves what a pure task has raised."""
    try:
        await reach.call("example.org")
    except Unreachable as error:
        kept = error
    await sleep(0)
    told = [type(kept).__name__, str(kept), sorted(vars(kept)), type(kept.__cause__).__name__]
    return [*told, [note.splitlines()[0] for note in kept.__notes__], ["in reach" in note for note in kept.__notes__]]
