"""The tables of the SQLite journal, every statement on them, and how older files are brought up to date.

`entry.key` is the number of the run times 2³² plus the place in the run. So the entries of a run lie side by side in
the one tree of the table, in order, and a commit that appends to a run usually writes a single page.

Writing is done with statements of many rows: a transaction needs few statements, whatever it carries (see `rules`).
Statements are named here and nowhere else. Each is prepared once a connection, which keeps it by its text.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from onceflow.errors import StorageDamaged, StorageTooNew
from onceflow.storage import checksums
from onceflow.storage.checksums import TAKEN
from onceflow.storage.journal import Entry, Table

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
        updated REAL NOT NULL
    )
    """,
    "CREATE INDEX run_status ON run (status)",
    "CREATE TABLE definition (number INTEGER PRIMARY KEY, graph BLOB NOT NULL, settings BLOB NOT NULL)",
    """
    CREATE TABLE entry (
        key INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        node TEXT NOT NULL,
        body BLOB NOT NULL,
        value BLOB,
        blob TEXT
    )
    """,
)

COMMANDS = (
    "CREATE TABLE command (number INTEGER PRIMARY KEY, run INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL)"
)

EVENTS = (
    """
    CREATE TABLE event (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL,
        key TEXT NOT NULL,
        id TEXT NOT NULL,
        payload BLOB NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0,
        UNIQUE (run, id)
    )
    """,
    "CREATE INDEX event_free ON event (run) WHERE NOT taken",
    "ALTER TABLE run ADD COLUMN due REAL",
)

METADATA = "ALTER TABLE run ADD COLUMN metadata TEXT"

SCHEDULES = """
    CREATE TABLE schedule (
        id TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        due REAL,
        definition BLOB NOT NULL,
        state BLOB NOT NULL
    )
"""

IDENTITY = (
    "CREATE TABLE identity (id TEXT NOT NULL)",
    "INSERT INTO identity VALUES (lower(hex(randomblob(8))))",
)

CHECKSUMS = (
    "ALTER TABLE run ADD COLUMN entries INTEGER NOT NULL DEFAULT 0",
    *[
        f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0"
        for table in ("run", "definition", "entry", "command", "event", "identity")
    ],
    *[
        f"ALTER TABLE {table} ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0"
        for table in ("schedule", "queue")
        for column in ("definition_checksum", "state_checksum")
    ],
)
"""`run.entries` is how many entries there were when the row was written last: at least so many there are."""

COLUMNS = "id, name, workflow, status, epoch, owner, digest, created, updated, metadata, due"
CHECKED_RUN = "run.checksum, run.number, run.entries, " + COLUMNS
CHECKED_ENTRY = "entry.checksum, kind, node, body, entry.value, blob"
"""As `checksums` takes them."""

GET_VERSION = "PRAGMA user_version"
SET_VERSION = "PRAGMA user_version"
GET_PROOF = "PRAGMA application_id"
SET_PROOF = "PRAGMA application_id"
"""A number that belongs to the version: so a version that is not what was written is told from another version."""
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
"""A checkpoint after which the log has no bytes, unless somebody reads."""

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
MAILBOX = """
    SELECT event.number, run.id, key, payload, event.id, event.checksum FROM run JOIN event ON event.run = run.number
    WHERE run.id = ? AND key = ? AND NOT taken ORDER BY event.number
"""
RUNS_WITH_MAIL = """
    SELECT run.id, max(event.number) FROM event JOIN run ON run.number = event.run
    WHERE event.number > ? AND NOT taken AND owner = ? GROUP BY run.id
"""
DELETE_ENTRIES = "DELETE FROM entry WHERE key >= ? AND key < ?"
DELETE_DEFINITION = "DELETE FROM definition WHERE number = ?"
DELETE_RUN = "DELETE FROM run WHERE number = ?"

