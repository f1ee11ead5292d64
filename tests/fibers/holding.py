"""Fibers that hold what they have bound: nodes among their variables."""

from __future__ import annotations

import threading
from typing import Any

from onceflow import fiber, for_each, parallel, put, ref, sleep, task, workflow
from onceflow.errors import NotPersistable
from onceflow.fibers import call, fork, gather, join, spawn_limit
from tests.fibers.common import Declined, decline, double, enter, make_ref, total, world


@task(num_returns=2)
def enter_two(first: str, second: str) -> tuple[str, str]:
    world.enter(f"{first} and {second}")
    return first, second


@task
def entered(*what: Any) -> list[Any]:
    world.enter(f"entered {what}")
    return list(what)


@task
def read(packed: Any) -> int:
    world.enter("read")
    return len(packed.get())


@workflow
def trip(city: str) -> str:
    return enter.bind(enter.bind(f"room in {city}"))


@fiber
async def at_once() -> str:
    node = enter.bind("ann")
    return await call(node)


@fiber
async def unawaited() -> str:
    node = enter.bind("never")
    other = call(decline.bind("never"))
    await sleep(1)
    return f"{node!r}, {other!r}"


@fiber
async def late() -> list[str]:
    node = enter.bind("late")
    wrapped = call(enter.bind("wrapped"))
    first = await enter.call("first")
    await sleep(1)
    return [first, await node, await wrapped]


@fiber
async def failing_late() -> str:
    node = decline.bind("gold")
    await sleep(1)
    try:
        return await node
    except Declined as error:
        return f"{error}, {error.code}"


@fiber
async def several() -> list[Any]:
    nodes = [enter.bind(f"number {number}") for number in range(3)]
    named = {"a": enter.bind("a"), "b": enter.bind("b")}
    await sleep(1)
    done = [await call(parallel(*nodes)), await gather(*named.values())]
    more = [enter.bind("one"), enter.bind("two")]
    for node in more:
        done.append(await node)  # noqa: PERF401
    return done


@fiber
async def of_many_kinds() -> list[Any]:
    pair = enter_two.bind("left", "right")
    left, right = pair
    loop = for_each(enter, ["x", "y"])
    chained = for_each(double, for_each(double, [1, 2]))
    graph = total.bind([double.bind(1), 2], double.bind(double.bind(3)))
    booked = trip.bind("Rome")
    later = read.bind(ref(double.options(name="long").bind("ab")))
    held = [pair, left, right, loop, chained, graph, booked, later]
    await sleep(1)
    assert [pair[0] is left, pair[1] is right] == [True, True]
    return [await call(node) for node in held[1:]]


@fiber
async def one_of_two_names() -> list[Any]:
    node = enter.bind("shared")
    same = [node, {"again": node}]
    above = entered.bind(node, node)
    await sleep(1)
    assert [same[0] is node, same[1]["again"] is node] == [True, True]
    return await call(entered.bind(above, node))


@fiber
async def apart() -> list[str]:
    node = enter.bind("each time")
    return [await node, await node]


@fiber
async def with_refs() -> list[Any]:
    node = read.bind(put("abc"))
    other = read.bind(await make_ref.call(20))
    await sleep(1)
    return [await node, await other]


@fiber
async def deep(count: int) -> int:
    node = double.bind(1)
    for _ in range(count):
        node = double.options(name="deep").bind(node)
    await sleep(1)
    return (await call(node)).bit_length()


@fiber
async def kid(node: Any) -> str:
    await sleep(1)
    return str(await node)


@fiber
async def given_away() -> list[Any]:
    with spawn_limit(1):
        first = await fork(kid, enter.bind("first"))
        second = await fork(kid, enter.bind("second"))
    return [await join(first), await join(second), *await gather(kid(enter.bind("third")))]


@fiber
async def with_a_lock() -> list[Any]:
    made = await make_ref.call(20)
    node = read.bind(made)
    lock = threading.Lock()
    try:
        await sleep(1)
    except NotPersistable as error:
        return [error.what]
    return [made, node, lock]
