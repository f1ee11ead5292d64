"""What the tests of fibers in a run share: tasks, fibers, and the world in which they happen."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

from onceflow import (
    RetryPolicy,
    Variable,
    fiber,
    for_each,
    parallel,
    put,
    sleep,
    task,
    transaction,
    wait_event,
    workflow,
)
from onceflow.errors import Cancelled, NotPersistable
from onceflow.fibers import call, fork, gather, join, on, spawn_limit, timeout
from onceflow.testing import Ledger

world = Ledger()


class Declined(Exception):
    def __init__(self, card: str, *, code: int) -> None:
        super().__init__(f"{card} was declined")
        self.code = code


@task.pure
def double(number: int) -> int:
    return 2 * number


@task
def enter(what: str) -> str:
    world.enter(what)
    return what


def take_back(what: str, *, key: str) -> None:
    world.take_back(key)


@task(rollback=take_back)
def reserve(what: str) -> str:
    world.enter(what)
    return what


@task(can_rollback=True)
def decline(card: str) -> str:
    raise Declined(card, code=7)


@task(can_rollback=True, retry=RetryPolicy(2, delay=1, jitter=0))
def flaky(numbers: list[int]) -> int:
    raise ConnectionError("try again")


@task.pure
def quadruple(number: int) -> Any:
    return double.bind(double.bind(number))


@fiber
async def unfolding(number: int) -> list[str]:
    """What pure tasks give that return graphs, or are given one."""
    async with timeout(3600):
        return [repr(await quadruple.call(number)), repr(await double.call(double.bind(number)))]


@fiber
async def order(customer: str, amounts: list[int]) -> dict[str, Any]:
    """Uses everything that is different each time between its awaits."""
    receipts = []
    for number, amount in enumerate(amounts):
        chance, moment = random.random(), time.time()
        seen = {chance: "a", moment: "b"}
        doubled = await double.call(amount)
        receipts.append(await enter.call(f"{customer} {number}: {doubled}"))
        assert seen == {chance: "a", moment: "b"}
    return {"customer": customer, "receipts": receipts}


@fiber
async def paying(card: str) -> str:
    try:
        return await decline.call(card)
    except Declined as error:
        await enter.call(f"{error} with {error.code}")
        return "unpaid"
    finally:
        await enter.call("done")


@fiber
async def helper(number: int) -> int:
    return await double.call(number) + await double.call(1)


@fiber
async def stacked(number: int) -> int:
    total = await helper(number)
    await enter.call(f"total {total}")
    return total + await helper(total)


@fiber
async def together(names: list[str]) -> list[Any]:
    first = await gather(*[enter.call(name) for name in names], double.call(4))
    second = await gather(*[stacked(len(name)) for name in names])
    return [first, second]


@fiber
async def approval(item: str) -> str:
    await enter.call(f"asked for {item}")
    approved = await call(wait_event("approval", bool, timeout=3600, default=False))
    if approved:
        await sleep(60)
    await enter.call(f"{item}: {approved}")
    return "yes" if approved else "no"


@workflow
def pair(first: str, second: str) -> list[str]:
    return parallel(enter.bind(first), enter.bind(second))


@fiber
async def mixed(items: list[int]) -> list[Any]:
    doubled = await call(for_each(double, items))
    both = await pair.call("one", "two")
    child = await stacked.call(3)
    graph = await call(parallel(enter.bind("three"), double.bind(double.bind(4))))
    return [doubled, both, child, graph]


@task(can_rollback=True)
def unsteady(name: str) -> str:
    world.enter(name)
    raise ConnectionError(name)


@fiber
async def caring() -> list[Any]:
    seen: list[Any] = []
    try:
        with on(ConnectionError).retry(2, delay=1, jitter=0):
            await unsteady.call("retried")
    except ConnectionError as error:
        seen.append(str(error))
    with on(ConnectionError, KeyError).ignore("nothing"):
        with on(KeyError).terminate():
            seen.append(await unsteady.call("ignored"))
        seen.append(await trying.call("child"))
    return seen


@fiber
async def trying(name: str) -> str:
    return await unsteady.call(name)


@fiber
async def breaking() -> str:
    with on(ConnectionError).break_():
        await unsteady.call("broken")
    return "never"


@fiber
async def terminating() -> str:
    try:
        with on(ConnectionError).terminate():
            return await unsteady.call("terminated")
    except ConnectionError:
        return "never"


@task(can_rollback=True)
def dawdle(seconds: float) -> str:
    time.sleep(seconds)
    return "late"


@fiber
async def napping(seconds: float) -> str:
    try:
        await sleep(seconds)
    finally:
        await enter.call(f"napped {seconds}")
    return "slept"


@fiber
async def hurried(how: str) -> str:
    """Ten seconds of time for something that takes longer."""
    try:
        async with timeout(10):
            await sleep(4)
            match how:
                case "task":
                    return await dawdle.call(3600)
                case "sleep":
                    await sleep(7)
                case "event":
                    return await call(wait_event("never", str, timeout=100, default="default"))
                case "fiber":
                    return await napping.call(8)
                case "quick":
                    await sleep(5)
                    return "in time"
                case "gather":
                    await gather(napping(1), napping(7))
    except TimeoutError:
        await sleep(20)
        await enter.call("cleaned up")
        return "too late"
    return "never"


@fiber
async def worker(name: str, seconds: float) -> str:
    await sleep(seconds)
    if seconds > 100:
        raise Declined(name, code=9)
    return await enter.call(name)


@fiber
async def forking() -> list[Any]:
    names = ["slow", "quick"]
    slow = await fork(worker, names[0], 50)
    names[0] = "changed"
    quick = await fork(worker, names[1], 5)
    single = await fork(enter, "single")
    await enter.call("parent")
    await fork(worker, "forgotten", 90)
    return [await join(quick), await join(slow), await join(single)]


@fiber
async def limited(count: int) -> list[str]:
    with spawn_limit(2):
        children = [await fork(worker, f"child {number}", 10) for number in range(count)]
        return [await join(child) for child in children]


@fiber
async def failing_child(joins: bool) -> str:
    child = await fork(worker, "bad", 101)
    if joins:
        try:
            await join(child)
        except Declined as error:
            return f"declined {error.code}"
    return "not joined"


@fiber
async def nested_forks(depth: int) -> int:
    if depth == 0:
        return 1
    children = [await fork(nested_forks, depth - 1) for _ in range(2)]
    await enter.call(f"depth {depth}")
    return sum([await join(child) for child in children])


@fiber
async def cleaning(how: str) -> str:
    await reserve.call("room")
    try:
        match how:
            case "event":
                await call(wait_event("never"))
            case "task":
                await dawdle.call(3600)
            case "child":
                await tidy.call("child")
            case "fork":
                await fork(tidy, "forked")
                await join(await fork(tidy, "joined"))
            case "swallow":
                await tidy("helper")
    except Cancelled:
        await enter.call("cleaning up")
        await sleep(10)
        await enter.call("cleaned up")
        if how != "swallow":
            raise
    return "went on"


@fiber
async def tidy(name: str) -> None:
    try:
        await sleep(1000)
    except Exception:
        await enter.call("never")
    finally:
        await enter.call(f"{name} was here")


@workflow
def lengthy(seconds: float) -> str:
    return enter.options(after=[sleep(seconds)]).bind(f"after {seconds}")


@task(can_rollback=True)
def lengthened(seconds: float) -> Any:
    return enter.options(after=[sleep(seconds)]).bind(f"after {seconds}")


@fiber
async def slow_to_tidy(seconds: float) -> str:
    try:
        await sleep(1000)
    finally:
        await sleep(seconds)
        await enter.call("tidied up")
    return "never"


@workflow
def dawdling() -> str:
    return dawdle_outside.bind(3600)


@task
def dawdle_outside(seconds: float) -> str:
    time.sleep(seconds)
    return "late"


@transaction
def reserving() -> str:
    return enter.options(after=[reserve.bind("room"), sleep(100)]).bind("never")


@fiber
async def impatient(how: str) -> str:
    """Ten seconds for graphs that take longer."""
    try:
        async with timeout(10):
            match how:
                case "workflow" | "in time" | "caught":
                    await lengthy.call(5)
                    if how == "workflow":
                        await lengthy.call(15)
                    if how == "caught":
                        await call(lengthy.bind(6))
                    await lengthy.call(4)
                    return how
                case "loop":
                    await call(for_each(lengthy, [5]))
                    await call(for_each(lengthy, [6, 7, 8]))
                case "task":
                    await lengthened.call(5)
                    await lengthened.call(15)
                case "running":
                    await dawdling.call()
                case "fibers":
                    await call(for_each(slow_to_tidy, [2]))
                case "stubborn":
                    await call(parallel(slow_to_tidy.bind(60), sleep(5)))
                case "transaction":
                    await reserving.call()
                case "retried":
                    await flaky.options(retry=RetryPolicy(100, delay=1, backoff=1, jitter=0)).call([])
    except TimeoutError:
        return await enter.call("too late")
    return "never"


@task(can_rollback=True)
def make_ref(size: int) -> Any:
    return put(b"x" * size)


@task(can_rollback=True)
def length(given: Any) -> int:
    return len(given.get())


@fiber
async def referring(sizes: list[int]) -> list[Any]:
    refs = [await make_ref.call(size) for size in sizes]
    await enter.call("made")
    found = [await length.call(ref) for ref in refs]
    return [found, refs[0]]


@fiber
async def fetching(size: int) -> dict[str, Any]:
    return {"made": await make_ref.call(size), "size": size}


@fiber
async def collecting(sizes: list[int]) -> list[Any]:
    """Its children give refs."""
    children = [await fork(fetching, size) for size in sizes]
    children.append(await fork(make_ref, 7))
    await enter.call("forked")
    found = [await join(child) for child in children]
    async with timeout(100):
        found.append(await call(making.bind(8)))
    return [await length.call(one["made"] if isinstance(one, dict) else one) for one in found]


@workflow
def making(size: int) -> Any:
    return make_ref.bind(size)


@fiber
async def laden(size: int) -> list[int]:
    """Has much with it wherever it waits."""
    load = [bytes([number]) * size for number in range(3)]
    await enter.call("began")
    found = await gather(*[weighing(part) for part in load])
    child = await fork(weighing, load[0])
    return [*found, await join(child)]


@fiber
async def weighing(part: bytes) -> int:
    await enter.call(f"weighed {part[0]}")
    return len(part)


@fiber
async def holding_a_lock() -> str:
    lock = threading.Lock()
    doubled = await double.call(2)
    try:
        await enter.call("never")
    except NotPersistable as error:
        lock.acquire()
        found = str(error)
        del lock
        return await enter.call(f"{doubled}: {'lock' in found and 'common.py' in found}")
    return "never"


@task(can_rollback=True)
def total(numbers: list[int], more: int) -> int:
    return sum(numbers) + more


@fiber
async def doubling(number: int) -> int:
    await enter.call(f"number {number}")
    return await double.call(number)


@fiber
async def twice() -> str:
    once = enter.call("once")
    await once
    try:
        return await once
    except RuntimeError as error:
        return str(error)


counted: Variable[int] = Variable("counted", 0)


@task(writes=[counted])
def count(number: int) -> None:
    counted.update(lambda before: before + number)


@fiber
async def counting(numbers: list[int]) -> list[int]:
    seen = []
    for number in numbers:
        await count.call(number)
        seen.append(counted.get())
    return seen


@fiber
async def tidying() -> None:
    try:
        await call(wait_event("never"))
    finally:
        await enter.call("tidied")


@fiber
async def unlucky(path: str) -> str:
    await enter.call("tried")
    if not os.access(path, os.R_OK):
        raise Declined("luck", code=1)
    return "lucky"


@task(can_rollback=True)
def told(outcome: tuple[Any, Declined]) -> tuple[Any, int]:
    value, error = outcome
    return value, error.code
