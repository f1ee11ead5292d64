"""A fiber in a transaction that lets a graph take ten seconds."""

from __future__ import annotations

from onceflow import fiber, task, transaction
from onceflow.fibers import call, timeout


class Late(Exception):
    pass


def take_back(key: str) -> None:
    pass


@task(rollback=take_back)
def book() -> str:
    return "room"


@task(can_rollback=True)
def look(room: str) -> str:
    return room


@task(can_rollback=True)
def stay() -> str:
    return look.bind(book.bind())  # type: ignore[return-value]


@fiber
async def hurrying() -> str:
    try:
        async with timeout(10):
            return await call(stay.bind())
    except TimeoutError:
        raise Late from None


@transaction
def trip() -> str:
    return hurrying.bind()  # type: ignore[return-value]
