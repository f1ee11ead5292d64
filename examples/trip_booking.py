"""Book a trip: a flight, a room and a payment, of which a traveller wants all or none.

    python examples/trip_booking.py

    find_offer ──┬──▶ book_flight ─────────────────┬──▶ pay ──▶ send_tickets
                 ├──▶ book_room ───────────────────┤
                 └──▶ total ──▶ reserve_payment ───┘

Everything before `pay` can be taken back. `pay` cannot, so it comes as late as it can: nothing that might fail is left
after it, except to send the tickets.

This program builds the graph, checks it and shows its plan. It does not run it: this release of onceflow has no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from plan import plan

from onceflow import Retry, UnsafeGraph, check, task, workflow


@dataclass(frozen=True)
class Offer:
    flight: str
    room: str
    flight_cents: int
    room_cents: int


# Nobody outside can see a search, so it has no effect. But prices change: the next search may find another offer, so it
# is not deterministic, and it is saved.
@task(can_rollback=True, retry=Retry(5, on=(ConnectionError, TimeoutError)))
def find_offer(city: str) -> Offer:
    return Offer(f"flight to {city}", f"room in {city}", 12_000, 9_000)


# Plain arithmetic. If the sum is lost, it is made again.
@task.pure
def total(offer: Offer) -> int:
    return offer.flight_cents + offer.room_cents


# The functions that take an effect back. Each may be called twice, and also when there is nothing to take back:
# `output` is None if the booking did not finish, and then `key` is all there is to find it by.
def cancel_flight(*, output: str | None, key: str) -> None:
    print(f"airline: cancel {output or 'whatever was booked'} under {key}")


def cancel_room(*, output: str | None, key: str) -> None:
    print(f"hotel: cancel {output or 'whatever was booked'} under {key}")


def release_payment(*, output: str | None, key: str) -> None:
    print(f"bank: release {output or 'whatever was reserved'} under {key}")


@task(rollback=cancel_flight, retry=3)
def book_flight(user: str, offer: Offer) -> str:
    return f"{offer.flight} for {user}"


@task(rollback=cancel_room, retry=3)
def book_room(user: str, offer: Offer) -> str:
    return f"{offer.room} for {user}"


# A card is refused here, while everything can still be taken back.
@task(rollback=release_payment)
def reserve_payment(user: str, cents: int) -> str:
    return f"{cents} cents of {user}"


# The default: saved, and irrevocable. It may be repeated after a crash with the same inputs, so the bank must take two
# requests to collect one reservation for one.
@task(retry=10)
def pay(reservation: str, flight: str, room: str) -> str:
    return f"paid {reservation} for {flight} and {room}"


@task(retry=10)
def send_tickets(user: str, receipt: str) -> str:
    return f"to {user}: {receipt}"


@workflow
def trip(user: str, city: str, save_offer: bool = True) -> str:
    offer = find_offer.options(checkpoint=save_offer).bind(city)
    flight = book_flight.bind(user, offer)
    room = book_room.bind(user, offer)
    reservation = reserve_payment.bind(user, total.bind(offer))
    receipt = pay.bind(reservation, flight, room)
    return send_tickets.bind(user, receipt)


def main() -> None:
    booking = trip.bind("ann", "Rome")
    check(booking)
    print("The trip is safe. Its plan:\n")
    print(plan(booking))

    print("\nIf the offer were not saved, the check would refuse the trip:\n")
    try:
        check(trip.bind("ann", "Rome", save_offer=False))
    except UnsafeGraph as unsafe:
        print(unsafe)


if __name__ == "__main__":
    main()
