"""The tables of the PostgreSQL journal, every statement on them, and how older ones are brought up to date.

Everything lies in a schema of its own, `onceflow`, which is the search path of all our connections. Texts that are
compared are in the order of their code points (`"C"`), as in SQLite.

`run.number` is drawn from a sequence in blocks, so that an engine needs to ask for one only now and then; it says
nothing about time. The order of runs is (`created`, `number`).

`enter` is what every transaction begins with: it proves that the writer may still write, that the runs concerned
are as they were read, and appends entries, which is all that most transactions do. `engine.sequence` counts the
transactions of an engine. If a connection is lost in a commit, the number shows whether it has happened; and before
that is asked, `engine.generation` is changed, so that it cannot happen any more (see `writer`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from onceflow.errors import StorageTooNew
from onceflow.storage import checksums
from onceflow.storage.checksums import TAKEN
from onceflow.storage.journal import Table
from onceflow.storage.statements import CHECKED_ENTRY, CHECKED_RUN, COLUMNS, STANDING, Statements

Connection = Any
"""A psycopg connection. Named loosely here, because the package is optional."""

Migration = Callable[[Connection], None]

SCHEMA = "onceflow"

BLOCK = 1000
"""Numbers of runs that an engine draws at once."""

GONE = "OF001"
"""The SQLSTATE of `enter` if the engine may not write any more."""
STALE = "OF002"
"""That if a run, or a standing row, is not as it was read."""

MIGRATING = 7_061_945
"""The advisory lock of a migration: any number that is not used elsewhere."""


ENTER_FUNCTION = f"""
    CREATE FUNCTION enter(
        me text, my_generation bigint, my_sequence bigint,
        numbers bigint[], epochs bigint[], statuses text[], owners text[],
        runs bigint[], places bigint[], kinds text[], nodes text[], bodies bytea[], given bytea[],
        blobs text[], checksums bigint[]
    ) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE engine SET sequence = my_sequence WHERE id = me AND generation = my_generation;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'engine % is no more', me USING ERRCODE = '{GONE}';
        END IF;
        IF cardinality(numbers) > 0 THEN
            PERFORM 1 FROM run WHERE number = ANY (numbers) ORDER BY number FOR NO KEY UPDATE;
            IF cardinality(numbers) <> (
                SELECT count(*) FROM unnest(numbers, epochs, statuses, owners) AS known (number, epoch, status, owner)
                JOIN run USING (number, epoch, status) WHERE run.owner IS NOT DISTINCT FROM known.owner
            ) THEN
                RAISE EXCEPTION 'a run has changed' USING ERRCODE = '{STALE}';
            END IF;
        END IF;
        IF cardinality(runs) > 0 THEN
            INSERT INTO entry (run, place, kind, node, body, value, blob, checksum)
            SELECT * FROM unnest(runs, places, kinds, nodes, bodies, given, blobs, checksums);
        END IF;
    END
    $$
