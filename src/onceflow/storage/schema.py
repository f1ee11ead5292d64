"""The tables of the SQLite journal, every statement on them, and how older files are brought up to date.

`entry.key` is the number of the run times 2³² plus the place in the run. So the entries of a run lie side by side in
the one tree of the table, in order, and a commit that appends to a run usually writes a single page.

Writing is done with statements of many rows: a transaction needs few statements, whatever it carries (see `rules`).
Statements are named here and nowhere else. Each is prepared once a connection, which keeps it by its text.
"""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from onceflow.errors import StorageDamaged, StorageTooNew
from onceflow.storage import checksums
from onceflow.storage.checksums import TAKEN
from onceflow.storage.statements import CHECKED_ENTRY, CHECKED_RUN, COLUMNS, OF_RUNS, STANDING, Statements

Migration = Callable[[sqlite3.Connection], None]
Row = TypeVar("Row")

PLACES = 2**32
"""The most entries a run can have."""

MOST_ROWS = 512
"""In one statement. Every power of two up to here is a statement of its own."""

TABLES = (
    """
    CREATE TABLE run (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT UNIQUE,
        workflow TEXT NOT NULL,
        status TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        owner TEXT,
        digest TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        metadata TEXT,
        due REAL,
        entries INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    )
    """,
    "CREATE INDEX run_status ON run (status)",
    """
    CREATE TABLE definition (
        number INTEGER PRIMARY KEY,
        graph BLOB NOT NULL,
        settings BLOB NOT NULL,
        checksum INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE entry (
        key INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        node TEXT NOT NULL,
        body BLOB NOT NULL,
        value BLOB,
        blob TEXT,
        checksum INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE command (
        number INTEGER PRIMARY KEY,
        run INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE event (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL,
        key TEXT NOT NULL,
        id TEXT NOT NULL,
        payload BLOB NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0,
        checksum INTEGER NOT NULL,
        UNIQUE (run, id)
    )
    """,
    "CREATE INDEX event_free ON event (run) WHERE NOT taken",
    *[
        f"""
    CREATE TABLE {table} (
        id TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        due REAL,
        definition BLOB NOT NULL,
        state BLOB NOT NULL,
        definition_checksum INTEGER NOT NULL,
        state_checksum INTEGER NOT NULL
    )
    """
        for table in STANDING
    ],
    "CREATE TABLE identity (id TEXT NOT NULL, checksum INTEGER NOT NULL)",
)
"""`run.entries` is how many entries there were when the row was written last: at least so many there are."""

GET_VERSION = "PRAGMA user_version"
SET_VERSION = "PRAGMA user_version"
GET_PROOF = "PRAGMA application_id"
SET_PROOF = "PRAGMA application_id"
"""A number that belongs to the version: so a version that is not what was written is distinct from another version."""
COUNT_TABLES = "SELECT count(*) FROM sqlite_master"
SET_WAL = "PRAGMA journal_mode = WAL"
SET_POWER = "PRAGMA synchronous = FULL"
SET_PROCESS = "PRAGMA synchronous = NORMAL"
NO_AUTOMATIC_CHECKPOINT = "PRAGMA wal_autocheckpoint = 0"

CHECK_CELLS = "PRAGMA cell_size_check = ON"
"""Has SQLite look at a page as a whole when it reads it."""

BEGIN_READING = "BEGIN"
BEGIN_WRITING = "BEGIN IMMEDIATE"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
DATA_VERSION = "PRAGMA data_version"
"""Changes when another connection has committed."""
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""A checkpoint after which the log has no bytes, unless there are readers."""

# One row with one text, because each row is another wait for the interpreter's lock.
LOOK_UP = f"""
    SELECT json_object(
        'last', (SELECT max(number) FROM run),
        'runs', (
            SELECT json_group_array(json_array(
                number,
                (SELECT max(key) FROM entry WHERE key >= number * {PLACES} AND key < (number + 1) * {PLACES}),
                {CHECKED_RUN}
            ))
            FROM run
            WHERE id IN (SELECT value FROM json_each(:ids)) OR name IN (SELECT value FROM json_each(:names))
        )
    )
"""

WRITE_RUNS = f"INSERT INTO run (number, {COLUMNS}, entries, checksum) VALUES "
OVER_OLD_RUNS = """
    ON CONFLICT (number) DO UPDATE SET
        status = excluded.status, epoch = excluded.epoch, owner = excluded.owner, updated = excluded.updated,
        due = excluded.due, entries = excluded.entries, checksum = excluded.checksum
