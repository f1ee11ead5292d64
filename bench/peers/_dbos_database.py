"""DBOS with its system database in SQLite, in the current folder.

The file is switched to a write-ahead log first, as onceflow's is: DBOS keeps SQLite's default, a rollback journal, with
which it took about three times as long in a short test. Both sync with every commit.
"""

from __future__ import annotations

import contextlib
import sqlite3

from dbos import DBOS

FILE = "dbos.sqlite"


def configure() -> None:
    with contextlib.closing(sqlite3.connect(FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{FILE}",
            "application_version": "bench",
            "log_level": "ERROR",
        }
    )
