"""Engines of a fleet are killed again and again: no effect is lost or doubled, and nothing runs twice at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow.testing.servers.postgres import PostgresServer
from tests.fleet import soak
from tests.fleet.common import LEASE


def test_a_fleet_survives_some_kills(tmp_path: Path, postgres_server: PostgresServer) -> None:
    assert soak.play(tmp_path, postgres_server, kills=4, seed=1, lease=LEASE) == 8


@pytest.mark.soak
def test_a_fleet_survives_two_hundred_kills(tmp_path: Path) -> None:
    with PostgresServer() as server:
        assert soak.play(tmp_path, server, kills=200, seed=2, lease=LEASE) == 400
