"""Fibers that start others, which wait more than once."""

from __future__ import annotations

from typing import Any

from onceflow import Secret, fiber, wait_event
from onceflow.fibers import fork, gather, join


@fiber
async def patient(name: str) -> str:
    told = ""
    for number in range(3):
        told += await wait_event(f"{name}{number}", str)
    return told


@fiber
async def between(name: str) -> Any:
    return await gather(patient(f"{name} left "), patient(f"{name} right "))


@fiber
async def family() -> Any:
    await wait_event("begin")
    forked = await fork(between, "forked")
    return [await gather(patient("one "), patient("two ")), await join(forked)]


@fiber
async def crowd(count: int) -> Any:
    return await gather(*[patient(f"{number} ") for number in range(count)])


@fiber
async def secretive(token: Secret[str]) -> str:
    key = f"answer to {token.get()}"
    return await wait_event(key, str)
