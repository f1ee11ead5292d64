"""Fibers whose time is over, and what they do then."""

from __future__ import annotations

from onceflow import fiber, sleep, timeout


@fiber
async def stubborn() -> str:
    try:
        await sleep(1000)
    except TimeoutError:
        await sleep(500)
    return "not stopped"


@fiber
async def nested() -> str:
    try:
        async with timeout(100):
            async with timeout(50):
                return await stubborn.call()
    except TimeoutError:
        return "too late"
