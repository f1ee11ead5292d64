"""Fibers that do what cannot be done."""

from __future__ import annotations

import asyncio
from typing import Any

from onceflow import Variable, fiber, run
from onceflow.fibers import fork, join
from tests.fibers.common import enter

written = Variable("written", 0)


@fiber
async def kid(number: int) -> int:
    return number


class Shop:
    @fiber
    async def add(self, number: int) -> int:
        return number

    @classmethod
    @fiber
    async def found(cls, number: int) -> int:
        return number


@fiber
async def joins_a_fork() -> Any:
    return await join(fork(kid, 1))  # type: ignore[arg-type]


@fiber
async def joins_a_text() -> Any:
    return await join("kid")  # type: ignore[arg-type]


@fiber
async def forks_a_call() -> Any:
    return await fork(kid(1))  # type: ignore[arg-type]


@fiber
async def forks_an_op() -> Any:
    return await fork(enter.call("never"))  # type: ignore[arg-type]


@fiber
async def calls_a_bound_method() -> Any:
    return await Shop().add.call(2)  # type: ignore[attr-defined]


@fiber
async def calls_methods() -> Any:
    return await Shop.add.call(Shop(), 2) + await Shop.found.call(Shop, 3)  # type: ignore[attr-defined]


@fiber
async def runs() -> Any:
    return run(enter.bind("never"))


@fiber
async def writes() -> None:
    written.set(3)


@fiber
async def awaits_asyncio() -> None:
    await asyncio.sleep(1)


@fiber
async def catches_that_itself() -> str:
    try:
        await asyncio.to_thread(print)
    except RuntimeError as error:
        return str(error)
    return "never"
