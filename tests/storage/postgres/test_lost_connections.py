"""A connection to PostgreSQL may be lost at any moment: nothing is lost with it, and nothing happens twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from onceflow.errors import StorageError
from onceflow.storage.journal import DeleteRun, Failed, ForgetCommands, SendCommand
from onceflow.storage.postgres import connections, schema
from onceflow.storage.postgres.journal import PostgresJournal
from onceflow.storage.postgres.presence import Member
from onceflow.storage.postgres.writer import PostgresWriter
from onceflow.testing.servers.postgres import PostgresServer
from tests.storage.common import append, bodies, commit, create

LONG = 600.0
"""Seconds of a lease that outlasts whatever a busy machine does to a server."""


@pytest.fixture
def journal(postgres_url: str) -> Iterator[PostgresJournal]:
    store = PostgresJournal(postgres_url, Member("engine", seconds=LONG))
    yield store
    store.close()


def end_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def writer_of(journal: PostgresJournal) -> PostgresWriter:
    return journal._writer


def test_writing_and_reading_go_on_after_all_connections_were_cut(journal: PostgresJournal) -> None:
    commit(journal, create("r"), append("r", b"1"))

    end_connections(journal.url)

    assert bodies(journal, "r") == [b"1"]
    assert commit(journal, append("r", b"2")).ok
    assert commit(journal, create("s"), SendCommand("r", "cancel")).ok
    assert bodies(journal, "r") == [b"1", b"2"]


def test_a_run_that_is_being_read_is_read_to_its_end(journal: PostgresJournal) -> None:
    commit(journal, create("r"), append("r", *[b"%d" % number for number in range(1_000)]))

    with journal.load("r") as loaded:
        first = next(loaded.entries)
        end_connections(journal.url)
        rest = list(loaded.entries)

    assert [entry.body for entry in [first, *rest]] == [b"%d" % number for number in range(1_000)]


class Breaking:
    """Makes the connection of a writer fail once, before or after the server has carried a transaction out."""

    def __init__(self, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal = journal
        self.monkeypatch = monkeypatch

    def at(self, when: str) -> None:
        writer = writer_of(self.journal)
        connection, swift = writer._connection, writer._swift
        assert connection is not None
        assert swift is not None
        commit = swift.commit

        def commit_and_break(statements: Any) -> None:
            if when == "after":
                commit(statements)
            connection.close()
            raise psycopg.OperationalError("the network is gone")

        self.monkeypatch.setattr(swift, "commit", commit_and_break)


@pytest.fixture
def breaking(journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch) -> Breaking:
    return Breaking(journal, monkeypatch)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost_happens_once(journal: PostgresJournal, breaking: Breaking, when: str) -> None:
    """An entry that was written twice would have two places."""
    commit(journal, create("r"), append("r", b"1"))

    breaking.at(when)

    assert commit(journal, append("r", b"2")).ok
    assert commit(journal, append("r", b"3")).ok
    assert bodies(journal, "r") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_whose_creation_got_no_answer_is_created_once(
    journal: PostgresJournal, breaking: Breaking, when: str
) -> None:
    """Had it been tried again blindly, its own name would have been taken."""
    commit(journal, create("r"))
    before = journal.statistics().commits

    breaking.at(when)

    assert commit(journal, create("s", "monday"), append("s", b"1")).ok
    assert commit(journal, append("s", b"2")).ok
    assert bodies(journal, "s") == [b"1", b"2"]
    assert journal.statistics().commits == before + 2


def test_a_transaction_that_hangs_in_the_server_is_waited_for_or_ended(journal: PostgresJournal) -> None:
    """Given a transaction of ours that has written and not yet committed, when its connection is lost and the writer
    asks what became of it, then the answer holds: it can not be committed afterwards."""
    commit(journal, create("r"), append("r", b"1"))
    writer = writer_of(journal)
    with connections.connect(journal.url, application_name=writer._title) as late:
        late.execute("BEGIN")
        late.execute("UPDATE engine SET sequence = 999 WHERE id = %s", (writer._engine,))
        assert writer._connection is not None
        writer._connection.close()

        last = writer._find_out()

        assert last == writer._sequence
        with pytest.raises(psycopg.OperationalError):
            late.execute("COMMIT")
    assert commit(journal, append("r", b"2")).ok


def test_a_writer_of_an_older_generation_is_refused(journal: PostgresJournal) -> None:
    """What was sent before the connection was lost may arrive afterwards."""
    commit(journal, create("r"))
    writer = writer_of(journal)
    late = b"SELECT enter(%s, %s, 99, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')"
    generation = writer._generation
    writer._find_out()

    with connections.connect(journal.url) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(late, (writer._engine, generation))

    assert caught.value.sqlstate == schema.GONE


@pytest.mark.parametrize("ending", ["fast", "crash"])
def test_a_server_that_restarts_costs_time_only(ending: Any) -> None:
    with PostgresServer() as server:
        journal = PostgresJournal(server.url, Member("engine", seconds=LONG))
        commit(journal, create("r"), append("r", b"1"))
        answers: list[bool] = []

        server.stop(ending)
        for number in range(2, 12):
            journal.submit([append("r", b"%d" % number)], lambda outcome: answers.append(outcome.ok))
        server.start()

        assert commit(journal, append("r", b"12")).ok
        assert answers == [True] * 10
        assert bodies(journal, "r") == [b"%d" % number for number in range(1, 13)]
        journal.close()


def test_a_server_that_stays_away_fails_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    with PostgresServer() as server:
        journal = PostgresJournal(server.url)
        commit(journal, create("r"))
        monkeypatch.setattr(connections, "PATIENCE", 0.0)
        told: list[object] = []
        journal.when_failed(told.append)
        server.stop()

        first, second = commit(journal, append("r", b"1")), commit(journal, append("r", b"2"))

        assert isinstance(first.refusal, Failed)
        assert first.results == second.results, "it writes nothing more until it is opened anew"
        assert told == [first.refusal.error]
        journal.close()


def test_what_can_never_be_opened_is_told_at_once_and_without_the_password(postgres_server: PostgresServer) -> None:
    with pytest.raises(StorageError, match="does not exist") as caught:
        PostgresJournal(postgres_server.url.replace("/postgres", "/nowhere"))

    password = postgres_server.url.split(":")[2].split("@")[0]
    assert password not in str(caught.value)
    with pytest.raises(StorageError, match="authentication failed"):
        PostgresJournal(postgres_server.url.replace(password, "guess"))


def test_rare_requests_survive_as_well(journal: PostgresJournal) -> None:
    """They take another way than the frequent ones."""
    commit(journal, create("r", owner="me"))
    writer = writer_of(journal)
    assert writer._connection is not None
    writer._connection.close()

    assert commit(journal, SendCommand("r", "x"), DeleteRun("r", 1)).ok
    assert journal.get_run("r") is None
    assert commit(journal, create("r", owner="me"), SendCommand("r", "y")).ok
    (command,) = journal.commands("me")
    end_connections(journal.url)
    assert commit(journal, ForgetCommands("r", (command.number,))).ok
    assert journal.commands("me") == []
