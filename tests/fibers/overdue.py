"""Fibers whose time is over, and what they do then."""

from __future__ import annotations

from onceflow import RetryPolicy, fiber, for_each, sleep, task
from onceflow.fibers import call, fork, timeout
from tests.fibers.common import enter


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
        async with timeout(100), timeout(50):
            return await stubborn.call()
    except TimeoutError:
        return "too late"


@fiber
async def tidy(number: int) -> str:
    await sleep(1)
    return await enter.call(f"tidied {number}")


@fiber
async def tidying(number: int) -> None:
    try:
        await sleep(1000)
    finally:
        await call(for_each(tidy, [number]))


@fiber
async def hurrying() -> str:
    try:
        async with timeout(10):
            await call(for_each(tidying, [1, 2]))
    except TimeoutError:
        return "too late"
    return "in time"


@task(retry=RetryPolicy(3, delay=300, jitter=0))
def flaky() -> str:
    raise ConnectionError


@fiber
async def trying() -> str:
    try:
        async with timeout(10):
            return await flaky.call()
    except TimeoutError:
        return "too late"


@task(queue="overdue")
def occupy() -> None:
    pass


@task(queue="overdue")
def pass_through() -> str:
    return "in time"


@task(can_rollback=True)
def tell_time() -> None:
    pass


@fiber
async def queueing() -> str:
    await fork(occupy)
    await sleep(1)
    try:
        async with timeout(10):
            return await pass_through.call()
    except TimeoutError:
        await tell_time.call()
        return "too late"
