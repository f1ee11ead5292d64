"""Fibers that join others, for test_joining."""

from __future__ import annotations

from typing import Any

from onceflow import current, fiber, send_event, sleep, task, transaction, wait_event
from onceflow.fibers import Child, fork, join, on, spawn_limit, timeout
from tests.fibers.common import enter, world

closed = False
"""Whether a shop is: then nobody gets through."""
booked = 0
tickets: list[str] = []
"""Those with which something has failed."""


def give_back(*, key: str) -> None:
    world.take_back(key)


@task(rollback=give_back)
def book() -> str:
    """Another number each time."""
    global booked
    booked += 1
    world.enter(f"room {booked}")
    return f"room {booked}"


@task(rollback=give_back)
def issue(room: str) -> str:
    world.enter(f"ticket for {room}")
    return f"ticket for {room}"


def get_through(what: str) -> str:
    if closed:
        raise ConnectionError("closed")
    return what


@fiber
async def booking() -> str:
    return await book.call()


@fiber
async def trip() -> str:
    child = await fork(booking)
    ticket = await issue.call(await join(child))
    await sleep(1)
    return get_through(ticket)


@fiber
async def forgotten_trip() -> str:
    """Nobody joins the child, and the end waits for it all the same."""
    await fork(booking)
    return "done"


@fiber
async def forgetful() -> str:
    return get_through(await forgotten_trip.call())


@fiber
async def paid_trip() -> str:
    """What is paid for cannot be taken back."""
    child = await fork(booking)
    paid = await enter.call(f"paid for {await join(child)}")
    return get_through(paid)


@fiber
async def failing_joiner(child: Child[str]) -> str:
    raise LookupError(await join(child))


@fiber
async def caught_trip() -> str:
    """What a fiber raises comes of what it has joined."""
    child = await fork(booking)
    try:
        return await failing_joiner.call(child)
    except LookupError as error:
        return get_through(str(error))


@task(can_rollback=True)
def fail_once(ticket: str) -> str:
    if not tickets:
        tickets.append(ticket)
        raise ConnectionError("no line")
    return ticket


@fiber
async def shaky_ticket(child: Child[str]) -> str:
    return await fail_once.call(await issue.call(await join(child)))


@transaction
def whole_ticket(child: Child[str]) -> str:
    return shaky_ticket.bind(child)


@fiber
async def retried_trip() -> str:
    child = await fork(booking)
    with on(ConnectionError).retry(3):
        return await whole_ticket.call(child)


@fiber
async def repeated_trip() -> str:
    child = await fork(booking)
    try:
        return await whole_ticket.call(child)
    except ConnectionError:
        return await whole_ticket.call(child)


@fiber
async def forking_trip() -> str:
    room = await book.call()
    child = await fork(booking)
    return room + await join(child)


@transaction
def whole_trip() -> str:
    return forking_trip.bind()


class Left(Exception):
    def __init__(self, child: Child[str]) -> None:
        super().__init__("left")
        self.child = child


@fiber
async def waiting(seconds: float) -> str:
    await sleep(seconds)
    await enter.call(f"waited {seconds}")
    return f"waited {seconds}"


@fiber
async def leaving() -> None:
    raise Left(await fork(waiting, 60))


@fiber
async def left_behind() -> str:
    try:
        await leaving.call()
    except Left as error:
        child = error.child
    try:
        return await join(child)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@fiber
async def giving() -> Child[str]:
    return await fork(waiting, 1)


@fiber
async def joining(child: Child[str]) -> str:
    return await join(child)


@task
def tell(run: str, child: Child[str]) -> None:
    send_event(run, "you are", child)


@fiber
async def joining_itself() -> str:
    return await joining.call(await wait_event("you are", Child))


@fiber
async def circle() -> str:
    child: Child[str] = await fork(joining_itself)
    await tell.call(current().run, child)
    return await join(child)


@task(can_rollback=True)
def fail() -> None:
    raise ConnectionError("no line")


@fiber
async def breaking(first: str | None) -> None:
    """Ends, and its child with it; perhaps in its second segment."""
    await fork(waiting, 60)
    if first is not None:
        await enter.call(first)
    with on(ConnectionError).break_():
        await fail.call()


@fiber
async def calling_what_breaks(first: str | None) -> Any:
    return await breaking.call(first), "went on"


@fiber
async def forking_what_breaks(first: str | None) -> Any:
    return await join(await fork(breaking, first)), "went on"


@fiber
async def without_room() -> list[Any]:
    seen: list[Any] = []
    with spawn_limit(1):
        child = await fork(waiting, 1000)
        try:
            async with timeout(10):
                await fork(waiting, 1)
        except TimeoutError:
            seen.append("no room")
    return [*seen, await join(child)]


@fiber
async def outliving() -> str:
    async with timeout(10):
        child = await fork(waiting, 60)
    return await join(child)


@fiber
async def parent() -> str:
    return await join(await fork(waiting, 60))


@fiber
async def called_in_time() -> str:
    try:
        async with timeout(10):
            return await parent.call()
    except TimeoutError:
        return "too late"
