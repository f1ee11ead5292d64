"""Order fulfilment as a saga: stock, payment and carrier, and what was done is taken back if one of them says no.

    python examples/order_saga.py order 7 ann book      reserves, charges, ships, and waits for the parcel to arrive
    python examples/order_saga.py delivered 7           the carrier says so, perhaps two weeks later
    python examples/order_saga.py order 8 bob book      his card is refused: the book is back on its shelf
    python examples/order_saga.py order 9 ann piano     no carrier takes it: the money and the piano go back

The whole story is one function, `fulfil`. While a parcel is on its way nothing is held for it but a row in the journal;
look at it with `onceflow show order-7`. Kill the program whenever you like and start it again with the same words: it
goes on. The world outside is shop.db, an SQLite file of which onceflow knows nothing.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from onceflow import current, fiber, resume, run_async, send_event, task, wait_event
from onceflow.fibers import on
from onceflow.runs import RunHandle
from onceflow.tasks import Task

OUTSIDE = "shop.db"
PRICES = {"book": 12, "tea": 4, "piano": 4_000}
CREDIT = {"bob": 10}
"""Euros; everybody else has more than enough."""
HEAVIEST = {"bike courier": 4, "parcel service": 12}
"""Euros that a carrier insures."""
TWO_WEEKS = 14 * 86_400


class Refused(Exception):
    """Somebody does not want to do business with us."""


@dataclass(frozen=True)
class Order:
    number: int
    customer: str
    item: str

    @property
    def euros(self) -> int:
        return PRICES[self.item]


# -- the world outside -------------------------------------------------------------------------------------------------
# Warehouses, banks and carriers take an idempotency key with a request: two requests with one key are one.


def book(what: str) -> None:
    with closing(sqlite3.connect(OUTSIDE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS books (key PRIMARY KEY, what)")
        database.execute("INSERT OR IGNORE INTO books VALUES (?, ?)", (current().key, what))


# -- the steps, and what takes them back -------------------------------------------------------------------------------


@task
def reserve(order: Order) -> None:
    book(f"{order.number}: {order.item} reserved")


@task
def release(order: Order) -> None:
    book(f"{order.number}: {order.item} back on its shelf")


@task
def charge(order: Order) -> None:
    if order.euros > CREDIT.get(order.customer, 1_000_000):
        raise Refused(f"the bank of {order.customer}")
    book(f"{order.number}: {order.euros} euros from {order.customer}")


@task
def refund(order: Order) -> None:
    book(f"{order.number}: {order.euros} euros back to {order.customer}")


@task
def hand_over(order: Order, carrier: str) -> str:
    if order.euros > HEAVIEST[carrier]:
        raise Refused(carrier)
    book(f"{order.number}: {order.item} given to the {carrier}")
    return carrier


@task
def write_to(order: Order, text: str) -> str:
    book(f"{order.number}: letter to {order.customer}: {text}")
    return text


# -- the story ---------------------------------------------------------------------------------------------------------


@fiber
async def shipped(order: Order) -> str:
    """The first carrier that takes it."""
    for carrier in HEAVIEST:
        try:
            return await hand_over.call(order, carrier)
        except Refused:
            continue
    raise Refused("every carrier")


@fiber
async def fulfil(order: Order) -> str:
    taken_back_by: list[Task[[Order], None]] = []
    try:
        with on(ConnectionError).retry(5):
            await reserve.call(order)
            taken_back_by.append(release)
            await charge.call(order)
            taken_back_by.append(refund)
            carrier = await shipped(order)
    except Refused as refusal:
        for take_back in reversed(taken_back_by):
            await take_back.call(order)
        return await write_to.call(order, f"sorry, no {order.item}: {refusal} said no")
    arrived = await wait_event("delivered", str, timeout=TWO_WEEKS, default="")
    if not arrived:
        await refund.call(order)
        return await write_to.call(order, f"the {carrier} has lost your {order.item}, here is your money")
    return await write_to.call(order, f"enjoy your {order.item}, which {arrived} has taken")


def begin(order: Order) -> str:
    """Starts an order, or joins it. Returns when it has ended, or waits for its parcel."""
    handle: RunHandle[Any] = run_async(fulfil.bind(order), name=f"order-{order.number}")
    for event in handle:
        if event.kind == "status" and event.detail == "waiting":
            return f"order {order.number} is on its way"
    return str(handle.result())


if __name__ == "__main__":
    match sys.argv[1:] or ["order", "7", "ann", "book"]:
        case ["order", number, customer, item]:
            print(begin(Order(int(number), customer, item)))
        case ["delivered", number]:
            send_event(f"order-{number}", "delivered", "a neighbour", id=f"delivered-{number}")
            print(resume(f"order-{number}"))
        case _:
            print(__doc__)