"""
"""What every transaction begins with."""


def _standing(table: Table) -> tuple[str, str]:
    """The table, and the function that changes it, of standing rows."""
    return (
        f"""
    CREATE TABLE {table} (
        id text COLLATE "C" PRIMARY KEY,
        version bigint NOT NULL,
        due double precision,
        definition bytea NOT NULL,
        state bytea NOT NULL,
        definition_checksum bigint NOT NULL,
        state_checksum bigint NOT NULL
    ) WITH (fillfactor = 50)
    """,
        f"""
    CREATE FUNCTION change_{table}(
        its_id text, expected bigint, gone boolean, new_due double precision, new_definition bytea, new_state bytea,
        of_definition bigint, of_state bigint
    ) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF expected = 0 THEN
            INSERT INTO {table} (id, version, due, definition, state, definition_checksum, state_checksum)
            VALUES (its_id, 1, new_due, new_definition, new_state, of_definition, of_state) ON CONFLICT DO NOTHING;
        ELSIF gone THEN
            DELETE FROM {table} WHERE id = its_id AND version = expected;
        ELSE
            UPDATE {table}
            SET version = expected + 1, due = new_due, definition = coalesce(new_definition, definition),
                state = new_state, definition_checksum = coalesce(of_definition, definition_checksum),
                state_checksum = of_state
            WHERE id = its_id AND version = expected;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a {table} has changed' USING ERRCODE = '{STALE}';
        END IF;
    END
    $$
    """,
    )


TABLES = (
    """
    CREATE TABLE run (
        number bigint PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        name text COLLATE "C" UNIQUE,
        workflow text NOT NULL,
        status text NOT NULL,
        epoch bigint NOT NULL,
        owner text,
        digest text NOT NULL,
        created double precision NOT NULL,
        updated double precision NOT NULL,
        metadata text,
        due double precision,
        entries bigint NOT NULL,
        checksum bigint NOT NULL
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX run_status ON run (status)",
    "CREATE INDEX run_owner ON run (owner)",
    "CREATE INDEX run_order ON run (created, number)",
    f"CREATE SEQUENCE run_block INCREMENT {BLOCK} MINVALUE 1 START 1",
    """
    CREATE TABLE definition (
        number bigint PRIMARY KEY,
        graph bytea NOT NULL,
        settings bytea NOT NULL,
        checksum bigint NOT NULL
    )
    """,
    """
    CREATE TABLE entry (
        run bigint NOT NULL,
        place bigint NOT NULL,
        kind text NOT NULL,
        node text NOT NULL,
        body bytea NOT NULL,
        value bytea,
        blob text,
        checksum bigint NOT NULL,
        PRIMARY KEY (run, place)
    )
    """,
    "ALTER TABLE entry ALTER COLUMN value SET STORAGE EXTERNAL",
    """
    CREATE TABLE command (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run bigint NOT NULL,
        kind text NOT NULL,
        body bytea NOT NULL,
        checksum bigint NOT NULL
    )
    """,
    """
    CREATE TABLE event (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run bigint NOT NULL,
        key text NOT NULL,
        id text NOT NULL,
        payload bytea NOT NULL,
        taken boolean NOT NULL DEFAULT false,
        checksum bigint NOT NULL,
        UNIQUE (run, id)
    )
    """,
    "CREATE INDEX event_free ON event (run) WHERE NOT taken",
    """
    CREATE TABLE engine (
        id text PRIMARY KEY,
        home text NOT NULL,
        about text NOT NULL,
        started timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires timestamptz NOT NULL,
        seconds double precision NOT NULL,
        generation bigint NOT NULL DEFAULT 0,
        sequence bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50)
    """,
    "CREATE TABLE identity (id text NOT NULL, checksum bigint NOT NULL)",
    ENTER_FUNCTION,
    *[statement for table in STANDING for statement in _standing(table)],
)
"""`run.entries` is how many entries there were when the row was written last: at least so many there are."""

CREATE_SCHEMA = f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
FIND_SCHEMA = "SELECT to_regclass('onceflow.version') IS NOT NULL"
CREATE_VERSION = "CREATE TABLE IF NOT EXISTS version (number integer NOT NULL)"
GET_VERSION = "SELECT coalesce(max(number), 0) FROM version"
FORGET_VERSION = "DELETE FROM version"
SET_VERSION = "INSERT INTO version (number) VALUES (%s)"
LOCK_MIGRATION = f"SELECT pg_advisory_xact_lock({MIGRATING})"

