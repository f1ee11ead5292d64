"""Journals of each kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onceflow.storage.journal import Journal
from onceflow.storage.memory import MemoryJournal
from onceflow.storage.postgres.journal import PostgresJournal
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import Opening


def opener(kind: str, request: pytest.FixtureRequest) -> Opening:
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")

        def open_postgres(*, clock: Callable[[], float] = time.time) -> Journal:
            return PostgresJournal(url, clock=clock)

        return open_postgres
    if kind == "sqlite":
        path: Path = request.getfixturevalue("tmp_path")

        def open_sqlite(*, clock: Callable[[], float] = time.time) -> Journal:
            return SqliteJournal(path / "journal.db", durability="process", clock=clock)

        return open_sqlite
    return lambda *, clock=time.time: MemoryJournal(clock)


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def opening(request: pytest.FixtureRequest) -> Opening:
    return opener(request.param, request)


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest) -> Opening:
    return opener(request.param, request)
