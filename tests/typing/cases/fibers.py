"""What a type checker says about fibers: a durable function has the type that it had before."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, assert_type

from onceflow import fiber, run, sleep, task, wait_event, workflow
from onceflow.fibers import Fiber, Op, call, gather


@fiber
async def priced(item: str, *, tax: float = 0.2) -> int:
    return int(await Op("price", item) * tax)


@fiber(on_change="move", name="fulfil")
async def fulfil(items: list[str]) -> list[int]:
    return [await priced(item) for item in items]


@contextlib.contextmanager
@fiber
def opened(name: str) -> Iterator[int]:
    yield len(name)


class Shop:
    @fiber
    async def sell(self, item: str) -> int:
        return await priced(item)

    @classmethod
    @fiber
    async def open(cls) -> Shop:
        await Op("open")
        return cls()


calls = [
    assert_type(priced("tea", tax=0.1), Coroutine[Any, Any, int]),
    assert_type(fulfil(["tea"]), Coroutine[Any, Any, list[int]]),
    assert_type(Shop().sell("tea"), Coroutine[Any, Any, int]),
    assert_type(Shop.open(), Coroutine[Any, Any, Shop]),
]


@task
def charge(user: str, cents: int) -> str:
    return f"{user} {cents}"


@workflow
def bill(user: str) -> str:
    return charge.bind(user, 1)


@fiber
async def sale(user: str) -> str:
    assert_type(await charge.call(user, 100), str)
    assert_type(await bill.call(user), str)
    assert_type(await priced.call("tea", tax=0.1), int)
    assert_type(await priced("tea"), int)
    assert_type(await gather(charge.call(user, 1), bill.call(user)), tuple[str, ...])
    assert_type(await call(wait_event("approved", bool)), bool)
    assert_type(await call(charge.call(user, 100), label="charge"), str)
    await sleep(10)
    await charge.call(user)  # E: call-arg
    return await charge.call(user, "1")  # E: arg-type


assert_type(run(sale.bind("ann")), str)
charge.bind(sale.bind("ann"), 1)
wrong_user = sale.bind(1)  # E: arg-type
assert_type(Fiber.start(priced("tea")), Fiber)
with opened("till") as number:
    assert_type(number, int)

wrong_kind = priced(1)  # E: arg-type
too_many = priced("tea", 0.1)  # E: call-arg
fiber(on_change="hope")  # E: call-overload