ENTER = """
    SELECT enter(%b::text, %b::bigint, %b::bigint,
        %b::bigint[], %b::bigint[], %b::text[], %b::text[],
        %b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::text[], %b::bigint[])
"""
NEXT_BLOCK = "SELECT nextval('run_block')"
LOOK_UP = f"""
    SELECT number, (SELECT max(place) FROM entry WHERE entry.run = run.number), {CHECKED_RUN} FROM run
    WHERE id = ANY (%(ids)s) OR name = ANY (%(names)s)
"""
CREATE_RUNS = f"""
    INSERT INTO run (number, {COLUMNS}, entries, checksum)
    SELECT * FROM unnest(
        %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bigint[], %b::text[], %b::text[],
        %b::float8[], %b::float8[], %b::text[], %b::float8[], %b::bigint[], %b::bigint[]
    )
"""
CHANGE_RUNS = """
    UPDATE run SET status = changed.status, epoch = changed.epoch, owner = changed.owner, updated = changed.updated,
        due = changed.due, entries = changed.entries, checksum = changed.checksum
    FROM unnest(
        %b::bigint[], %b::text[], %b::bigint[], %b::text[], %b::float8[], %b::float8[], %b::bigint[], %b::bigint[]
    ) AS changed (number, status, epoch, owner, updated, due, entries, checksum)
    WHERE run.number = changed.number
"""
WRITE_DEFINITIONS = """
    INSERT INTO definition (number, graph, settings, checksum)
    SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[])
"""
WRITE_COMMANDS = """
    INSERT INTO command (run, kind, body, checksum)
    SELECT * FROM unnest(%b::bigint[], %b::text[], %b::bytea[], %b::bigint[])
"""
WRITE_EVENTS = """
    INSERT INTO event (run, key, id, payload, checksum)
    SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::bytea[], %b::bigint[])
    ON CONFLICT DO NOTHING
"""
MARK_EVENTS = f"""
    UPDATE event SET taken = %b, checksum = checksum %% {TAKEN} + %b * {TAKEN} WHERE number = ANY (%b::bigint[])
"""
RUNS_WITH_MAIL = """
    SELECT run.id, max(event.number) FROM event JOIN run ON run.number = event.run
    WHERE NOT taken AND owner = %s GROUP BY run.id
"""
FORGET_COMMANDS = "DELETE FROM command WHERE run = %b AND number = ANY (%b::bigint[])"
DELETE_RUNS = tuple(
    f"DELETE FROM {table} WHERE {key} = ANY (%b::bigint[])"
    for table, key in (
        ("entry", "run"),
        ("definition", "number"),
        ("command", "run"),
        ("event", "run"),
        ("run", "number"),
    )
)

VERSIONS_OF_STANDING = {table: f"SELECT id, version FROM {table} WHERE id = ANY (%s)" for table in STANDING}
CHANGE_STANDING = {
    table: f"SELECT change_{table}(%b, %b, %b, %b::float8, %b::bytea, %b::bytea, %b::bigint, %b::bigint)"
    for table in STANDING
}

GET_RUNS_BY_NUMBER = f"SELECT {CHECKED_RUN} FROM run WHERE number = ANY (%s)"
LIST_RUNS = f"""
    SELECT {CHECKED_RUN} FROM run
    WHERE (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s))
        AND (%(name)s::text IS NULL OR (name >= %(name)s AND name < %(end)s))
        AND (%(workflow)s::text IS NULL OR workflow = %(workflow)s)
        AND (%(before)s::text IS NULL OR CASE WHEN EXISTS (SELECT 1 FROM run WHERE id = %(before)s)
            THEN (created, number) < (SELECT created, number FROM run WHERE id = %(before)s)
            ELSE (created, number) <= (
                SELECT created, number FROM run WHERE id < %(before)s ORDER BY created DESC, number DESC LIMIT 1
            )
        END)
    ORDER BY created DESC, number DESC LIMIT %(limit)s
"""
LOAD_RUN = f"""
    SELECT number, (SELECT coalesce(max(place) + 1, 0) FROM entry WHERE entry.run = run.number), graph, settings,
        definition.checksum, {CHECKED_RUN}
    FROM run JOIN definition USING (number) WHERE id = %s
"""
STATEMENTS = Statements(
    named="%({})s",
    among="= ANY (%({})s)",
    same="IS NOT DISTINCT FROM",
    newest="created DESC, number DESC",
    oldest="created, number",
    of_run="entry.run = run.number",
)

