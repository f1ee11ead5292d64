"""What Python's module for SQLite is told of the types that the journal writes."""

from __future__ import annotations

import sqlite3

import pytest

import onceflow.storage.sqlite  # noqa: F401  # it tells them


@pytest.mark.parametrize("value", [b"", b"\x00bytes", None])
def test_what_is_written_is_given_back_as_it_is(value: bytes | None) -> None:
    adapt = sqlite3.adapters[type(value), sqlite3.PrepareProtocol]
    assert adapt(value) is value
