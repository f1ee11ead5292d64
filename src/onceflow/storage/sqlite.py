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
from functools import partial
from pathlib import Path
from typing import Any

from onceflow.errors import NoSuchRun, OnceflowError, StorageClosed, StorageDamaged, StorageError
from onceflow.storage import checksums, failures, forks, private_files, schema
from onceflow.storage.checksums import skipped
from onceflow.storage.fair_lock import PAUSE, Turns
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.high_water_marks import Marks, path_of
from onceflow.storage.journal import (
    Answer,
    Command,
    DamagedRun,
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
)
from onceflow.storage.load_many import found_runs, short_runs
from onceflow.storage.lock_waits import LOCK_TIMEOUT, LockWait, connect_to_read
from onceflow.storage.writer import Writer

CHUNK = 256
"""Entries that are read at once."""

_ADAPTERS: dict[type, Callable[[Any], Any]] = {bytes: bytes, type(None): {None: None}.get}
"""Each gives back what it is given. Python looks for an adapter of each parameter that is bytes or None. Where there is
none it makes an exception, and drops it, which takes longer than all else that is done with a parameter."""

for _kind, _adapter in _ADAPTERS.items():
    sqlite3.adapters.setdefault((_kind, sqlite3.PrepareProtocol), _adapter)

LOG_BYTES = 1280 * 1024
"""To which the write-ahead log is filled up when the journal is opened."""

