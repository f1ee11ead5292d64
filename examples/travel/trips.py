"""Trips: a hotel and a flight, both or neither.

    begin ──┬──▶ acquire hotel ───▶ reserve hotel ──┬──▶ finish
            └──▶ acquire flight ──▶ reserve flight ─┘

- `begin` makes up the number of a transaction. Nobody sees it, but it is another one each time, so it is saved.
- `acquire` locks a row, unless somebody else has it. It can be taken back (`release`). Whether it succeeds is a matter
  of luck, so that is saved, too.
- `reserve` looks whether there is room and makes a note of that. While the row is locked nobody can change what it
  sees, or see what it writes: it is deterministic and has no effect. It need not be saved, and, what matters more, it
  need not wait until the outcome of `acquire` is saved. Both happen at the same time. But if a crash takes its outcome,
  it runs again, perhaps when `finish` has happened already. So it goes by the note, which outlives the lock.
- `finish` commits or aborts. That cannot be taken back, so it waits until everything above it is saved.

`VARIANTS` has the same trip in the ways one would write it before: one after the other, side by side, and with locks
apart from reservations but without saying what `reserve` is. `bench/run travel` measures them.
"""

from __future__ import annotations

import uuid

from onceflow import task, workflow
from travel.luck import PATIENT, unlucky
from travel.world import database, lock, note


@task(effect="none", retry=PATIENT)
@unlucky
def begin() -> str:
    return uuid.uuid4().hex


def release(txn: str, item: str) -> None:
    with database() as db:
        db.execute("DELETE FROM note WHERE item = %s AND txn = %s", (item, txn))
        db.execute("DELETE FROM lock WHERE item = %s AND txn = %s", (item, txn))


@task(rollback=release, retry=PATIENT)
@unlucky
def acquire(txn: str, item: str) -> bool:
    with database() as db:
        return lock(db, txn, item)


@task(deterministic=True, effect="none", checkpoint=False, retry=PATIENT)
@unlucky
def reserve(txn: str, item: str, locked: bool) -> bool:
    with database() as db:
        return locked and note(db, txn, item)


@task(retry=PATIENT)
@unlucky
def finish(txn: str, customer: str, hotel: str, flight: str, has_hotel: bool, has_flight: bool) -> bool:
    """Whether the trip is ordered. It happens once for a transaction, however often it is called."""
    with database() as db:
        committed = has_hotel and has_flight
        first = db.execute(
            "INSERT INTO txn VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING id", (txn, committed)
        ).fetchone()
        if first is not None:
            if committed:
                db.execute("UPDATE item SET capacity = capacity - 1 WHERE id IN (%s, %s)", (hotel, flight))
                db.execute("INSERT INTO trip VALUES (%s, %s, %s, %s)", (txn, customer, hotel, flight))
            db.execute("DELETE FROM lock WHERE txn = %s", (txn,))
    return committed


@workflow
def trip(customer: str, hotel: str, flight: str) -> bool:
    txn = begin.bind()
    has_hotel = reserve.bind(txn, hotel, acquire.bind(txn, hotel))
    has_flight = reserve.bind(txn, flight, acquire.bind(txn, flight))
    return finish.bind(txn, customer, hotel, flight, has_hotel, has_flight)


# -- the same, as one would have written it before ---------------------------------------------------------------------


@task(rollback=release, retry=PATIENT)
@unlucky
def take(txn: str, item: str) -> bool:
    """Locks, then reserves."""
    with database() as db:
        locked = lock(db, txn, item)
    with database() as db:
        return locked and note(db, txn, item)


@workflow
def serial_trip(customer: str, hotel: str, flight: str) -> bool:
    txn = begin.bind()
    has_hotel = take.bind(txn, hotel)
    has_flight = take.options(after=[has_hotel]).bind(txn, flight)
    return finish.bind(txn, customer, hotel, flight, has_hotel, has_flight)


@workflow
def parallel_trip(customer: str, hotel: str, flight: str) -> bool:
    txn = begin.bind()
    return finish.bind(txn, customer, hotel, flight, take.bind(txn, hotel), take.bind(txn, flight))


@task(retry=PATIENT)
@unlucky
def reserve_cautiously(txn: str, item: str, locked: bool) -> bool:
    """Says nothing of what it does. So it counts as irrevocable: what it reads is saved before it starts, and what it
    returns before anything else goes on."""
    with database() as db:
        return locked and note(db, txn, item)


@workflow
def synchronous_trip(customer: str, hotel: str, flight: str) -> bool:
    txn = begin.bind()
    has_hotel = reserve_cautiously.bind(txn, hotel, acquire.bind(txn, hotel))
    has_flight = reserve_cautiously.bind(txn, flight, acquire.bind(txn, flight))
    return finish.bind(txn, customer, hotel, flight, has_hotel, has_flight)


VARIANTS = {"serial": serial_trip, "parallel": parallel_trip, "synchronous": synchronous_trip, "overlapped": trip}
