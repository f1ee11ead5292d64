"""The world outside: a database of hotels, flights and customers, of which onceflow knows nothing.

Transactions are by two-phase locking. The locks are rows, not the database's own, because a trip goes through several
processes, any of which may die.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

Database = psycopg.Connection[Any]

CITIES = ("Athens", "Cairo", "Lima", "Oslo", "Rome", "Tokyo")
HOTELS = FLIGHTS = 40
"""In each city, and to each city."""
CAPACITY = 5
CUSTOMERS = 50

DATABASE = "TRAVEL_DATABASE"
"""The variable with the URL of the database. Workers have the environment of the engine. So the password in it is
neither an argument, which would be saved, nor in the code."""

DISTANCE = "TRAVEL_DISTANCE"
"""The variable that says how many seconds away the database is, if it is to be further than it is."""

SCHEMA = """
    CREATE TABLE IF NOT EXISTS item (
        id text PRIMARY KEY, kind text NOT NULL, city text NOT NULL,
        price int NOT NULL, rating int NOT NULL, distance int NOT NULL,
        capacity int NOT NULL CHECK (capacity >= 0)
    );
    CREATE TABLE IF NOT EXISTS customer (name text PRIMARY KEY, password text NOT NULL);
    CREATE TABLE IF NOT EXISTS lock (item text PRIMARY KEY, txn text NOT NULL);
    CREATE TABLE IF NOT EXISTS note (txn text, item text, room bool NOT NULL, PRIMARY KEY (txn, item));
    CREATE TABLE IF NOT EXISTS txn (id text PRIMARY KEY, committed bool NOT NULL);
    CREATE TABLE IF NOT EXISTS trip (
        txn text PRIMARY KEY, customer text NOT NULL, hotel text NOT NULL, flight text NOT NULL
    )
"""

_connection: Database | None = None
"""One for each process: a worker runs one task after the other."""


@contextmanager
def database() -> Iterator[Database]:
    """A transaction."""
    global _connection
    time.sleep(float(os.environ.get(DISTANCE, "0")))
    if _connection is None or _connection.closed:
        _connection = psycopg.connect(os.environ[DATABASE], autocommit=True)
    with _connection.transaction():
        yield _connection


def close() -> None:
    """The connection of this process."""
    global _connection
    if _connection is not None:
        _connection.close()
        _connection = None


def create() -> None:
    """The tables, if they are not there, with hotels, flights and customers."""
    chance = random.Random(1)
    with database() as db:
        db.execute(SCHEMA)
        for kind, count in (("hotel", HOTELS), ("flight", FLIGHTS)):
            for city in CITIES:
                rows = [
                    (f"{kind} {number} {city}", kind, city, *(chance.randint(1, 500) for _ in range(3)), CAPACITY)
                    for number in range(count)
                ]
                db.cursor().executemany(
                    "INSERT INTO item VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", rows
                )
        customers = [(f"customer {number}", hashed(f"password {number}")) for number in range(CUSTOMERS)]
        db.cursor().executemany("INSERT INTO customer VALUES (%s, %s) ON CONFLICT DO NOTHING", customers)


def hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def problems() -> list[str]:
    """What is wrong with the books; nothing, if all is well."""
    found = []
    with database() as db:
        wrong = db.execute(
            """
            SELECT id, %s - capacity, count(trip.txn) FROM item LEFT JOIN trip ON id IN (hotel, flight)
            GROUP BY id, capacity HAVING %s - capacity <> count(trip.txn)
            """,
            (CAPACITY, CAPACITY),
        ).fetchall()
        found += [f"{item}: {taken} places are taken, {ordered} ordered" for item, taken, ordered in wrong]
        unordered = db.execute(
            "SELECT id FROM txn FULL JOIN trip ON txn = id WHERE committed IS DISTINCT FROM (txn IS NOT NULL)"
        )
        found += [f"transaction {txn} has committed without an order, or ordered without" for (txn,) in unordered]
        found += [f"{item} is locked by {txn}" for item, txn in db.execute("SELECT item, txn FROM lock")]
    return found


def lock(db: Database, txn: str, item: str) -> bool:
    """Whether the transaction has the lock. It does not wait for it: so nobody ever waits for each other."""
    row = db.execute(
        """
        INSERT INTO lock (item, txn) VALUES (%s, %s)
        ON CONFLICT (item) DO UPDATE SET txn = lock.txn WHERE lock.txn = excluded.txn RETURNING txn
        """,
        (item, txn),
    ).fetchone()
    return row is not None


def note(db: Database, txn: str, item: str) -> bool:
    """Whether there was room when the transaction first looked, which it does while it has the lock. The note of that
    stays: the answer is the same whenever one asks, also after the end of the transaction."""
    db.execute(
        """
        INSERT INTO note SELECT txn, id, capacity > 0 FROM item JOIN lock ON item = id WHERE item = %s AND txn = %s
        ON CONFLICT DO NOTHING
        """,
        (item, txn),
    )
    row = db.execute("SELECT room FROM note WHERE item = %s AND txn = %s", (item, txn)).fetchone()
    return row is not None and bool(row[0])
