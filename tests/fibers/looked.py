"""Fibers to be looked at while they wait."""

from __future__ import annotations

from typing import Any

from onceflow import Secret, fiber, task, wait_event
from onceflow.fibers import call, fork, gather, join


class Parcel:
    def __repr__(self) -> str:
        raise AssertionError("user code was called")


@task
def reserve(item: str) -> str:
    return f"reserved {item}"


@fiber
async def approved(by: str, days: int) -> bool:
    return await call(wait_event("approval", bool, timeout=days * 86_400, default=False))


@fiber
async def fulfil(item: str, token: Secret[str]) -> Any:
    parcel = Parcel()
    clear = token.get()
    headers = {"Authorization": f"Bearer {clear}"}
    receipt = await reserve.call(item)
    ok = await approved("ann", 3)
    return [ok, receipt, parcel, headers]


@fiber
async def child(name: str) -> str:
    return await call(wait_event(name, str))


@fiber
async def family() -> list[Any]:
    forked = await fork(child, "forked")
    both = await gather(child("left"), child("right"))
    return [both, await join(forked)]


@fiber
async def raising(name: str) -> str:
    got = await call(wait_event(name, str))
    raise ValueError(got)


@fiber
async def telling(token: Secret[str]) -> str:
    clear = token.get()
    await wait_event("first")
    await wait_event("second")
    return clear
