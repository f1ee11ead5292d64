"""Workflows for the tests of the command: they are found by name, as a user's are."""

from __future__ import annotations

import datetime
import logging
import sys
import time
from pathlib import Path
from typing import Any

from onceflow import current, fiber, for_each, task, wait_event, workflow


@task.pure
def price(city: str) -> int:
    return 100 * len(city)


@task
def pay(user: str, euros: int) -> str:
    print("paying for", user)
    return f"{user} paid {euros}"


@workflow
def trip(user: str, city: str = "Rome") -> str:
    return pay.bind(user, price.bind(city))


@task
def need(path: str) -> str:
    """Fails as long as there is no such file."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}\nis missing")
    return "found"


@task
def after(before: str) -> str:
    return before + " and done"


@workflow
def needy(path: str) -> str:
    return after.bind(need.bind(path))


def unbook(*, key: str) -> None:
    pass


@task(rollback=unbook)
def book() -> str:
    return current().key


@workflow
def saga(path: str) -> str:
    return after.bind(careful.options(after=[book.bind()]).bind(path))


@task(can_rollback=True)
def careful(path: str) -> str:
    return need(path)


@task
def hold(path: str) -> str:
    """Says that it is there, and waits until it may go."""
    Path(path + ".here").touch()
    while not Path(path).exists():
        time.sleep(0.01)
    return "held"


@task
def noisy(path: str) -> str:
    print("before")
    held = hold(path)
    print("after")
    return held


@task
def chat(count: int) -> None:
    for number in range(count):
        print(number)
    logging.getLogger("shop").warning("careful")
    print("on stderr", file=sys.stderr)


@workflow
def held(path: str) -> str:
    return after.bind(hold.bind(path))


@task
def typed(day: datetime.date, number: int | str, rows: list[int] | None = None) -> list[Any]:
    return [day, number, rows]


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


@task
def odd() -> dict[Any, Any]:
    return {(1, 2): Odd()}


@task
def nothing() -> None:
    return None


@task
def large() -> bytes:
    return bytes(200_000)


@task(checkpoint=False)
def draw() -> int:
    return 4


@task
def announce(number: int) -> str:
    return str(number)


@workflow
def lottery() -> str:
    return announce.bind(draw.bind())


@workflow
def broken(user: str) -> str:
    raise RuntimeError(f"no graph\nfor {user}")


NUMBER = 4


@task
def walk(path: str) -> str:
    """The same, and tells how far it is."""
    current().progress(7, 20, "miles")
    print("on my way")
    return hold(path)


@workflow
def walked(path: str) -> str:
    return after.bind(walk.bind(path))


@workflow
def answered() -> str:
    return after.bind(wait_event("answer", str, timeout=60, default="nothing"))


@workflow
def approved() -> str:
    return after.bind(wait_event("approval", str))


@workflow
def prices(count: int) -> list[int]:
    return for_each(price, ["Rome"] * count, chunk=1)


@fiber
async def stay(city: str, nights: int) -> str:
    return await pay.call("ann", nights * await price.call(city))
