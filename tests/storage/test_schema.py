"""Versions of the SQLite file, and the statements of many rows."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from onceflow.errors import StorageTooNew
from onceflow.storage import schema
from tests.storage.common import append, bodies, commit, create, quick

TODAY = len(schema.MIGRATIONS)
"""The version of the files that are written now."""


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE run ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'")


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return schema.version(connection)
    finally:
        connection.close()


def test_an_older_file_is_brought_up_to_date_and_keeps_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quick(tmp_path)
    commit(store, create("r"), append("r", b"1"))
    store.close()
    assert version_of(tmp_path / "journal.db") == TODAY

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    store = quick(tmp_path)

    assert bodies(store, "r") == [b"1"]
    assert commit(store, append("r", b"2")).ok
    store.close()
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert connection.execute("SELECT colour FROM run").fetchall() == [("grey",)]
    connection.close()
    assert version_of(tmp_path / "journal.db") == TODAY + 1


def test_several_that_open_an_older_file_at_once_migrate_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(tmp_path).close()
    migrated: list[int] = []

    def count(connection: sqlite3.Connection) -> None:
        migrated.append(1)
        add_column(connection)

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, count))
    threads = [threading.Thread(target=lambda: quick(tmp_path).close()) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert migrated == [1]
    assert version_of(tmp_path / "journal.db") == TODAY + 1


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = quick(tmp_path)
    commit(store, create("r"), append("r", b"1"))
    store.close()

    def fail(connection: sqlite3.Connection) -> None:
        add_column(connection)
        raise RuntimeError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
        with pytest.raises(RuntimeError, match="half-way"):
            quick(tmp_path)

    store = quick(tmp_path)
    assert bodies(store, "r") == [b"1"]
    store.close()
    assert version_of(tmp_path / "journal.db") == TODAY


def test_a_newer_file_is_refused_with_both_versions_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
        quick(tmp_path).close()

    with pytest.raises(StorageTooNew, match=rf"version {TODAY + 1}.* up to {TODAY}") as caught:
        quick(tmp_path)

    assert (caught.value.found, caught.value.known) == (TODAY + 1, TODAY)
    assert version_of(tmp_path / "journal.db") == TODAY + 1


@pytest.mark.parametrize("count", [0, 1, 2, 3, 511, 512, 513, 1_700])
def test_rows_are_cut_into_few_statements_of_known_sizes(count: int) -> None:
    pieces = list(schema.in_statements(range(count)))

    assert [row for piece in pieces for row in piece] == list(range(count))
    assert {len(piece) for piece in pieces} <= {2**power for power in range(10)}
    assert len(pieces) <= count // 512 + 9
