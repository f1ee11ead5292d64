"""A nightly batch: a fiber for each customer, four at a time, and a report when all of them are done.

    python examples/nightly_batch.py 2026-03-28 12

bills the customers of that night. `night` forks a fiber for each customer. A customer who cannot pay now is tried again
later, and one for whom everything fails does not disturb the others. Kill it in the midst of it and start it again: who
has paid, has paid once. The bank is bank.db, an SQLite file of which onceflow knows nothing.

A night is a run of its own, named by its date. `schedule` (see nightly_report.py) would start one each night.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing

from onceflow import current, fiber, run, sleep, task
from onceflow.fibers import Child, fork, join, on, spawn_limit

OUTSIDE = "bank.db"
AT_A_TIME = 4
"""Customers that are billed at a time."""
PATIENCE = (0.2, 0.4)
"""Seconds after which a card is tried again; days, in real life."""


class Declined(Exception):
    """There is no money on the account."""


@task.pure
def customers(night: str, count: int) -> list[str]:
    return [f"customer-{number}" for number in range(1, count + 1)]


@task.pure
def used(customer: str, night: str) -> int:
    """Cents. The source is made up: the same night has always cost the same."""
    return random.Random(f"{customer} {night}").randrange(100, 9_000)


@task
def charge(customer: str, cents: int, attempt: int) -> str:
    """Every third customer pays at the second attempt, and every tenth never; the line to the bank is bad."""
    number = int(customer.partition("-")[2])
    with closing(sqlite3.connect(OUTSIDE, timeout=30)) as bank, bank:
        bank.execute("CREATE TABLE IF NOT EXISTS payments (key PRIMARY KEY, customer, cents)")
        bank.execute("CREATE TABLE IF NOT EXISTS calls (key PRIMARY KEY)")
        calls = bank.execute("INSERT OR IGNORE INTO calls VALUES (?)", (current().key,)).rowcount
    if number % 5 == 0 and calls:
        raise ConnectionError("the bank hung up")
    if number % 10 == 0 or (number % 3 == 0 and attempt == 0):
        raise Declined(customer)
    with closing(sqlite3.connect(OUTSIDE, timeout=30)) as bank, bank:
        bank.execute("INSERT OR IGNORE INTO payments VALUES (?, ?, ?)", (current().key, customer, cents))
    return f"{customer} paid {cents / 100:.2f}"


@fiber
async def bill(customer: str, night: str) -> int:
    """What the customer has paid, in cents. Raises `Declined`."""
    cents = await used.call(customer, night)
    for attempt, pause in enumerate((*PATIENCE, None)):
        try:
            with on(ConnectionError).retry(5, delay=0.1):
                await charge.call(customer, cents, attempt)
            return cents
        except Declined:
            if pause is None:
                raise
            await sleep(pause)
    raise AssertionError("the last attempt returns or raises")


@fiber
async def night(date: str, count: int) -> str:
    children: dict[str, Child[int]] = {}
    with spawn_limit(AT_A_TIME):
        for customer in await customers.call(date, count):
            children[customer] = await fork(bill, customer, date)
    total, unpaid = 0, []
    for customer, child in children.items():
        try:
            total += await join(child)
        except Declined:
            unpaid.append(customer)
    return f"{date}: {count - len(unpaid)} of {count} paid {total / 100:.2f}; unpaid: {', '.join(unpaid) or 'nobody'}"


if __name__ == "__main__":
    date, count = sys.argv[1:] or ("2026-03-28", "12")
    print(run(night.bind(date, int(count)), name=f"night-{date}"))