GET_IDENTITY = "SELECT id, checksum FROM identity"
GET_RUN = f"SELECT {CHECKED_RUN} FROM run WHERE id = ?"
GET_RUN_BY_NUMBER = f"SELECT {CHECKED_RUN} FROM run WHERE number = ?"
REBUILD_INDEXES = "REINDEX run"
FIND_NAME = f"SELECT {CHECKED_RUN} FROM run WHERE name = ?"
FIND_RUNS = f"""
    SELECT id, {CHECKED_RUN} FROM run WHERE id IN (SELECT value FROM json_each(:runs))
    UNION ALL
    SELECT name, {CHECKED_RUN} FROM run WHERE name IN (SELECT value FROM json_each(:runs))
"""
FIND_PREFIX = f"SELECT {CHECKED_RUN} FROM run WHERE id >= :prefix AND id < :end ORDER BY number DESC LIMIT :limit"
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
LAST_RUNS = f"""
    SELECT {CHECKED_RUN} FROM run
    WHERE number > (SELECT max(number) FROM run) - :among
        AND status IN (SELECT value FROM json_each(:statuses)) AND (:workflow IS NULL OR workflow = :workflow)
    ORDER BY number DESC LIMIT :limit
"""
OWNERS = """
    SELECT owner, count(*) FROM run WHERE status IN (SELECT value FROM json_each(:statuses)) GROUP BY owner
"""
OWNED = f"""
    SELECT {CHECKED_RUN} FROM run WHERE status IN (SELECT value FROM json_each(:statuses)) AND owner IS :owner
        AND (due IS NOT NULL) = :parked
    ORDER BY number LIMIT :limit
"""
LOAD_RUN = f"""
    SELECT number, graph, settings, definition.checksum, {CHECKED_RUN} FROM run JOIN definition USING (number)
    WHERE id = ?
"""
LOAD_ENTRIES = f"SELECT key % {PLACES}, {CHECKED_ENTRY} FROM entry WHERE key >= ? AND key < ? ORDER BY key"
LOAD_RUNS = f"""
    SELECT number, graph, settings, definition.checksum, {CHECKED_RUN} FROM run JOIN definition USING (number)
    WHERE id IN (SELECT value FROM json_each(?))
"""
FIRST_ENTRIES = f"""
    SELECT entry.key / {PLACES}, entry.key % {PLACES}, {CHECKED_ENTRY} FROM json_each(:numbers) AS wanted
    JOIN entry ON entry.key >= wanted.value * {PLACES} AND entry.key < wanted.value * {PLACES} + :most
    ORDER BY entry.key
"""
FREE_EVENTS = """
    SELECT event.number, run.id, key, payload, event.id, event.checksum FROM event JOIN run ON run.number = event.run
    WHERE event.run IN (SELECT value FROM json_each(?)) AND NOT taken ORDER BY event.number
"""
LAST_KEY = "SELECT max(key) FROM entry WHERE key >= ? AND key < ?"
LAST_ENTRIES = f"""
    SELECT key % {PLACES}, {CHECKED_ENTRY} FROM entry
    WHERE key >= ? AND key <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY key
"""
LIST_COMMANDS = """
    SELECT command.number, run.id, command.kind, command.body, command.checksum
    FROM command JOIN run ON run.number = command.run
    WHERE run.owner = ? ORDER BY command.number
"""
SIZE_OF_RUN = f"""
    SELECT coalesce(sum(bytes), 0) FROM (
        SELECT length(graph) + length(settings) AS bytes FROM run JOIN definition USING (number) WHERE id = :id
        UNION ALL
        SELECT sum(length(body) + coalesce(length(value), 0)) AS bytes FROM run, entry
        WHERE id = :id AND key >= number * {PLACES} AND key < (number + 1) * {PLACES}
    )
"""
STANDING: tuple[Table, ...] = ("schedule", "queue")
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
CHECKED_STANDING = "id, version, due, definition, state, definition_checksum, state_checksum"
GET_STANDING = {table: f"SELECT {CHECKED_STANDING} FROM {table} WHERE id = ?" for table in STANDING}
LIST_STANDING = {table: f"SELECT {CHECKED_STANDING} FROM {table} ORDER BY id" for table in STANDING}
NUMBER_OF_RUN = f"SELECT {CHECKED_RUN} FROM run WHERE id = ?"
NUMBER_OF_LAST_RUN = "SELECT max(number) FROM run"

# For whoever reads everything (`inspection`). Nothing is looked up in an index, which may be damaged itself.
ALL_RUNS = f"SELECT {CHECKED_RUN} FROM run NOT INDEXED ORDER BY number"
DEFINITION = "SELECT number, graph, settings, checksum FROM definition WHERE number = ?"
ALL_EVENTS = """
    SELECT number, run, key, payload, id, checksum, taken FROM event NOT INDEXED ORDER BY number
"""
ALL_COMMANDS = "SELECT number, run, kind, body, checksum FROM command NOT INDEXED ORDER BY number"
ALL_STANDING = {table: f"SELECT {CHECKED_STANDING} FROM {table} NOT INDEXED" for table in STANDING}
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


def after_prefix(prefix: str) -> str:
    """Above every text that starts so."""
    return prefix + "\U0010ffff"


