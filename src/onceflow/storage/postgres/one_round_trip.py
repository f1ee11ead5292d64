"""A few statements, sent as they are and at once, in one round trip.

Almost every commit is one of the same few statements, whose parameters are columns of numbers, texts and bytes. psycopg
finds out anew each time what kind of values it is given, and how to wait for an answer: that takes longer than what the
server does. So these are written in PostgreSQL's binary form here, and handed to libpq, which psycopg wraps, without a
detour. Which type a parameter has is said in the statement (`%b::bigint[]`); one that does not say so for all of them
cannot be sent this way.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from onceflow.storage.postgres import connections

Statement = tuple[str, Sequence[Any]]

PARAMETER = re.compile(r"%b(?:::(\w+(?:\[\])?))?")

NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct("!i")
_NUMBER = struct.Struct("!q")
_REAL = struct.Struct("!d")
_HEADER = struct.Struct("!iiIii")
"""Dimensions, whether there are nulls, type of the items, their number, and the index of the first."""


@functools.cache
def types_of(statement: str) -> tuple[str, ...] | None:
    """Of its parameters; None if it does not say them all."""
    found = [match[1] for match in PARAMETER.finditer(statement)]
    return tuple(found) if all(name in _WRITTEN for name in found) else None


@functools.cache
def _numbered(statement: str) -> bytes:
    """The statement as libpq wants it, with `$1` for the first parameter."""
    count = iter(range(1, 1000))
    return PARAMETER.sub(lambda match: f"${next(count)}::{match[1]}", statement).encode()


class Swift:
    """For one connection, which no other thread uses meanwhile."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection.pgconn
        self._prepared: dict[str, bytes] = {}

    def commit(self, statements: Sequence[Statement]) -> None:
        """Carries them out as one transaction. Raises what psycopg raises, and then nothing has happened, unless the
        connection was lost."""
        sent = [(self._prepare(statement), _write(statement, given)) for statement, given in statements]
        if len(sent) == 1:
            name, values = sent[0]
            self._check(self._connection.exec_prepared(name, values, [1] * len(values)))
        else:
            self._send_all(sent)

    def _prepare(self, statement: str) -> bytes:
        name = self._prepared.get(statement)
        if name is None:
            name = b"swift_%d" % len(self._prepared)
            self._check(self._connection.prepare(name, _numbered(statement)))
            self._prepared[statement] = name
        return name

    def _send_all(self, sent: Sequence[tuple[bytes, list[bytes | None]]]) -> None:
        from psycopg.pq import ExecStatus

        connection = self._connection
        connection.enter_pipeline_mode()
        for name, values in sent:
            connection.send_query_prepared(name, values, [1] * len(values))
        connection.pipeline_sync()
        failure: Exception | None = None
        while True:
            result = connection.get_result()
            if result is None:  # the end of one of them, or of everything
                if self._is_broken():
                    break
            elif result.status == ExecStatus.PIPELINE_SYNC:
                connection.exit_pipeline_mode()
                break
            elif failure is None and result.status != ExecStatus.PIPELINE_ABORTED:
                try:
                    self._check(result)
                except connections.library().Error as error:
                    failure = error
        if failure is None and self._is_broken():
            failure = connections.library().OperationalError("the connection was lost")
        if failure is not None:
            raise failure

    def _is_broken(self) -> bool:
        from psycopg.pq import ConnStatus

        return bool(self._connection.status != ConnStatus.OK)

    def _check(self, result: Any) -> None:
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            if self._is_broken():
                raise connections.library().OperationalError(self._connection.get_error_message())
            raise error_from_result(result)


def _write(statement: str, given: Sequence[Any]) -> list[bytes | None]:
    types = types_of(statement)
    assert types is not None
    return [_WRITTEN[name](value) for name, value in zip(types, given, strict=True)]


def _number(value: int) -> bytes:
    return _NUMBER.pack(value)


def _real(value: float) -> bytes:
    return _REAL.pack(value)


def _text(value: str) -> bytes:
    if "\0" in value:
        raise ValueError("a text must not contain the character 0")
    return value.encode()


def _bytes(value: bytes) -> bytes:
    return value


def _array(type: int, write: Callable[[Any], bytes]) -> Callable[[Sequence[Any]], bytes]:
    def written(values: Sequence[Any]) -> bytes:
        if not values:
            return _HEADER.pack(0, 0, type, 0, 0)[:12]
        parts = [_HEADER.pack(1, int(None in values), type, len(values), 1)]
        for value in values:
            if value is None:
                parts.append(NULL)
            else:
                item = write(value)
                parts += (_LENGTH.pack(len(item)), item)
        return b"".join(parts)

    return written


_WRITTEN: dict[str | None, Callable[[Any], bytes]] = {
    "bigint": _number,
    "text": _text,
    "bigint[]": _array(20, _number),
    "float8[]": _array(701, _real),
    "text[]": _array(25, _text),
    "bytea[]": _array(17, _bytes),
}
"""The name of a type → how its values are written. The numbers are those of the types in every PostgreSQL."""
