"""What the tests of the kit share: a trip, and the world it happens in."""

from __future__ import annotations

from onceflow import RetryPolicy, task, workflow
from onceflow.testing import Ledger

world = Ledger()


class Declined(Exception):
    pass


@task.pure
def quote(city: str) -> int:
    return 100 * len(city)


def cancel_room(city: str, *, key: str) -> None:
    world.take_back(key)


@task(rollback=cancel_room)
def book_room(city: str) -> str:
    world.enter(f"room in {city}")
    return f"room in {city}"


@task(retry=RetryPolicy(3, delay=10, jitter=0))
def charge(cents: int, room: str) -> str:
    world.enter(f"{cents} cents")
    return f"{room} for {cents}"


@task(can_rollback=True)
def check_card(room: str, declined: bool) -> str:
    if declined:
        raise Declined("no money")
    return room


@workflow
def trip(city: str, declined: bool = False) -> str:
    room = check_card.bind(book_room.bind(city), declined)
    return charge.bind(quote.bind(city), room)


ROME = "room in Rome for 400"
