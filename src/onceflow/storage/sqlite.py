"""The journal in one SQLite file, shared by all engines of a host.

Write-ahead log: readers and the writer do not wait for each other. `durability="power"` syncs the log with every commit
(`synchronous=FULL`); `"process"` leaves that to the system, so that a loss of power may take the last commits, though
never the middle of one. Whatever changes the file as a whole (creating it, migrating) happens in turn, as writes do.

**Looking waits for no writer**, not even for one that was stopped in the middle of a commit. To open a journal that is
up to date is to read its version; the connection that writes is opened by the first commit, in its turn. Readers are
read-only connections, and one of them is closed last of all: the last writer to close a file would lock all of it, to
copy the log and delete it. So that is done before, in turn, and leaves an empty log. What a reader still shares with
writers are moments of SQLite's own (the first process that opens the file reads the log, a commit copies the header of
its index); a process that was stopped in one of those is waited for as `lock_waits` says.

The file must not be opened by anything else in this process: POSIX locks, which SQLite uses, are released when any
descriptor of the file is closed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onceflow.errors import NoSuchRun, StorageClosed, StorageError
from onceflow.storage import failures, forks, private_files, schema
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.journal import (
    Answer,
    Command,
    Durability,
    Entry,
    Loaded,
    MailboxEvent,
    OnFailure,
    Outcome,
    Request,
    RunRow,
    Short,
    StandingRow,
    Statistics,
    Table,
    read_entry,
)
from onceflow.storage.lock_waits import LOCK_TIMEOUT, LockWait, connect_to_read
from onceflow.storage.short import found_runs, short_runs
from onceflow.storage.turns import PAUSE, Turns
from onceflow.storage.writer import Writer

CHUNK = 256
"""Entries that are read at once."""

LOG_BYTES = 1280 * 1024
"""To which the write-ahead log is filled up when the journal is opened."""

MOST_IDLE = 4
"""Connections for reading that are kept for the next reader."""


class SqliteJournal:
    """A `Journal`. Opening it creates the file, or brings an older one up to date. `lock` is the file that proves that
    its engine lives: if that is gone, nothing more is written (`file_identity`)."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "power",
        lock_timeout: float = LOCK_TIMEOUT,
        clock: Callable[[], float] = time.time,
        lock: Path | None = None,
    ) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed: str | None = None
        self.lock_timeout = lock_timeout
        connection = None
        with failures.told(path):
            turns = Turns(path)
            try:
                if not is_up_to_date(path, lock_timeout):
                    with turns.take(lock_timeout):
                        connection = create(path, durability, lock_timeout)
                self._last = connect_to_read(path, lock_timeout)
                """Closed last, after all that write: see above."""
                self._last.execute(schema.GET_VERSION)  # from now on it has its lock
                self._identity = FileIdentity(path.parent, path, *([] if lock is None else [lock]))
            except BaseException:
                turns.close()
                if connection is not None:
                    connection.close()
                raise
        self._writer = Writer(
            lambda: open_to_write(path, durability), turns, path, clock, self._identity, lock_timeout, connection
        )
        forks.watch(self)

    def identity(self) -> str:
        with self._reading() as connection, failures.told(self._path):
            found: str = connection.execute(schema.GET_IDENTITY).fetchone()[0]
        return found

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        self._writer.submit(requests, answer)

    def withdraw(self, answer: Answer) -> StorageError | None:
        return self._writer.withdraw(answer)

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        return self._writer.commit_at_once(requests)

    def when_failed(self, then: OnFailure) -> None:
        self._writer.when_failed(then)

    def statistics(self) -> Statistics:
        return self._writer.statistics()

    def close(self) -> None:
        """Not while somebody reads."""
        if self._closed is None:
            self._closed = "it was closed"
            self._writer.close()
            with self._lock:
                while self._idle:
                    self._idle.pop().close()
            self._last.close()

    def leave_to_parent(self) -> None:
        self._closed = "it was opened by the process that this one was forked from"
        _left_to_parent.extend([*self._idle, self._last])
        self._idle = []
        self._writer.leave_to_parent()

    def get_run(self, run: str) -> RunRow | None:
        return self._one(schema.GET_RUN, (run,))

    def find_name(self, name: str) -> RunRow | None:
        return self._one(schema.FIND_NAME, (name,))

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        with self._reading() as connection, failures.told(self._path):
            return found_runs(connection.execute(schema.FIND_RUNS, {"runs": json.dumps(list(runs))}).fetchall())

    def find_prefix(self, prefix: str, limit: int = 2) -> list[RunRow]:
        wanted = {"prefix": prefix, "end": schema.after_prefix(prefix), "limit": limit}
        return self._many(schema.FIND_PREFIX, wanted)

    def list_runs(
        self,
        *,
        statuses: Sequence[str] | None = None,
        name: str | None = None,
        workflow: str | None = None,
        metadata: str | None = None,
        before: str | None = None,
        limit: int | None = 100,
    ) -> list[RunRow]:
        wanted = {
            "name": name,
            "end": schema.after_prefix(name or ""),
            "workflow": workflow,
            "metadata": metadata,
            "before": before,
            "limit": -1 if limit is None else limit,
        }
        if statuses is None:
            return self._many(schema.LIST_RUNS, wanted)
        return self._many(schema.LIST_RUNS_BY_STATUS, wanted | {"statuses": json.dumps(list(statuses))})

    def size(self, run: str) -> int:
        with self._reading() as connection, failures.told(self._path):
            size: int = connection.execute(schema.SIZE_OF_RUN, {"id": run}).fetchone()[0]
        return size

    @contextlib.contextmanager
    def load(self, run: str) -> Iterator[Loaded]:
        with self._reading() as connection:
            with failures.told(self._path):
                connection.execute(schema.BEGIN_READING)
                row = connection.execute(schema.LOAD_RUN, (run,)).fetchone()
                if row is None:
                    raise NoSuchRun(run)
                number, graph, settings, *columns = row
                entries = connection.execute(schema.LOAD_ENTRIES, schema.keys_of(number))
            try:
                yield Loaded(RunRow(*columns), graph, settings, self._entries(run, entries))
            finally:
                entries.close()
                connection.execute(schema.COMMIT)

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            rows = connection.execute(schema.LOAD_RUNS, (json.dumps(list(runs)),)).fetchall()
            numbers = json.dumps([number for number, *_ in rows])
            wanted = {"numbers": numbers, "most": most + 1}
            entries = connection.execute(schema.FIRST_ENTRIES, wanted).fetchall()
            events = connection.execute(schema.FREE_EVENTS, (numbers,)).fetchall()
            connection.execute(schema.COMMIT)
        return short_runs(rows, entries, events, most)

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            row = connection.execute(schema.NUMBER_OF_RUN, (run,)).fetchone()
            number, *columns = row or (0,)
            named = connection.execute(schema.NAMED_BLOBS, schema.keys_of(number)).fetchall()
            connection.execute(schema.COMMIT)
        return RunRow(*columns) if row else None, {reference for (reference,) in named}

    def last_runs(
        self, statuses: Sequence[str], *, workflow: str | None = None, limit: int = 100, among: int
    ) -> list[RunRow]:
        wanted = {"statuses": json.dumps(list(statuses)), "workflow": workflow, "limit": limit, "among": among}
        return self._many(schema.LAST_RUNS, wanted)

    def owners(self, statuses: Sequence[str]) -> dict[str | None, int]:
        with self._reading() as connection, failures.told(self._path):
            return dict(connection.execute(schema.OWNERS, {"statuses": json.dumps(list(statuses))}).fetchall())

    def owned(self, owner: str | None, statuses: Sequence[str], limit: int, *, parked: bool = False) -> list[RunRow]:
        wanted = {"owner": owner, "statuses": json.dumps(list(statuses)), "limit": limit}
        return self._many(schema.OWNED, {**wanted, "parked": parked})

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            number, *_ = connection.execute(schema.NUMBER_OF_RUN, (run,)).fetchone() or (0,)
            first, end = schema.keys_of(number)
            (last,) = connection.execute(schema.LAST_KEY, (first, end)).fetchone()
            wanted = (max(first, (last or 0) - among + 1), last, json.dumps(list(kinds)))
            rows = [] if last is None else connection.execute(schema.LAST_ENTRIES, wanted).fetchall()
            connection.execute(schema.COMMIT)
        return [read_entry(run, row) for row in rows]

    def commands(self, owner: str) -> list[Command]:
        with self._reading() as connection, failures.told(self._path):
            return [Command(*row) for row in connection.execute(schema.LIST_COMMANDS, (owner,)).fetchall()]

    def get_standing(self, table: Table, id: str) -> StandingRow | None:
        with self._reading() as connection, failures.told(self._path):
            row = connection.execute(schema.GET_STANDING[table], (id,)).fetchone()
        return None if row is None else StandingRow(*row)

    def list_standing(self, table: Table) -> list[StandingRow]:
        with self._reading() as connection, failures.told(self._path):
            return [StandingRow(*row) for row in connection.execute(schema.LIST_STANDING[table]).fetchall()]

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        with self._reading() as connection, failures.told(self._path):
            return [MailboxEvent(*row) for row in connection.execute(schema.MAILBOX, (run, key)).fetchall()]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        with self._reading() as connection, failures.told(self._path):
            return dict(connection.execute(schema.RUNS_WITH_MAIL, (after, owner)).fetchall())

    def _entries(self, run: str, cursor: sqlite3.Cursor) -> Iterator[Entry]:
        while True:
            with failures.told(self._path):
                chunk = cursor.fetchmany(CHUNK)
            if not chunk:
                return
            for row in chunk:
                yield read_entry(run, row)

    def _one(self, statement: str, wanted: tuple[str, ...]) -> RunRow | None:
        with self._reading() as connection, failures.told(self._path):
            row = connection.execute(statement, wanted).fetchone()
        return None if row is None else RunRow(*row)

    def _many(self, statement: str, wanted: dict[str, Any]) -> list[RunRow]:
        with self._reading() as connection, failures.told(self._path):
            return [RunRow(*row) for row in connection.execute(statement, wanted).fetchall()]

    def _check_open(self) -> None:
        if self._closed is not None:
            raise StorageClosed(str(self._path), self._closed)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one reader. After an error it is not used again."""
        self._check_open()
        try:
            self._identity.check()
        except StorageError as error:
            self._writer.fail(error)
            raise
        try:
            connection = self._idle.pop()
        except IndexError:
            with failures.told(self._path):
                connection = connect_to_read(self._path, self.lock_timeout)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if self._closed is None and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


_left_to_parent: list[sqlite3.Connection] = []
"""In a forked child: connections that must not be closed."""


def is_up_to_date(path: Path, limit: float) -> bool:
    """Whether there is nothing to do but to read. Raises what keeps the journal from being used."""
    if not path.exists():
        return False
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with contextlib.closing(connect_to_read(path, limit)) as reader:
        return schema.is_current(reader, path)


def create(path: Path, durability: Durability, limit: float) -> sqlite3.Connection:
    """Creates the file, or brings an older one up to date. The caller holds the turn. Raises `StorageBusy`."""
    create_file(path)
    wait = LockWait(path, limit)
    while True:
        try:
            connection = open_to_write(path, durability)
        except sqlite3.OperationalError as error:  # a reader has to look at an empty file before it knows
            if not failures.is_locked(error):
                raise
            wait.check()
            time.sleep(PAUSE)
        else:
            wait.end()
            return connection


def create_file(path: Path) -> None:
    """For its owner alone, whatever the umask; SQLite gives the files beside it the same mode. It gets its name when it
    is closed: closing a file ends the locks of everybody in this process who has it open."""
    if not path.exists():
        new = f"{path}-new"
        os.close(private_files.open_file(Path(new), os.O_RDWR | os.O_CREAT))
        os.rename(new, path)


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


def open_to_write(path: Path, durability: Durability) -> sqlite3.Connection:
    """The caller holds the turn."""
    connection = connect(path)
    try:
        prepare(connection, path, durability)
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, path: Path, durability: Durability) -> None:
    """Makes a connection fit for writing. The caller holds the turn."""
    (mode,) = connection.execute(schema.SET_WAL).fetchone()
    if mode != "wal":
        raise StorageError(str(path), f"SQLite cannot keep a write-ahead log here (its mode is {mode!r})")
    connection.execute(schema.SET_POWER if durability == "power" else schema.SET_PROCESS)
    connection.execute(schema.NO_AUTOMATIC_CHECKPOINT)
    schema.bring_up_to_date(connection, path)
    fill_up_log(connection, path)


def fill_up_log(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the log as long as it will become anyway, with zeros.

    A commit that makes a file longer has to wait for the file system's own journal as well; one that overwrites does
    not, and takes half the time (measured on ext4). SQLite takes zeros for the end of the log: a frame counts only if
    it carries the log's salt and a checksum. Nobody writes meanwhile, because the transaction has SQLite's write lock.
    """
    connection.execute(schema.BEGIN_WRITING)
    try:
        descriptor = os.open(f"{path}-wal", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size < LOG_BYTES:
                os.pwrite(descriptor, bytes(LOG_BYTES - size), size)
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        connection.execute(schema.ROLLBACK)