def create_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)


def add_commands(connection: sqlite3.Connection) -> None:
    connection.execute(COMMANDS)


def add_metadata(connection: sqlite3.Connection) -> None:
    connection.execute(METADATA)


def add_schedules(connection: sqlite3.Connection) -> None:
    connection.execute(SCHEDULES)


def add_identity(connection: sqlite3.Connection) -> None:
    for statement in IDENTITY:
        connection.execute(statement)


def add_events(connection: sqlite3.Connection) -> None:
    for statement in EVENTS:
        connection.execute(statement)


def add_queues(connection: sqlite3.Connection) -> None:
    connection.execute(SCHEDULES.replace("TABLE schedule", "TABLE queue"))


def add_checksums(connection: sqlite3.Connection) -> None:
    for statement in CHECKSUMS:
        connection.execute(statement)
    vouch_for_all(connection)


def vouch_for_all(connection: sqlite3.Connection) -> None:
    """Writes the checksums of all rows as they are now."""
    functions: dict[str, Callable[..., int]] = {
        "of_run": lambda number, entries, *columns: checksums.of_run(number, entries, columns),
        "of_definition": checksums.of_definition,
        "of_entry": lambda run, place, *columns: checksums.of_entry(run, place, Entry(*columns)),
        "of_event": checksums.of_event,
        "of_command": checksums.of_command,
        "of_identity": checksums.of_identity,
        "of_standing_definition": checksums.of_standing_definition,
        "of_standing_state": checksums.of_standing_state,
    }
    for name, function in functions.items():
        connection.create_function(name, -1, function, deterministic=True)
    run = "(SELECT id FROM run WHERE run.number = {})"
    of_entry = f"of_entry({run.format(f'key / {PLACES}')}, key % {PLACES}, kind, node, body, value, blob)"
    connection.execute(f"UPDATE run SET checksum = of_run(number, entries, {COLUMNS})")
    definition = run.format("definition.number")
    connection.execute(f"UPDATE definition SET checksum = of_definition({definition}, number, graph, settings)")
    connection.execute(f"UPDATE entry SET checksum = {of_entry}")
    of_event = f"of_event({run.format('event.run')}, key, id, payload)"
    connection.execute(f"UPDATE event SET checksum = {of_event} + taken * {TAKEN}")
    connection.execute(f"UPDATE command SET checksum = of_command({run.format('command.run')}, kind, body)")
    connection.execute("UPDATE identity SET checksum = of_identity(id)")
    for table in STANDING:
        connection.execute(
            f"UPDATE {table} SET definition_checksum = of_standing_definition('{table}', id, definition), "
            f"state_checksum = of_standing_state('{table}', id, version, due, state)"
        )


MIGRATIONS: tuple[Migration, ...] = (
    create_tables,
    add_commands,
    add_metadata,
    add_schedules,
    add_identity,
    add_events,
    add_queues,
    add_checksums,
)
"""Number n makes version n + 1 out of version n. The last one makes today's. None of them is ever changed."""


VERSION_OF_PROOF = MIGRATIONS.index(add_checksums) + 1
"""The first version that has one."""


def proof_of(version: int) -> int:
    """31 bits that belong to a version."""
    return checksums.of_parts("onceflow journal", version) >> 1


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute(GET_PROOF).fetchone() != (proof_of(version(connection)),):
        raise StorageDamaged(str(path), "the version number of the journal is not what was written")


def bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Runs the migrations that the file lacks, all or none. The caller holds the turn, so nobody else does the same.
    Even where there is nothing to do it writes, and takes it back: SQLite is silent about a file that may only be read
    until somebody does."""
    connection.execute(BEGIN_WRITING)
    try:
        found = _known_version(connection, path)
        if found == 0 and connection.execute(COUNT_TABLES).fetchone() != (0,):
            raise StorageDamaged(str(path), "it is a database, but not a journal of onceflow")
        for migrate in MIGRATIONS[found:]:
            migrate(connection)
        connection.execute(f"{SET_VERSION} = {len(MIGRATIONS)}")
        if len(MIGRATIONS) >= VERSION_OF_PROOF:
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
    if found >= VERSION_OF_PROOF or connection.execute(GET_PROOF).fetchone() != (0,):
        check_version(connection, path)
    if found > len(MIGRATIONS):
        raise StorageTooNew(str(path), found, len(MIGRATIONS))
    return found


def version(connection: sqlite3.Connection) -> int:
    found = connection.execute(GET_VERSION).fetchone()[0]
    assert isinstance(found, int)
    return found
