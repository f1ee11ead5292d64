"""Fibers that raise, and others that call them where handlers are in force."""

from __future__ import annotations

from typing import Any

from onceflow import fiber, sleep, task, transaction
from onceflow.fibers import fork, gather, join, on, timeout
from onceflow.handlers import handler, ignore, retry
from tests.fibers.common import reserve


@task(can_rollback=True)
def fail(what: str) -> str:
    raise ConnectionError(what)


@fiber
async def bare(when: str) -> str:
    if when == "later":
        await sleep(1)
    raise ConnectionError(when)


@fiber(handlers=[handler(ConnectionError, ignore("its own"))], metadata={"team": "sales"})
async def guarded(when: str) -> str:
    if when == "later":
        await sleep(1)
    raise ConnectionError(when)


@fiber
async def passing() -> str:
    return await fail.call("no answer")


@fiber
async def in_blocks(when: str) -> list[Any]:
    seen = [await guarded.call(when)]
    async with timeout(60):
        seen.append(await guarded.call(when))
        seen += await gather(guarded(when), guarded.call(when))
    with on(ConnectionError).ignore("the block's"):
        seen.append(await guarded.call(when))
        seen.append(await guarded.options(name="other").call(when))
        seen.append(await join(await fork(guarded, when)))
    with on(KeyError).ignore("nothing"):
        seen += await guarded.options(catch=True).call(when)
    seen += await gather(guarded(when))
    seen.append(await join(await fork(guarded, when)))
    return seen


@fiber
async def around_bare(when: str) -> list[Any]:
    with on(ConnectionError).ignore("the block's"):
        seen = [await bare.call(when), await bare.options(name="other").call(when)]
        seen += await gather(bare(when), bare.call(when))
        child = await fork(bare, when)
        async with timeout(60):
            seen.append(await bare.call(when))
    seen.append(await join(child))
    return seen


@fiber
async def around_passing(task: Any) -> str:
    with on(ConnectionError).retry(2, delay=10, backoff=1, jitter=0):
        try:
            return await task.call()
        except ConnectionError as error:
            return f"{error}, {sorted(vars(error))}"


@task(can_rollback=True)
def fail_at_first(what: str) -> str:
    tried.append(what)
    if len(tried) < 3:
        raise ConnectionError(what)
    return what


tried: list[str] = []


@fiber
async def passing_at_first() -> str:
    await reserve.call("a table")
    return await fail_at_first.call("asked")


@transaction(handlers=[handler(ConnectionError, retry(2, delay=1, jitter=0))])
def stubborn() -> Any:
    return passing_at_first.bind()