STEPS = 1_000_000
"""Of SQLite's machine, between two looks for signals while everything is read."""

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
        self._where = str(path)
        """What errors call it."""
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed: str | None = None
        self.lock_timeout = lock_timeout
        connection = None
        with failures.told(path), contextlib.ExitStack() as opened:
            turns = Turns(path)
            opened.callback(turns.close)
            self._marks = Marks(path)
            opened.callback(self._marks.close)
            if not is_up_to_date(path, lock_timeout):
                with turns.take(lock_timeout):
                    connection = create(path, durability, lock_timeout, self._marks)
                opened.callback(connection.close)
            self._last = connect_to_read(path, lock_timeout)
            """Closed last, after all that write: see above."""
            opened.callback(self._last.close)
            check_last_run(self._last, path, self._marks)  # from now on it has its lock
            self._identity = FileIdentity(path.parent, path, *([] if lock is None else [lock]))
            opened.pop_all()
        self._writer = Writer(
            lambda: open_to_write(path, durability, self._marks),
            turns,
            path,
            clock,
            self._identity,
            lock_timeout,
            self._marks,
            connection,
            marking=durability == "power",
        )
        forks.watch(self)

    def identity(self) -> str:
        with self._reading() as connection, failures.told(self._path):
            return identity_of(connection, self._where)

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
        row = self._one(schema.GET_RUN, (run,))
        if row is not None and row.id != run:
            raise self._wrong_index(run)
        return row

    def find_name(self, name: str) -> RunRow | None:
        row = self._one(schema.FIND_NAME, (name,))
        if row is not None and row.name != name:
            raise self._wrong_index(name)
        return row

    def check_absence(self, run: str) -> None:
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            if not connection.execute(schema.FIND_RUNS, {"runs": json.dumps([run])}).fetchall():  # else: created since
                for columns in connection.execute(schema.ALL_RUNS):
                    row = checksums.check_run(self._where, columns)
                    if run in (row.id, row.name):
                        raise self._wrong_index(run)
            connection.execute(schema.COMMIT)

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        with self._reading() as connection, failures.told(self._path):
            rows = connection.execute(schema.FIND_RUNS, {"runs": json.dumps(list(runs))}).fetchall()
        return found_runs(rows, self._where)

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

    def damaged_runs(self) -> list[DamagedRun]:
        return checksums.damaged_runs(self._where, self.fetch(schema.ALL_RUNS))

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
                    raise self._absent(run)
                number, graph, settings, checksum, *columns = row
                found = checksums.check_run(self._where, columns)
                if found.id != run:
                    raise self._wrong_index(run)
                checksums.check_definition(self._where, found, number, graph, settings, checksum)
                entries = connection.execute(schema.LOAD_ENTRIES, schema.keys_of(number))
            try:
                yield Loaded(found, graph, settings, self._entries(entries, run, number, columns[2]))
            finally:
                entries.close()
            with failures.told(self._path):
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
        short = short_runs(rows, entries, events, most, self._where)
        few = {number: short[columns[3]] for number, _, _, _, *columns in rows if columns[3] in short}
        for number, found in few.items():
            if len(found.entries) < self._marks.entries(number):  # perhaps there are more by now
                del short[found.run.id]
        return short

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            columns = connection.execute(schema.NUMBER_OF_RUN, (run,)).fetchone()
            number = 0 if columns is None else columns[1]
            named = connection.execute(schema.NAMED_BLOBS, schema.keys_of(number)).fetchall()
            connection.execute(schema.COMMIT)
        row = None if columns is None else checksums.check_run(self._where, columns)
        return row, {reference for (reference,) in named}

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
            _, number, *_ = connection.execute(schema.NUMBER_OF_RUN, (run,)).fetchone() or (0, 0)
            first, end = schema.keys_of(number)
            (last,) = connection.execute(schema.LAST_KEY, (first, end)).fetchone()
            wanted = (max(first, (last or 0) - among + 1), last, json.dumps(list(kinds)))
            rows = [] if last is None else connection.execute(schema.LAST_ENTRIES, wanted).fetchall()
            connection.execute(schema.COMMIT)
        return [checksums.check_entry(self._where, run, place, columns) for place, *columns in rows]

    def commands(self, owner: str) -> list[Command]:
        with self._reading() as connection, failures.told(self._path):
            rows = connection.execute(schema.LIST_COMMANDS, (owner,)).fetchall()
        return checksums.whole(partial(checksums.check_command, self._where), rows, skipped)

    def get_standing(self, table: Table, id: str) -> StandingRow | None:
        with self._reading() as connection, failures.told(self._path):
            row = connection.execute(schema.GET_STANDING[table], (id,)).fetchone()
        return None if row is None else checksums.check_standing(self._where, table, row)

    def list_standing(self, table: Table) -> list[StandingRow]:
        with self._reading() as connection, failures.told(self._path):
            rows = connection.execute(schema.LIST_STANDING[table]).fetchall()
        return checksums.whole(partial(checksums.check_standing, self._where, table), rows, skipped)

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        with self._reading() as connection, failures.told(self._path):
            rows = connection.execute(schema.MAILBOX, (run, key)).fetchall()
        return [checksums.check_event(self._where, row) for row in rows]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        with self._reading() as connection, failures.told(self._path):
            return dict(connection.execute(schema.RUNS_WITH_MAIL, (after, owner)).fetchall())

    def rows(self) -> SqliteRows:
        """For `inspection`."""
        return SqliteRows(self, self._path, self._marks)

    def fetch(self, statement: str, wanted: Sequence[Any] = ()) -> list[Any]:
        """For `inspection`. All rows that a statement of `schema` gives."""
        with self._reading() as connection, failures.told(self._path):
            connection.set_progress_handler(_nothing, STEPS)  # has Python look for signals: it may take minutes
            try:
                return connection.execute(statement, wanted).fetchall()
            finally:
                connection.set_progress_handler(None, 0)

    def _entries(self, cursor: sqlite3.Cursor, run: str, number: int, least: int) -> Iterator[Entry]:
        count = 0
        while True:
            with failures.told(self._path):
                chunk = cursor.fetchmany(CHUNK)
            if not chunk:
                break
            yield from checksums.check_entries(self._where, run, count, chunk)
            count += len(chunk)
        checksums.check_count(self._where, run, count, least)
        self._check_mark(run, number, count)

    def _check_mark(self, run: str, number: int, count: int) -> None:
        """Whether a run has as many entries as it is known to have had. What was read may be older than the mark."""
        if count >= self._marks.entries(number):
            return
        self._marks.renew()
        marked = self._marks.entries(number)
        with self._reading() as connection, failures.told(self._path):
            (last,) = connection.execute(schema.LAST_KEY, schema.keys_of(number)).fetchone()
            is_there = connection.execute(schema.GET_RUN, (run,)).fetchone() is not None
        if is_there:
            now = 0 if last is None else last % schema.PLACES + 1
            checksums.check_count(self._where, run, now, marked)

    def _one(self, statement: str, wanted: tuple[str, ...]) -> RunRow | None:
        with self._reading() as connection, failures.told(self._path):
            row = connection.execute(statement, wanted).fetchone()
        return None if row is None else checksums.check_run(self._where, row)

    def _many(self, statement: str, wanted: dict[str, Any]) -> list[RunRow]:
        with self._reading() as connection, failures.told(self._path):
            rows = connection.execute(statement, wanted).fetchall()
        return checksums.whole(partial(checksums.check_run, self._where), rows, skipped)

    def _absent(self, run: str) -> OnceflowError:
        """Why a run cannot be loaded that was not found together with its definition."""
        if self.get_run(run) is None:
            return NoSuchRun(run)
        return StorageDamaged(self._where, "the stored graph of a run is missing", run=run)

    def _wrong_index(self, run: str) -> StorageDamaged:
        return StorageDamaged(self._where, "an index of the journal does not lead to a run that is there", run=run)

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


