"""A fiber that cleans up when its run is cancelled, and one beside it."""

from __future__ import annotations

from onceflow import RetryPolicy, fiber, sleep, task
from onceflow.errors import Cancelled
from onceflow.fibers import fork
from tests.fibers.common import enter


@task(can_rollback=True, retry=RetryPolicy(5, delay=300, jitter=0))
def flaky() -> None:
    raise ConnectionError


@task(can_rollback=True)
def strike() -> None:
    pass


@fiber
async def striking() -> None:
    await sleep(5)
    await strike.call()


@fiber
async def trying() -> None:
    await fork(striking)
    try:
        await flaky.call()
    except Cancelled:
        await enter.call("cleaned up")
        raise
