"""Values in PostgreSQL's binary form, as the server understands them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from onceflow.storage.postgres import connections, one_round_trip, schema
from onceflow.storage.postgres.one_round_trip import Swift

WRITE = "INSERT INTO kept SELECT * FROM unnest(%b::bigint[], %b::text[], %b::bytea[], %b::float8[])"
FAIL = "INSERT INTO kept (number) SELECT 1 / n FROM unnest(%b::bigint[]) AS n"


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connections.connect(postgres_url) as made:
        made.execute("CREATE TABLE public.kept (number bigint, name text, body bytea, share float8)")
        made.execute("SET search_path = public")
        yield made


def kept(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT * FROM kept ORDER BY number").fetchall()


def test_what_is_written_is_read(connection: psycopg.Connection[Any]) -> None:
    rows = [(-(2**63), "é→", b"\0\xff", 0.5), (0, "", b"", -1e300), (2**63 - 1, None, None, None)]

    Swift(connection).commit([(WRITE, [list(column) for column in zip(*rows, strict=True)])])

    assert kept(connection) == rows


def test_several_statements_are_one_transaction(connection: psycopg.Connection[Any]) -> None:
    fast = Swift(connection)
    one = (WRITE, [[1], ["a"], [b"x"], [1.0]])

    fast.commit([one, (WRITE, [[], [], [], []]), one])
    assert len(kept(connection)) == 2
    with pytest.raises(psycopg.errors.DivisionByZero):
        fast.commit([one, (FAIL, [[0]]), one])

    assert len(kept(connection)) == 2
    fast.commit([one])
    assert len(kept(connection)) == 3


def test_a_text_that_postgres_cannot_hold_is_refused_before_it_is_sent(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(ValueError, match="character 0"):
        Swift(connection).commit([(WRITE, [[1], ["a\0b"], [b""], [1.0]])])


def test_the_frequent_statements_say_the_types_of_their_parameters() -> None:
    frequent = (schema.ENTER, schema.CREATE_RUNS, schema.WRITE_DEFINITIONS, schema.CHANGE_RUNS)

    assert [one_round_trip.types_of(statement) for statement in frequent].count(None) == 0
    assert one_round_trip.types_of(schema.FORGET_COMMANDS) is None
