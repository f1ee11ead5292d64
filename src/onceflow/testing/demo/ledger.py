"""The world outside: airline, hotel, bank and mail in one SQLite file, which onceflow does not know.

It does what outside systems with idempotency keys do: a second request with the same key changes nothing. And it
remembers every request, so that in the end every call can be proved.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

FILE = "ledger.db"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, trip TEXT, task TEXT, what TEXT, euros INT, taken_back INT);
CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, trip TEXT, task TEXT, key TEXT, undo INT, changed INT);
"""


class Entry(msgspec.Struct, frozen=True):
    """Something that happened outside."""

    key: str
    trip: str
    task: str
    what: str
    euros: int
    taken_back: bool
    asked: int
    """How often it was asked for."""


class Request(msgspec.Struct, frozen=True):
    """Something that was asked for: an effect, or to take it back."""

    number: int
    trip: str
    task: str
    key: str
    undo: bool
    changed: bool
    """Whether anything came of it. If not, it was a repetition, or there was nothing to take back."""


class Ledger:
    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / FILE

    def create(self) -> None:
        with self._opened() as database:
            database.executescript(_SCHEMA)

    def enter(self, trip: str, task: str, key: str, what: str, euros: int) -> None:
        """Let something happen, once per key. What was taken back does not come again under the same key."""
        with self._opened() as database:
            added = database.execute(
                "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, 0)", (key, trip, task, what, euros)
            )
            _note(database, trip, task, key, undo=False, changed=added.rowcount == 1)

    def take_back(self, trip: str, task: str, key: str) -> None:
        """Take back what happened under this key, if it did and is still there."""
        with self._opened() as database:
            gone = database.execute("UPDATE entries SET taken_back = 1 WHERE key = ? AND NOT taken_back", (key,))
            _note(database, trip, task, key, undo=True, changed=gone.rowcount == 1)

    def entries(self, trip: str) -> list[Entry]:
        with self._opened() as database:
            rows = database.execute(
                "SELECT key, trip, task, what, euros, taken_back,"
                " (SELECT count(*) FROM requests WHERE requests.key = entries.key AND NOT undo)"
                " FROM entries WHERE trip = ? ORDER BY rowid",
                (trip,),
            )
            return [
                Entry(key, trip, task, what, euros, bool(taken_back), asked)
                for key, trip, task, what, euros, taken_back, asked in rows
            ]

    def requests(self, trip: str, after: int = 0) -> list[Request]:
        """In the order in which they came, beginning after the one with that number."""
        with self._opened() as database:
            rows = database.execute(
                "SELECT number, trip, task, key, undo, changed FROM requests"
                " WHERE trip = ? AND number > ? ORDER BY number",
                (trip, after),
            )
            return [
                Request(number, trip, task, key, bool(undo), bool(changed))
                for number, trip, task, key, undo, changed in rows
            ]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        database = sqlite3.connect(self._path, timeout=10, isolation_level="IMMEDIATE")
        try:
            with database:
                yield database
        finally:
            database.close()


def _note(database: sqlite3.Connection, trip: str, task: str, key: str, *, undo: bool, changed: bool) -> None:
    database.execute(
        "INSERT INTO requests (trip, task, key, undo, changed) VALUES (?, ?, ?, ?, ?)", (trip, task, key, undo, changed)
    )