LOAD_ENTRIES = f"SELECT place, {CHECKED_ENTRY} FROM entry WHERE run = %b AND place >= %b AND place < %b ORDER BY place"
FIRST_ENTRIES = (
    f"SELECT run, place, {CHECKED_ENTRY} FROM entry WHERE run = ANY (%s) AND place <= %s ORDER BY run, place"
)
LAST_ENTRIES = f"""
    SELECT place, {CHECKED_ENTRY} FROM entry, (
        SELECT run.number, (SELECT max(place) FROM entry WHERE entry.run = run.number) AS last FROM run WHERE id = %s
    ) AS found
    WHERE entry.run = found.number AND place > found.last - %s AND kind = ANY (%s) ORDER BY place
"""
NAMED_BLOBS = f"""
    SELECT {CHECKED_RUN}, ARRAY(SELECT DISTINCT blob FROM entry WHERE entry.run = run.number AND blob IS NOT NULL)
    FROM run WHERE id = %s
"""

ENTRIES_FROM = LOAD_ENTRIES.replace("%b", "%s")
COUNT_ENTRIES = "SELECT coalesce(max(place) + 1, 0) FROM entry WHERE run = %s"

ENROL = """
    INSERT INTO engine (id, home, about, expires, seconds)
    VALUES (%(id)s, %(home)s, %(about)s, clock_timestamp() + make_interval(secs => %(seconds)s), %(seconds)s)
    ON CONFLICT (id) DO NOTHING
"""
RENEW = """
    UPDATE engine SET expires = clock_timestamp() + make_interval(secs => seconds)
    WHERE id = %s AND expires > clock_timestamp()
"""
LEAVE = "DELETE FROM engine WHERE id = %s"
FORGET_DEAD = "DELETE FROM engine WHERE expires < clock_timestamp() - make_interval(secs => %s)"
FIND_ENGINE = "SELECT home, expires > clock_timestamp() FROM engine WHERE id = %s"
LIST_ENGINES = """
    SELECT id, home, about, extract(epoch FROM expires - clock_timestamp())::float8 FROM engine ORDER BY started, id
"""
INTRODUCE = "UPDATE engine SET about = %s WHERE id = %s"
CHANGE_GENERATION = "UPDATE engine SET generation = generation + 1 WHERE id = %s RETURNING generation, sequence"
CALL = "SELECT pg_notify(%s, %s)"


def create_tables(connection: Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
    id = os.urandom(8).hex()
    connection.execute("INSERT INTO identity VALUES (%s, %s)", (id, checksums.of_identity(id)))


MIGRATIONS: tuple[Migration, ...] = (create_tables,)
"""Number n makes version n + 1 out of version n. The last one makes today's. None of them is ever changed."""


def bring_up_to_date(connection: Connection, place: str) -> None:
    """Runs the migrations that the database lacks, all or none, while no other process does the same."""
    if connection.execute(FIND_SCHEMA).fetchone()[0] and _found(connection, place) == len(MIGRATIONS):
        return
    with connection.transaction():
        connection.execute(LOCK_MIGRATION)
        connection.execute(CREATE_SCHEMA)
        connection.execute(CREATE_VERSION)
        for migrate in MIGRATIONS[_found(connection, place) :]:
            migrate(connection)
        connection.execute(FORGET_VERSION)
        connection.execute(SET_VERSION, (len(MIGRATIONS),))


def _found(connection: Connection, place: str) -> int:
    found: int = connection.execute(GET_VERSION).fetchone()[0]
    if found > len(MIGRATIONS):
        raise StorageTooNew(place, found, len(MIGRATIONS))
    return found
