"""The world outside: an SQLite file to which tasks write what they do, each line in a transaction of its own.

It is only ever appended to. What is there at some moment, and whether that is right, is worked out afterwards by the
judge; so the tasks have nothing to check, and nothing can be hidden by a check.

    begin, apply, return | raise          an attempt; `apply` is its effect. `inputs` are the values that it read,
                                          `token` names the value that it returns
    expand                                an attempt that returns a graph (`detail`: which one)
    undo begin, undo apply, undo return   the same for an undo
    overlap                               an attempt or undo of an undoable task found another one still going on
    outcome                               what an engine told its caller

A killed attempt has no last line. That it is dead when the next one begins is shown by a lock that undoable ones hold.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

LEDGER = "ledger.db"
LOCKS = "attempts"

_SCHEMA = """
CREATE TABLE log (
    id INTEGER PRIMARY KEY, at REAL, pid INTEGER, what TEXT, node TEXT, attempt TEXT, key TEXT,
    inputs TEXT, token TEXT, detail TEXT
);
CREATE TABLE bombs (node TEXT, stage TEXT, target TEXT);
CREATE TABLE facts (name TEXT);
"""

_local = threading.local()


class Line(msgspec.Struct, frozen=True):
    """A line of the log."""

    id: int
    at: float
    pid: int
    what: str
    node: str
    attempt: str
    key: str
    inputs: str
    token: str
    detail: str

    def __str__(self) -> str:
        told = [self.what, self.node, self.attempt, self.token, self.inputs, self.detail, f"key={self.key}"]
        return f"{self.at:.4f}  {self.pid:7}  {'  '.join(word for word in told if word)}"


def create(folder: Path) -> None:
    (folder / LOCKS).mkdir()
    with contextlib.closing(sqlite3.connect(folder / LEDGER)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(_SCHEMA)


class Ledger:
    """The ledger in a folder. Opened once in each thread of each process, and left open."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def write(
        self,
        what: str,
        node: str = "",
        attempt: str = "",
        key: str = "",
        *,
        inputs: object = None,
        token: str = "",
        detail: str = "",
    ) -> None:
        self._execute(
            "INSERT INTO log (at, pid, what, node, attempt, key, inputs, token, detail) VALUES (?,?,?,?,?,?,?,?,?)",
            time.time(),
            os.getpid(),
            what,
            node,
            attempt,
            key,
            "" if inputs is None else json.dumps(inputs),
            token,
            detail,
        )

    def count(self, what: str, node: str) -> int:
        found: int = self._execute("SELECT count(*) FROM log WHERE what = ? AND node = ?", what, node)[0][0]
        return found

    def plant(self, node: str, stage: str, target: str) -> None:
        """Have `target` killed when an attempt of this node comes to this stage for the first time."""
        self._execute("INSERT INTO bombs VALUES (?, ?, ?)", node, stage, target)

    def find_bomb(self, node: str, stage: str) -> str | None:
        """Whom to kill now. It is told once."""
        found = self._execute("DELETE FROM bombs WHERE node = ? AND stage = ? RETURNING target", node, stage)
        return found[0][0] if found else None

    def note(self, fact: str) -> None:
        self._execute("INSERT INTO facts VALUES (?)", fact)

    def knows(self, fact: str) -> bool:
        return bool(self._execute("SELECT 1 FROM facts WHERE name = ?", fact))

    def lines(self) -> list[Line]:
        return [Line(*row) for row in self._execute("SELECT * FROM log ORDER BY id")]

    @contextlib.contextmanager
    def alone(self, node: str, attempt: str) -> Iterator[None]:
        """Holds the node's lock. Writes an `overlap` if somebody else does."""
        descriptor = os.open(self._folder / LOCKS / node.replace("/", "!"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.write("overlap", node, attempt)
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Of this thread."""
        opened: dict[Path, sqlite3.Connection] = getattr(_local, "opened", {})
        database = opened.pop(self._folder, None)
        if database is not None:
            database.close()

    def _execute(self, statement: str, *values: object) -> list[Any]:
        opened: dict[Path, sqlite3.Connection] | None = getattr(_local, "opened", None)
        if opened is None:
            opened = _local.opened = {}
        database = opened.get(self._folder)
        if database is None:
            # Only processes are killed here, never the machine.
            database = sqlite3.connect(self._folder / LEDGER, timeout=60, isolation_level=None)
            database.execute("PRAGMA synchronous = OFF")
            opened[self._folder] = database
        return database.execute(statement, values).fetchall()
