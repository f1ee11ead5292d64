"""Chaos with the journal in a PostgreSQL database: engines are killed, connections cut, and the server crashes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest

from onceflow.testing.servers.postgres import PostgresServer
from tests.tools.chaos.iteration import play
from tests.tools.chaos.lives import Nursery

FEW = 6
MANY = 200


class Trouble:
    """Cuts the connections of a server every now and then, and restarts it, until the end of its context."""

    def __init__(self, server: PostgresServer, seed: int) -> None:
        self._server = server
        self._random = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._harm, daemon=True)
        self.done = 0

    def __enter__(self) -> Trouble:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _harm(self) -> None:
        while not self._over.wait(self._random.random() * 1.5):
            if self._random.random() < 0.3:
                self._server.stop(self._random.choice(("fast", "crash")))
                self._server.start()
            else:
                self._server.cut_connections()
            self.done += 1


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made


@pytest.fixture(scope="module")
def nursery(server: PostgresServer) -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCEFLOW_JOURNAL", server.url)
        patch.setenv("ONCEFLOW_LEASE", "600")  # all of them share a home, and know of each other by their locks
        with Nursery() as made:
            yield made


def start_afresh(server: PostgresServer) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS onceflow CASCADE")


@pytest.mark.parametrize("seed", range(FEW))
def test_every_effect_happens_once(seed: int, server: PostgresServer, nursery: Nursery, tmp_path: Path) -> None:
    start_afresh(server)
    play(seed, nursery, tmp_path, connected=True)


@pytest.mark.parametrize("seed", range(FEW, 2 * FEW))
def test_every_effect_happens_once_whatever_happens_to_the_server(
    seed: int, server: PostgresServer, nursery: Nursery, tmp_path: Path
) -> None:
    start_afresh(server)
    with Trouble(server, seed):
        play(seed, nursery, tmp_path, connected=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 100 + MANY))
def test_that_holds_in_many_iterations(seed: int, server: PostgresServer, nursery: Nursery, tmp_path: Path) -> None:
    start_afresh(server)
    with Trouble(server, seed):
        play(seed, nursery, tmp_path, connected=True)
