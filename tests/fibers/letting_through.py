"""Fibers that let through what others raise, or do not."""

from __future__ import annotations

from typing import Any

from onceflow import fiber, parallel, task, transaction, wait_event, workflow
from onceflow.errors import Cancelled
from onceflow.fibers import call, fork, gather, join
from tests.fibers.common import enter, take_back, world

broken: set[str] = set()
"""What does not work now."""


class Rejected(Exception):
    pass


@task
def pay(who: str) -> str:
    if who in broken:
        raise ConnectionError(f"{who} cannot pay")
    world.enter(f"{who} paid")
    return who


@task(rollback=take_back)
def reserve_for(what: str) -> str:
    world.enter(f"{what} reserved")
    if what in broken:
        raise ConnectionError(f"{what} cannot be reserved")
    return what


@fiber
async def buying(who: str) -> str:
    await enter.call("ordered")
    return await pay.call(who)


@fiber
async def reserving(what: str) -> str:
    return await reserve_for.call(what)


@fiber
async def splitting(*names: str) -> Any:
    return await gather(*[pay.call(name) for name in names])


@fiber
async def rejecting(who: str) -> str:
    try:
        return await pay.call(who)
    except ConnectionError as error:
        raise Rejected(who) from error


@fiber
async def replying(who: str) -> str:
    """Takes the error, and fails by another one as long as something else does not work."""
    try:
        return await pay.call(who)
    except ConnectionError:
        error = ValueError("no reply") if "reply" in broken else None
    if error is not None:
        raise error
    return "unpaid"


@fiber
async def asking(who: str) -> str:
    """The error goes through two fibers."""
    return f"asked {await buying.call(who)}"


@workflow
def both(first: str, second: str) -> Any:
    return parallel(pay.bind(first), pay.bind(second))


@transaction
def booking(what: str, who: str) -> Any:
    return pay.options(after=[reserve_for.bind(what)]).bind(who)


@fiber
async def composing(how: str) -> Any:
    return await (both.call("ann", "bob") if how == "workflow" else booking.call("room", "bob"))


@fiber
async def sending(who: str) -> str:
    return await join(await fork(buying, who))


@fiber
async def refunding(who: str) -> None:
    try:
        await call(wait_event("never"))
    except Cancelled:
        await pay.call(who)
        raise


@task.pure
def one() -> int:
    return 1


@workflow
def ones() -> list[int]:
    return parallel(one.bind(), one.bind())


@fiber
async def counting() -> list[int]:
    try:
        return await ones.call()
    finally:
        await enter.call("counted")