class SqliteRows:
    """`inspection.Rows`."""

    def __init__(self, journal: SqliteJournal, path: Path, marks: Marks) -> None:
        self._journal = journal
        self._marks = marks
        self.where = str(path)

    def structure(self) -> list[str]:
        try:
            found = [str(text) for (text,) in self._journal.fetch(schema.INTEGRITY)]
            stray = self._journal.fetch(schema.STRAY_ENTRIES)
        except StorageError as error:
            if getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from None
            return [error.reason]
        wrong = [] if found == ["ok"] else found
        return wrong + [f"{count} entries are of run number {number}, which is not there" for number, count in stray]

    def all_runs(self) -> list[Any]:
        return self._journal.fetch(schema.ALL_RUNS)

    def definition(self, number: int) -> Any | None:
        return next(iter(self._journal.fetch(schema.DEFINITION, (number,))), None)

    def all_entries(self, number: int) -> Iterator[Any]:
        """In chunks: what is whole is told, also if a page after it is damaged."""
        first, end = schema.keys_of(number)
        while True:
            chunk = self._journal.fetch(f"{schema.LOAD_ENTRIES} LIMIT {CHUNK}", (first, end))
            yield from chunk
            if len(chunk) < CHUNK:
                return
            first = number * schema.PLACES + chunk[-1][0] + 1

    def mark(self, number: int) -> int:
        self._marks.renew()
        return self._marks.entries(number)

    def has_run(self, run: str) -> bool:
        return any(columns[3] == run for columns in self.all_runs())

    def all_events(self) -> list[Any]:
        return self._journal.fetch(schema.ALL_EVENTS)

    def all_commands(self) -> list[Any]:
        return self._journal.fetch(schema.ALL_COMMANDS)

    def all_standing(self, table: Table) -> list[Any]:
        return self._journal.fetch(schema.ALL_STANDING[table])


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


def create(path: Path, durability: Durability, limit: float, marks: Marks) -> sqlite3.Connection:
    """Creates the file, or brings an older one up to date. The caller holds the turn. Raises `StorageBusy`."""
    create_file(path)
    wait = LockWait(path, limit)
    while True:
        try:
            connection = open_to_write(path, durability, marks)
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


def _nothing() -> None:
    """Goes on."""


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    connection.execute(schema.CHECK_CELLS)
    return connection


def open_to_write(path: Path, durability: Durability, marks: Marks) -> sqlite3.Connection:
    """The caller holds the turn."""
    connection = connect(path)
    try:
        prepare(connection, path, durability)
        prepare_marks(connection, path, marks)
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


def prepare_marks(connection: sqlite3.Connection, path: Path, marks: Marks) -> None:
    """Makes marks fit for writing. The caller holds the turn."""
    marks.create()
    check_last_run(connection, path, marks)
    if not marks.are_ready:
        connection.execute(schema.CHECKPOINT).fetchall()  # no damage of the log can take the tables
        marks.reset()


def check_last_run(connection: sqlite3.Connection, path: Path, marks: Marks) -> None:
    """Raises `StorageDamaged` if runs that were created are not there. Needs no turn: see `high_water_marks`."""
    marks.belong_to(identity_of(connection, str(path)))
    while True:
        marked = marks.last
        found = connection.execute(schema.NUMBER_OF_LAST_RUN).fetchone()[0] or 0
        if found >= marked.number or (found and not marks.are_ready):
            return
        if marks.last.forgotten == marked.forgotten:
            raise StorageDamaged(
                str(path),
                f"the last {marked.number - found} runs that were created are missing: its write-ahead log was cut or "
                f"damaged, or an older copy was put back (then delete {path_of(path)} as well)",
            )


def identity_of(connection: sqlite3.Connection, where: str) -> str:
    columns = connection.execute(schema.GET_IDENTITY).fetchone()
    if columns is None:
        raise StorageDamaged(where, "the identity of the journal is missing")
    return checksums.check_identity(where, columns)


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
