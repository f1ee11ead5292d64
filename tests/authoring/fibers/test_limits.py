"""Deep, large and long fibers."""

from __future__ import annotations

from typing import Any

from onceflow.authoring.fibers import Fiber, Op, fiber


@fiber
async def deep(n: int) -> int:
    return await Op("bottom") if n == 0 else 1 + await deep(n - 1)


def test_a_deep_fiber_can_be_saved() -> None:
    going = Fiber.start(deep(800))
    going = Fiber.loads(going.dumps())

    going.send(0)

    assert going.result == 800


@fiber
async def large(megabyte: bytes) -> int:
    await Op("x")
    return len(megabyte)


def test_a_large_variable_can_be_saved() -> None:
    going = Fiber.loads(Fiber.start(large(bytes(1_000_000))).dumps())
    going.send(None)

    assert going.result == 1_000_000


@fiber
async def long(n: int) -> int:
    total = 0
    for _ in range(n):
        total += await Op("next")
    return total


def test_a_snapshot_does_not_grow_with_the_awaits_that_have_passed() -> None:
    going = Fiber.start(long(10_000))
    early = len(going.dumps())
    for _ in range(9_999):
        going.send(1)

    assert len(going.dumps()) < early + 50
    going = Fiber.loads(going.dumps())
    going.send(1)
    assert going.result == 10_000


@fiber
async def tricky(items: list[Any]) -> Any:
    nested: Any = items
    for _ in range(400):
        nested = [nested]
    await Op("x")
    return nested


def test_a_deeply_nested_value_can_be_saved() -> None:
    going = Fiber.loads(Fiber.start(tricky([1])).dumps())
    going.send(None)
    value = going.result
    while value != [1]:
        (value,) = value
