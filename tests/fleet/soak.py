"""Fleets that are killed: engines that serve on two simulated hosts (homes of their own, one database), many runs, and
a ledger outside. Whenever an engine is killed, another one takes its place.

The ledger is a table in the same server, in a database of its own. An effect is inserted under its idempotency key, as
an outside system would do it: so a repeated attempt is no second effect, but one under another key is, unless the first
was taken back. Who runs a task writes down that it does so; if another process does the same while the first one still
lives, both of them ran at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import psycopg

from onceflow import Engine, current, task
from onceflow.runs import RunHandle
from onceflow.testing.servers.postgres import PostgresServer
from tests.storage.common import PROJECT

LEDGER = "ONCEFLOW_TEST_LEDGER"
"""The environment variable with the ledger's URL."""

TABLES = """
    CREATE TABLE effect (key text PRIMARY KEY, run text, node text, value integer, undone boolean DEFAULT false);
    CREATE TABLE busy (run text, node text, pid integer, PRIMARY KEY (run, node));
    CREATE TABLE overlap (run text, node text, pid integer, other integer);
"""

LENGTH = 4
"""Steps of a run."""


def _begin(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[str, str]:
    run, node, pid = current().run, current().task, os.getpid()
    found = connection.execute("SELECT pid FROM busy WHERE run = %s AND node = %s", (run, node)).fetchone()
    if found is not None and found[0] != pid and Path(f"/proc/{found[0]}").exists():
        connection.execute("INSERT INTO overlap VALUES (%s, %s, %s, %s)", (run, node, pid, found[0]))
    connection.execute(
        "INSERT INTO busy VALUES (%s, %s, %s) ON CONFLICT (run, node) DO UPDATE SET pid = excluded.pid",
        (run, node, pid),
    )
    return run, node


def _apply(value: int, seconds: float) -> int:
    with psycopg.connect(os.environ[LEDGER], autocommit=True) as connection:
        run, node = _begin(connection)
        time.sleep(seconds)  # so that some are killed before their effect, and some after it
        connection.execute(
            "INSERT INTO effect VALUES (%s, %s, %s, %s) ON CONFLICT (key) DO NOTHING",
            (current().key, run, node, value),
        )
        time.sleep(seconds)
        connection.execute("DELETE FROM busy WHERE run = %s AND node = %s", (run, node))
    return value + 1


@task
def irrevocable(value: int, seconds: float) -> int:
    return _apply(value, seconds)


def take_back(value: int, *, key: str) -> None:
    with psycopg.connect(os.environ[LEDGER], autocommit=True) as connection:
        connection.execute("UPDATE effect SET undone = true WHERE key = %s", (key,))


@task(rollback=take_back)
def undoable(value: int, seconds: float) -> int:
    return _apply(value, seconds)


class Serving:
    """One place of the fleet: a host, and the engine that serves there now."""

    def __init__(self, home: Path, journal: str, ledger: str, lease: float) -> None:
        self._environment = {
            **os.environ,
            "ONCEFLOW_HOME": str(home),
            "ONCEFLOW_JOURNAL": journal,
            "ONCEFLOW_LEASE": str(lease),
            "ONCEFLOW_WORKERS": "1",
            LEDGER: ledger,
        }
        self._log = home.with_suffix(".log").open("ab")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "onceflow", "serve", "--capacity", "3"],
            cwd=PROJECT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=self._log,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


def submit(engine: Engine, number: int, random: Random) -> RunHandle[int]:
    node: int = number * 100
    for _ in range(LENGTH):
        node = random.choice((irrevocable, undoable)).bind(node, random.random() * 0.05)
    return engine.submit(node, name=f"run-{number}")


def play(folder: Path, server: PostgresServer, *, kills: int, seed: int, lease: float) -> int:
    """Kills so many engines while runs go on, and now and then harms the server. Returns how many runs there were."""
    random = Random(seed)
    journal, ledger = server.create_database(), server.create_database()
    with psycopg.connect(ledger) as connection:
        connection.execute(TABLES)
    places = [Serving(folder / home, journal, ledger, lease) for home in ("one", "two", "two")]
    runs = 0
    handles: list[RunHandle[int]] = []
    try:
        with Engine(folder / "submitter", journal=journal, lease=lease, workers=1) as engine:
            for _ in range(kills):
                for _ in range(2):
                    handles.append(submit(engine, runs, random))
                    runs += 1
                time.sleep(random.random() * 2)
                random.choice(places).kill()
                if random.random() < 0.1:
                    server.cut_connections(journal)  # not to the ledger, which is somebody else's
            for number, handle in enumerate(handles):
                assert handle.result(600) == number * 100 + LENGTH
    finally:
        for place in places:
            place.close()
    judge(ledger, runs)
    return runs


def judge(ledger: str, runs: int) -> None:
    with psycopg.connect(ledger) as connection:
        overlaps = connection.execute("SELECT * FROM overlap").fetchall()
        found = connection.execute("SELECT run, node, value FROM effect WHERE NOT undone").fetchall()
    assert overlaps == [], "two processes ran the same task at once"
    assert len(found) == len({(run, node) for run, node, _ in found}), "an effect is there twice"
    assert len(found) == runs * LENGTH, "an effect is missing"
    by_run: dict[str, set[int]] = {}
    for run, _, value in found:
        by_run.setdefault(run, set()).add(value % 100)
    assert all(values == set(range(LENGTH)) for values in by_run.values())
