"""The workflow: a flight, a room, a payment, and mails.

    find_offer ──┬──▶ book_flight ──┬──▶ reserve ──▶ pay ──▶ send_tickets
                 ├──▶ book_room ────┤       ▲
                 ├──▶ total ────────┴───────┘
                 └──▶ send_greeting

Ann's card is good. Bob's is refused, so his trip fails for good, and all that can be taken back is.
"""

from __future__ import annotations

import random
import time

from onceflow import current, task, workflow
from onceflow.testing.demo import points
from onceflow.testing.demo.ledger import Ledger

PACE = 0.08
"""Seconds before and after each effect, so that one can watch."""

CITIES = {"ann": "Rome", "bob": "Oslo"}
LIMITS = {"ann": 2_000, "bob": 50}
"""Euros that the bank lends."""

EFFECTS = {
    "find_offer": "none",
    "total": "none",
    "book_flight": "undoable",
    "book_room": "undoable",
    "send_greeting": "irrevocable",
    "reserve": "undoable",
    "pay": "irrevocable",
    "send_tickets": "irrevocable",
}
"""Task → effect, in the order in which they are shown."""


class CardRefused(Exception):
    """The bank does not lend that much."""


def _happen(folder: str, user: str, what: str, euros: int) -> str:
    here = current()
    points.reach("before", here.task)
    time.sleep(PACE)
    Ledger(folder).enter(user, here.task, here.key, what, euros)
    points.reach("after", here.task)
    time.sleep(PACE)
    return what


def take_back(folder: str, user: str, *, key: str) -> None:
    """The rollback function of all undoable tasks: what was booked is found by its key, if it was booked."""
    here = current()
    points.reach("undoing", here.task)
    time.sleep(PACE)
    Ledger(folder).take_back(user, here.task, key)
    points.reach("undone", here.task)
    time.sleep(PACE)


@task(effect="none")
def find_offer(city: str) -> int:
    """Prices change all the time: another search would find another one."""
    time.sleep(PACE)
    return random.randint(100, 900)


@task.pure
def total(price: int) -> int:
    return 2 * price


@task(rollback=take_back)
def book_flight(folder: str, user: str, city: str, price: int) -> str:
    return _happen(folder, user, f"flight to {city}", price)


@task(rollback=take_back)
def book_room(folder: str, user: str, city: str, price: int) -> str:
    return _happen(folder, user, f"room in {city}", price)


@task
def send_greeting(folder: str, user: str, city: str, price: int) -> str:
    return _happen(folder, user, f"mail: we book {city}", price)


@task(rollback=take_back)
def reserve(folder: str, user: str, euros: int) -> str:
    if euros > LIMITS[user]:
        raise CardRefused(f"{user} cannot pay {euros} euros")
    return _happen(folder, user, f"{euros} euros reserved", euros // 2)


@task
def pay(folder: str, user: str, reserved: str, euros: int) -> str:
    return _happen(folder, user, f"{euros} euros paid", euros // 2)


@task
def send_tickets(folder: str, user: str, flight: str, room: str, receipt: str, price: int) -> str:
    _happen(folder, user, "mail: the tickets", price)
    return f"{flight}, {room}, {receipt}"


@workflow
def trip(folder: str, user: str, city: str) -> str:
    price = find_offer.bind(city)
    euros = total.bind(price)
    flight = book_flight.bind(folder, user, city, price)
    room = book_room.bind(folder, user, city, price)
    greeting = send_greeting.bind(folder, user, city, price)
    reserved = reserve.options(after=[flight, room, greeting]).bind(folder, user, euros)
    receipt = pay.bind(folder, user, reserved, euros)
    return send_tickets.bind(folder, user, flight, room, receipt, price)
