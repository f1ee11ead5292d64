"""Fibers that workers go on with by themselves, or cannot."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from onceflow import Variable, current, fiber, put, sleep, task, wait_event
from onceflow.actors import create
from onceflow.fibers import call
from tests.engine.acting import Counter
from tests.helpers.doors import knock
from tests.helpers.traces import note

seen: Variable[int] = Variable("seen", 7)

NAP = 3600.0


def die_once(path: str) -> None:
    if not os.path.exists(path):
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)


@task
def effect(path: str, line: str) -> str:
    note(path, f"{line} {current().key}")
    return line


@task(writes=[seen])
def see(number: int) -> None:
    seen.set(number)


@fiber
async def patient(greeting: str) -> str:
    number = await call(wait_event("number", int))
    return f"{greeting} {number}"


@fiber
async def counting(path: str) -> int:
    """Waits again and again."""
    total = 0
    while (number := await call(wait_event("number", int))) >= 0:
        total += number
        note(path, total)
    return total


@fiber
async def counting_aloud() -> None:
    number = 0
    while number >= 0:
        number = await call(wait_event("number", int))
        print(number)


@fiber
async def passing(path: str) -> list[int]:
    """Is at a door when it is woken for the first time."""
    first = await call(wait_event("number", int))
    knock(path)
    return [first, await call(wait_event("number", int))]


@fiber
async def acting(path: str) -> str:
    number = await call(wait_event("number", int))
    note(path, f"woken {number}")
    return await effect.call(path, f"number {number}")


@fiber
async def talking() -> str:
    number = await call(wait_event("number", int))
    print(f"it is {number}")
    print("in two lines, the second without an end", file=sys.stderr, end="")
    current().logger.warning("and a warning")
    return "told"


@fiber
async def deadly(path: str) -> str:
    """The process in which it goes on for the first time dies."""
    await call(wait_event("number", int))
    die_once(path)
    return "survived"


@fiber
async def napping() -> str:
    await sleep(NAP)
    return "awake"


@fiber
async def asking(what: str) -> Any:
    """Needs something that only the engine has."""
    if what == "variable":
        await see.call(8)
    number = await call(wait_event("number", int))
    match what:
        case "size":
            return "x" * 100_000 + str(number)
        case "ref":
            return put(number)
        case "actor":
            try:
                create(Counter, 0)
            except Exception:
                return "caught"
            return "made"
        case "variable" | "default":
            return seen.get()
        case "error":
            raise KeyError("no such number")
        case "exit":
            raise SystemExit(3)
    return number