"""
WRITE_DEFINITIONS = "INSERT INTO definition (number, graph, settings, checksum) VALUES "
WRITE_ENTRIES = "INSERT INTO entry (key, kind, node, body, value, blob, checksum) VALUES "
WRITE_COMMAND = "INSERT INTO command (run, kind, body, checksum) VALUES (?, ?, ?, ?)"
FORGET_COMMANDS = "DELETE FROM command WHERE run = ? AND number IN (SELECT value FROM json_each(?))"
DELETE_COMMANDS = "DELETE FROM command WHERE run = ?"
WRITE_EVENT = "INSERT OR IGNORE INTO event (run, key, id, payload, checksum) VALUES (?, ?, ?, ?, ?)"
MARK_EVENTS = f"""
    UPDATE event SET taken = :taken, checksum = checksum % {TAKEN} + :taken * {TAKEN}
    WHERE number IN (SELECT value FROM json_each(:numbers))
"""
DELETE_EVENTS = "DELETE FROM event WHERE run = ?"
RUNS_WITH_MAIL = """
    SELECT run.id, max(event.number) FROM event JOIN run ON run.number = event.run
    WHERE event.number > ? AND NOT taken AND owner = ? GROUP BY run.id
"""
DELETE_ENTRIES = "DELETE FROM entry WHERE key >= ? AND key < ?"
DELETE_DEFINITION = "DELETE FROM definition WHERE number = ?"
DELETE_RUN = "DELETE FROM run WHERE number = ?"

GET_RUN_BY_NUMBER = f"SELECT {CHECKED_RUN} FROM run WHERE number = ?"
REBUILD_INDEXES = "REINDEX run"
STATEMENTS = Statements(
    named=":{}",
    among="IN (SELECT value FROM json_each(:{}))",
    same="IS",
    newest="number DESC",
    oldest="number",
    of_run=f"key >= run.number * {PLACES} AND key < (run.number + 1) * {PLACES}",
    unaided=" NOT INDEXED",
)

FITS = """
    (:name IS NULL OR (name >= :name AND name < :end))
    AND (:workflow IS NULL OR workflow = :workflow)
    AND (:metadata IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) AS wanted WHERE NOT EXISTS (
            SELECT 1 FROM json_each(run.metadata) AS found
            WHERE found.key = wanted.key AND found.value IS wanted.value AND (
                found.type = wanted.type
                OR (found.type IN ('integer', 'real') AND wanted.type IN ('integer', 'real'))
            )
        )
    ))
    AND (:before IS NULL OR number < coalesce(
        (SELECT number FROM run WHERE id = :before), (SELECT max(number) + 1 FROM run WHERE id < :before), 0
    ))
"""
LIST_RUNS = f"SELECT {CHECKED_RUN} FROM run WHERE {FITS} ORDER BY number DESC LIMIT :limit"
LIST_RUNS_BY_STATUS = f"""
    SELECT {CHECKED_RUN} FROM run
    WHERE status IN (SELECT value FROM json_each(:statuses)) AND {FITS}
    ORDER BY number DESC LIMIT :limit
"""
LOAD_RUN = f"{OF_RUNS} WHERE id = ?"
LOAD_ENTRIES = f"SELECT key % {PLACES}, {CHECKED_ENTRY} FROM entry WHERE key >= ? AND key < ? ORDER BY key"
FIRST_ENTRIES = f"""
    SELECT entry.key / {PLACES}, entry.key % {PLACES}, {CHECKED_ENTRY} FROM json_each(:numbers) AS wanted
    JOIN entry ON entry.key >= wanted.value * {PLACES} AND entry.key < wanted.value * {PLACES} + :most
    ORDER BY entry.key
"""
LAST_KEY = "SELECT max(key) FROM entry WHERE key >= ? AND key < ?"
LAST_ENTRIES = f"""
    SELECT key % {PLACES}, {CHECKED_ENTRY} FROM entry
    WHERE key >= ? AND key <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY key
