"""Book a trip: a flight, a room and a payment, of which a traveller wants all or none.

    python examples/trip_booking.py ann Rome
    python examples/trip_booking.py bob Oslo      # his card is refused: what was booked is taken back

    find_offer ──┬──▶ book_flight ─────────────────┬──▶ pay ──▶ send_tickets
                 ├──▶ book_room ───────────────────┤
                 └──▶ total ──▶ reserve_payment ───┘

Everything before `pay` can be taken back. `pay` cannot, so it comes as late as it can: nothing that might fail is left
after it, except to send the tickets.

Kill it whenever you like and start it again: it goes on. Start it again after its end: it gives the same answer, and
nothing is booked twice. The world outside is bookings.db, an SQLite file of which onceflow knows nothing.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass

from onceflow import RetryPolicy, TaskFailed, current, run, task, workflow

OUTSIDE = "bookings.db"
CREDIT = {"bob": 50}
"""Euros; everybody else has more than enough."""


class CardRefused(Exception):
    """The bank does not lend that much."""


@dataclass(frozen=True)
class Offer:
    flight: str
    room: str
    euros: int


# -- the world outside -------------------------------------------------------------------------------------------------
# Airlines, hotels and banks take an idempotency key with a request: two requests with one key are one.


def book(key: str, what: str) -> str:
    with closing(sqlite3.connect(OUTSIDE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS bookings (key PRIMARY KEY, what)")
        database.execute("INSERT OR IGNORE INTO bookings VALUES (?, ?)", (key, what))
    return what


def cancel(key: str) -> None:
    with closing(sqlite3.connect(OUTSIDE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS bookings (key PRIMARY KEY, what)")
        database.execute("DELETE FROM bookings WHERE key = ?", (key,))


# -- the tasks ---------------------------------------------------------------------------------------------------------


# Nobody outside can see a search, so it has no effect. But prices change: the next search may find another offer, so it
# is not deterministic, and it is saved.
@task(effect="none", retry=RetryPolicy(5, on=(ConnectionError, TimeoutError)))
def find_offer(city: str) -> Offer:
    return Offer(f"flight to {city}", f"room in {city}", random.randint(100, 300))


# Plain arithmetic. If the sum is lost, it is made again.
@task.pure
def total(offer: Offer) -> int:
    return 2 * offer.euros


# Takes back whatever was booked under this key. It may be called twice, and also when there is nothing to take back:
# an attempt that was killed may or may not have booked.
def cancel_booking(*, key: str) -> None:
    cancel(key)


@task(rollback=cancel_booking, retry=3)
def book_flight(user: str, offer: Offer) -> str:
    return book(current().key, f"{offer.flight} for {user}")


@task(rollback=cancel_booking, retry=3)
def book_room(user: str, offer: Offer) -> str:
    return book(current().key, f"{offer.room} for {user}")


# A card is refused here, while everything can still be taken back.
@task(rollback=cancel_booking)
def reserve_payment(user: str, euros: int) -> str:
    if euros > CREDIT.get(user, euros):
        raise CardRefused(f"{user} cannot pay {euros} euros")
    return book(current().key, f"{euros} euros of {user} reserved")


# The default: saved, and irrevocable. It may be repeated after a crash, with the same inputs and the same key.
@task(retry=10)
def pay(user: str, euros: int, reservation: str, flight: str, room: str) -> str:
    book(current().key, f"{euros} euros of {user} paid")
    return f"{flight}, {room}"


@task(retry=10)
def send_tickets(user: str, tickets: str) -> str:
    return book(current().key, f"sent to {user}: {tickets}")


@workflow
def trip(user: str, city: str) -> str:
    offer = find_offer.bind(city)
    euros = total.bind(offer)
    flight = book_flight.bind(user, offer)
    room = book_room.bind(user, offer)
    reservation = reserve_payment.bind(user, euros)
    return send_tickets.bind(user, pay.bind(user, euros, reservation, flight, room))


def main(user: str, city: str) -> int:
    try:
        # The name is an idempotency key: the same trip of the same user is booked once, however often this is started.
        print(run(trip.bind(user, city), name=f"trip-{user}-{city}", on_failure="undo"))
    except TaskFailed as failure:
        print(f"no trip: {failure.__cause__}")
        print("everything was taken back" if failure.undone else f"still there: {', '.join(failure.kept)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]) if len(sys.argv) > 2 else main("ann", "Rome"))
