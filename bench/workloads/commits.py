"""How fast the journal commits, beside a plain loop over `sqlite3` that writes the same to the same disk.

A single commit is a batch with one entry of 1 KB, submitted and waited for before the next: what a saved step costs.
Grouped commits carry 100 entries. The plain loop has one connection, a prepared statement, no thread, no epochs and no
other process to take turns with. Rounds alternate, because the speed of a disk changes from second to second; the
ratio of medians is what to look at. Both sync with every commit (`synchronous=FULL`). The same without syncs shows
what the journal adds of its own.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.rows import Row
from onceflow.storage import journal
from onceflow.storage.journal import AppendEntries, CreateRun, Durability, Entry
from onceflow.storage.sqlite import SqliteJournal

ROUNDS = 7
SINGLE = 150
"""Commits in a round."""
GROUPS = 20
GROUP = 100
"""Entries in a commit."""
BATCHES = 2_000
"""Submitted at once, for the journal to group."""

VALUE = os.urandom(1_000)
MOST_SLOWER = 2.0
"""How many times slower than the plain loop a single commit may be."""


class Plain:
    """What somebody would write who needs no journal."""

    INSERT = "INSERT INTO entry (kind, node, body, value) VALUES (?, ?, ?, ?)"

    def __init__(self, path: Path, durability: Durability) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        self._connection.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, kind TEXT, node TEXT, body, value)")

    def commit(self, entries: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self.INSERT, [("saved", "node", b"", VALUE)] * entries)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Ours:
    def __init__(self, path: Path, durability: Durability) -> None:
        self._journal = SqliteJournal(path, durability=durability)
        journal.commit(self._journal, [CreateRun("run", None, "bench", "", b"", b"")])

    def commit(self, entries: int) -> None:
        batch = [AppendEntries("run", 1, [Entry("saved", "node", b"", VALUE) for _ in range(entries)])]
        assert journal.commit(self._journal, batch).ok

    def commit_batches(self, batches: int) -> None:
        """One entry each, submitted without waiting."""
        over = threading.Event()
        for _ in range(batches - 1):
            self._journal.submit([AppendEntries("run", 1, [Entry("saved", "node", b"", VALUE)])], _ignore)
        self._journal.submit([AppendEntries("run", 1, [])], lambda _: over.set())
        over.wait()

    def close(self) -> None:
        self._journal.close()


def _ignore(_: journal.Outcome) -> None:
    pass


def _seconds(work: Callable[[int], None], size: int, times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        work(size)
    return (time.perf_counter() - started) / times


def _medians(folder: Path, durability: Durability) -> dict[str, float]:
    """Seconds a commit."""
    plain = Plain(folder / f"plain-{durability}.db", durability)
    ours = Ours(folder / f"journal-{durability}.db", durability)
    measured: dict[str, list[float]] = {name: [] for name in ("plain", "ours", "plain group", "our group", "batches")}
    for _ in range(ROUNDS):
        measured["plain"].append(_seconds(plain.commit, 1, SINGLE))
        measured["ours"].append(_seconds(ours.commit, 1, SINGLE))
        measured["plain group"].append(_seconds(plain.commit, GROUP, GROUPS))
        measured["our group"].append(_seconds(ours.commit, GROUP, GROUPS))
        measured["batches"].append(_seconds(ours.commit_batches, BATCHES, 1))
    plain.close()
    ours.close()
    return {name: statistics.median(seconds) for name, seconds in measured.items()}


def measure() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        synced, unsynced = _medians(Path(folder), "power"), _medians(Path(folder), "process")
    ratio = synced["ours"] / synced["plain"]
    rows += [
        Row("single commits of 1 KB", 1 / synced["ours"], "commits/s"),
        Row("single commits of 1 KB: plain sqlite3", 1 / synced["plain"], "commits/s"),
        Row("single commits: ours against plain", ratio, "×", f"≤ {MOST_SLOWER:g}", ratio <= MOST_SLOWER),
        Row(f"commits of {GROUP} entries", GROUP / synced["our group"], "entries/s"),
        Row(f"commits of {GROUP} entries: plain sqlite3", GROUP / synced["plain group"], "entries/s"),
        Row(f"commits of {GROUP} entries: ours against plain", synced["our group"] / synced["plain group"], "×"),
        Row(f"{BATCHES:,} batches submitted at once", BATCHES / synced["batches"], "batches/s"),
        Row("single commits without syncs", unsynced["ours"] * 1e6, "µs"),
        Row("single commits without syncs: plain sqlite3", unsynced["plain"] * 1e6, "µs"),
    ]
    return rows
