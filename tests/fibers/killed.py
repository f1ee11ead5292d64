"""A fiber that depends on chance and time, and kills the engine that runs it if it is told to."""

from __future__ import annotations

import random
import time
from typing import Any

from onceflow import current, fiber, task, wait_event
from onceflow.fibers import call, gather
from tests.helpers.traces import note
from tests.testing.crashing import die_if_told


@task
def effect(folder: str, name: str, chance: float) -> float:
    note(f"{folder}/traces", f"{name} {current().key} {chance}")
    die_if_told(folder, name)
    return chance


@task.pure
def looked(folder: str, name: str) -> str:
    die_if_told(folder, name)
    return name


@fiber
async def drawn(folder: str, name: str) -> float:
    chance = random.random() + time.time()
    return await effect.call(folder, name, chance)


@fiber
async def lottery(folder: str) -> dict[str, Any]:
    first = await drawn(folder, "first")
    chance = random.random()
    await looked.call(folder, "look")
    second = await effect.call(folder, "second", chance)
    third, fourth = await gather(drawn(folder, "third"), effect.call(folder, "fourth", random.random()))
    return {"first": first, "second": second, "third": third, "fourth": fourth}


@fiber
async def patient(folder: str) -> str:
    total = 0
    while (number := await call(wait_event("number", int))) >= 0:
        total += number
        await effect.call(folder, f"number {number}", total)
    return f"{total} in the end"