"""
VERSION_OF_STANDING = {table: f"SELECT version FROM {table} WHERE id = ?" for table in STANDING}
WRITE_STANDING = {
    table: f"""
    INSERT INTO {table} (id, version, due, definition, state, definition_checksum, state_checksum)
    VALUES (:id, :version, :due, :definition, :state, :definition_checksum, :state_checksum)
    ON CONFLICT (id) DO UPDATE SET
        version = excluded.version,
        due = excluded.due,
        definition = excluded.definition,
        state = excluded.state,
        definition_checksum = excluded.definition_checksum,
        state_checksum = excluded.state_checksum
    """
    for table in STANDING
}
ADVANCE_STANDING = {
    table: f"""
    UPDATE {table} SET version = :version, due = :due, state = :state, state_checksum = :state_checksum WHERE id = :id
    """
    for table in STANDING
}
DELETE_STANDING = {table: f"DELETE FROM {table} WHERE id = ?" for table in STANDING}
NUMBER_OF_LAST_RUN = "SELECT max(number) FROM run"

STRAY_ENTRIES = f"""
    SELECT key / {PLACES}, count(*) FROM entry WHERE key / {PLACES} NOT IN (SELECT number FROM run NOT INDEXED)
    GROUP BY key / {PLACES}
"""
INTEGRITY = "PRAGMA integrity_check(20)"
NAMED_BLOBS = "SELECT DISTINCT blob FROM entry WHERE key >= ? AND key < ? AND blob IS NOT NULL"


@functools.cache
def of_rows(statement: str, rows: int, columns: int, end: str = "") -> str:
    """The statement for this many rows."""
    row = f"({', '.join('?' * columns)})"
    return statement + ", ".join([row] * rows) + end


def in_statements(rows: Sequence[Row]) -> Sequence[Sequence[Row]]:
    """Cuts rows into as few pieces as there are statements for. No piece is longer than the one before it."""
    if len(rows) <= 1:
        return (rows,) if rows else ()
    pieces: list[Sequence[Row]] = []
    start, size = 0, MOST_ROWS
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        pieces.append(rows[start : start + size])
        start += size
    return pieces


def keys_of(number: int) -> tuple[int, int]:
    """The first key of a run, and the first one after it."""
    return number * PLACES, (number + 1) * PLACES


def create_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
    id = os.urandom(8).hex()
    connection.execute("INSERT INTO identity VALUES (?, ?)", (id, checksums.of_identity(id)))


MIGRATIONS: tuple[Migration, ...] = (create_tables,)
"""Number n makes version n + 1 out of version n. The last one makes today's. None of them is ever changed."""


def proof_of(version: int) -> int:
    """31 bits that belong to a version."""
    return checksums.of_parts("onceflow journal", version) >> 1


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute(GET_PROOF).fetchone() != (proof_of(version(connection)),):
        raise StorageDamaged(str(path), "the version number of the journal is not what was written")


def bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Runs the migrations that the file lacks, all or none. The caller holds the turn, so no other process does the
    same. Even where there is nothing to do it writes, and takes it back: SQLite is silent about a file that may only be
    read until the first write."""
    connection.execute(BEGIN_WRITING)
    try:
        found = _known_version(connection, path)
        if found == 0 and connection.execute(COUNT_TABLES).fetchone() != (0,):
            raise StorageDamaged(str(path), "it is a database, but not a journal of onceflow")
        for migrate in MIGRATIONS[found:]:
            migrate(connection)
        connection.execute(f"{SET_VERSION} = {len(MIGRATIONS)}")
        connection.execute(f"{SET_PROOF} = {proof_of(len(MIGRATIONS))}")
        connection.execute(COMMIT if found < len(MIGRATIONS) else ROLLBACK)
    except BaseException:
        if connection.in_transaction:
            connection.execute(ROLLBACK)
        raise


def is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether no migration is lacking. Raises `StorageTooNew`."""
    connection.execute(BEGIN_READING)  # version and proof are of the same moment
    found = _known_version(connection, path)
    connection.execute(COMMIT)
    return found == len(MIGRATIONS)


def _known_version(connection: sqlite3.Connection, path: Path) -> int:
    found = version(connection)
    if found or connection.execute(GET_PROOF).fetchone() != (0,):
        check_version(connection, path)
    if found > len(MIGRATIONS):
        raise StorageTooNew(str(path), found, len(MIGRATIONS))
    return found


def version(connection: sqlite3.Connection) -> int:
    found = connection.execute(GET_VERSION).fetchone()[0]
    assert isinstance(found, int)
    return found
