"""Fibers that gather what cannot be gathered."""

from __future__ import annotations

from onceflow import fiber, sleep
from onceflow.fibers import call, fork, gather, join, spawn_limit
from tests.fibers.common import enter


@fiber
async def kid(what: str) -> str:
    await sleep(1)
    return await enter.call(what)


@fiber
async def forks(limit: int) -> list[object]:
    told = ""
    with spawn_limit(limit):
        try:
            await gather(fork(kid, "never"), fork(kid, "never"))
        except TypeError as error:
            told = str(error)
        children = [await fork(kid, "one"), await fork(kid, "two")]
        return [told, *await gather(*[join(child) for child in children])]


@fiber
async def same_call() -> str:
    op = enter.call("once")
    try:
        await gather(op, op)
    except RuntimeError as error:
        return f"{error}, {await op}"
    return "never"


@fiber
async def same_call_in_another() -> str:
    op = enter.call("once")
    try:
        await gather(op, gather(op))
    except RuntimeError as error:
        return str(error)
    return "never"


@fiber
async def same_coroutine() -> str:
    coroutine = kid("once")
    try:
        await gather(coroutine, coroutine)
    except RuntimeError as error:
        return f"{error}, {await coroutine}"
    return "never"


@fiber
async def awaited_before() -> list[str]:
    told = []
    op, coroutine = enter.call("one"), kid("two")
    await op
    await gather(coroutine)
    for each in (op, coroutine):
        try:
            await gather(each, enter.call("never"))
        except RuntimeError as error:
            told.append(str(error))
    return told


@fiber
async def same_node() -> tuple[str, ...]:
    node = enter.bind("each")
    return await call(gather(node, node))
