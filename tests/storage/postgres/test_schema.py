"""Versions of the tables in PostgreSQL."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from onceflow.errors import StorageTooNew
from onceflow.storage.postgres import schema
from onceflow.storage.postgres.journal import PostgresJournal
from tests.storage.common import append, bodies, commit, create

TODAY = len(schema.MIGRATIONS)
"""The version of what is written now."""


def add_column(connection: Any) -> None:
    connection.execute("ALTER TABLE run ADD COLUMN colour text NOT NULL DEFAULT 'grey'")


def ask(url: str, question: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
        return None if row is None else row[0]


def test_older_tables_are_brought_up_to_date_and_keep_their_runs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresJournal(postgres_url)
    commit(store, create("r"), append("r", b"1"))
    store.close()
    assert ask(postgres_url, "SELECT number FROM onceflow.version") == TODAY

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    store = PostgresJournal(postgres_url)

    assert bodies(store, "r") == [b"1"]
    assert commit(store, append("r", b"2")).ok
    assert ask(postgres_url, "SELECT colour FROM onceflow.run") == "grey"
    assert ask(postgres_url, "SELECT number FROM onceflow.version") == TODAY + 1
    store.close()


def test_several_that_open_an_empty_database_at_once_make_the_tables_once(postgres_url: str) -> None:
    failures: list[BaseException] = []

    def open_and_write(run: str) -> None:
        try:
            store = PostgresJournal(postgres_url)
            assert commit(store, create(run)).ok
            store.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_write, args=(f"r{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert ask(postgres_url, "SELECT count(*) FROM onceflow.run") == 6


def test_a_migration_that_fails_leaves_everything_as_it_was(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PostgresJournal(postgres_url).close()

    def fail(connection: Any) -> None:
        add_column(connection)
        raise RuntimeError("half-way")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
        with pytest.raises(RuntimeError, match="half-way"):
            PostgresJournal(postgres_url)

    assert ask(postgres_url, "SELECT number FROM onceflow.version") == TODAY
    store = PostgresJournal(postgres_url)
    assert commit(store, create("r")).ok
    store.close()


def test_newer_tables_are_refused_with_both_versions(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
        PostgresJournal(postgres_url).close()

    with pytest.raises(StorageTooNew, match=rf"version {TODAY + 1}.* up to {TODAY}"):
        PostgresJournal(postgres_url)
