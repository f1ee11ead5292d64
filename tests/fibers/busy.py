"""Fibers that compute, or wait, when their run is cancelled."""

from __future__ import annotations

from onceflow import fiber, wait_event, workflow
from onceflow.errors import Cancelled
from onceflow.fibers import call, fork, join
from tests.fibers.common import enter, reserve


@fiber
async def computing() -> str:
    """Locks something, thinks, and would change it."""
    await enter.call("locked")
    try:
        await enter.call("changed")
    except Cancelled:
        await enter.call("unlocked")
        raise
    return "changed"


@fiber
async def pondering() -> None:
    """Has nothing behind it but its thoughts."""
    try:
        await enter.call("thought")
    except Cancelled:
        await enter.call("forgotten")
        raise


@fiber
async def asking(how: str) -> None:
    """Waits for one that thinks."""
    try:
        if how == "call":
            await pondering.call()
        else:
            await join(await fork(pondering))
    finally:
        await enter.call("asked")


@workflow
def afterwards() -> str:
    return enter.bind(quick.bind())


@fiber
async def quick() -> str:
    await enter.call("in the fiber")
    return "after the fiber"


@fiber
async def expecting() -> str:
    await reserve.call("room")
    return await call(wait_event("word", str))
