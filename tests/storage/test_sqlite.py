"""The journal in a SQLite file: what is written is what is read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from onceflow.errors import StorageDamaged
from onceflow.storage.fair_lock import Turns
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, commit, create, quick


def test_the_log_does_not_grow_without_end(tmp_path: Path) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    for _ in range(200):
        commit(store, append("r", bytes(64 * 1024)))

    # After about 4 MiB the log starts again from its beginning; 13 MB were written.
    assert (tmp_path / "journal.db-wal").stat().st_size < 8 * 2**20
    store.close()


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageDamaged):
        quick(tmp_path)
    assert path.read_bytes() == b"not a database at all" * 100

    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StorageDamaged, match="not a journal"):
        quick(tmp_path)


@pytest.mark.parametrize(("durability", "synchronous"), [("power", 2), ("process", 1)])
def test_durability_decides_when_the_log_is_synced(
    tmp_path: Path, durability: str, synchronous: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceflow.storage import sqlite

    connections: list[sqlite3.Connection] = []
    original = sqlite.connect
    monkeypatch.setattr(sqlite, "connect", lambda path: connections.append(original(path)) or connections[-1])

    store = SqliteJournal(tmp_path / "journal.db", durability=durability)  # type: ignore[arg-type]

    assert connections[0].execute("PRAGMA synchronous").fetchone() == (synchronous,)
    assert connections[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_nothing_is_committed_at_once_while_another_process_has_the_turn(tmp_path: Path) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    turns = Turns(tmp_path / "journal.db")
    with turns.take(limit=1):
        assert store.commit_at_once([append("r", b"1")]) is None
    assert store.commit_at_once([append("r", b"2")]) is not None
    turns.close()
    store.close()
    assert store.commit_at_once([append("r", b"3")]) is None


def test_the_log_does_not_grow_without_end_when_all_is_committed_at_once(tmp_path: Path) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    for _ in range(3_000):
        if store.commit_at_once([append("r", b"x" * 2_000)]) is None:
            commit(store, append("r", b"x" * 2_000))
    assert (tmp_path / "journal.db-wal").stat().st_size < 8 * 2**20
    store.close()
