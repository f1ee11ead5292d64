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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onceflow.errors import StorageDamaged, StorageError
from onceflow.storage import checksums, failures, forks, private_files, schema
from onceflow.storage.fair_lock import PAUSE, Turns
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.high_water_marks import Marks, path_of
from onceflow.storage.journal import Durability, Entry, Loaded, RunRow, Short
from onceflow.storage.load_many import short_runs
from onceflow.storage.lock_waits import LOCK_TIMEOUT, LockWait, connect_to_read
from onceflow.storage.schema import STATEMENTS
from onceflow.storage.sql_journal import CHUNK, Rows, SqlJournal, SqlRows
from onceflow.storage.writer import Writer

_ADAPTERS: dict[type, Callable[[Any], Any]] = {bytes: bytes, type(None): {None: None}.get}
"""Each gives back what it is given. Python looks for an adapter of each parameter that is bytes or None. Where there is
none it makes an exception, and drops it, which takes longer than all else that is done with a parameter."""

for _kind, _adapter in _ADAPTERS.items():
    sqlite3.adapters.setdefault((_kind, sqlite3.PrepareProtocol), _adapter)

LOG_BYTES = 1280 * 1024
"""To which the write-ahead log is filled up when the journal is opened."""

STEPS = 1_000_000
"""Of SQLite's machine, between two looks for signals while everything is read."""


class SqliteJournal(SqlJournal):
    """Opening it creates the file, or brings an older one up to date. `lock` is the file that proves that its engine
    lives: if that is gone, nothing more is written (`file_identity`)."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "power",
        lock_timeout: float = LOCK_TIMEOUT,
        clock: Callable[[], float] = time.time,
        lock: Path | None = None,
    ) -> None:
        super().__init__(str(path), STATEMENTS)
        self._path = path
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
        self._writer: Writer = Writer(
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

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        forks.leave_open(self._last)

    def check_absence(self, run: str) -> None:
        with self._snapshot() as connection:
            wanted = {"runs": self._array([run])}
            if not connection.execute(STATEMENTS.find_runs, wanted).fetchall():  # else: created since
                for columns in connection.execute(STATEMENTS.all_runs):
                    row = checksums.check_run(self.place, columns)
                    if run in (row.id, row.name):
                        raise self._wrong_index(run)

    @contextlib.contextmanager
    def load(self, run: str) -> Iterator[Loaded]:
        with self._reading() as connection:
            with failures.told(self._path):
                connection.execute(schema.BEGIN_READING)
                row = connection.execute(schema.LOAD_RUN, (run,)).fetchone()
                if row is None:
                    raise self._absent(run)
                number, graph, settings, checksum, *columns = row
                found = checksums.check_run(self.place, columns)
                if found.id != run:
                    raise self._wrong_index(run)
                checksums.check_definition(self.place, found, number, graph, settings, checksum)
                entries = connection.execute(schema.LOAD_ENTRIES, schema.keys_of(number))
            try:
                yield Loaded(found, graph, settings, self._entries(entries, run, number, columns[2]))
            finally:
                entries.close()
            with failures.told(self._path):
                connection.execute(schema.COMMIT)

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        with self._snapshot() as connection:
            rows = connection.execute(STATEMENTS.load_runs, {"runs": self._array(runs)}).fetchall()
            wanted = {"numbers": json.dumps([number for number, *_ in rows]), "most": most + 1}
            entries = connection.execute(schema.FIRST_ENTRIES, wanted).fetchall()
            events = connection.execute(STATEMENTS.free_events, wanted).fetchall()
        short = short_runs(rows, entries, events, most, self.place)
        few = {number: short[columns[3]] for number, _, _, _, *columns in rows if columns[3] in short}
        for number, found in few.items():
            if len(found.entries) < self._marks.entries(number):  # perhaps there are more by now
                del short[found.run.id]
        return short

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        with self._snapshot() as connection:
            columns = connection.execute(STATEMENTS.get_run, {"run": run}).fetchone()
            number = 0 if columns is None else columns[1]
            named = connection.execute(schema.NAMED_BLOBS, schema.keys_of(number)).fetchall()
        row = None if columns is None else checksums.check_run(self.place, columns)
        return row, {reference for (reference,) in named}

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        with self._snapshot() as connection:
            _, number, *_ = connection.execute(STATEMENTS.get_run, {"run": run}).fetchone() or (0, 0)
            first, end = schema.keys_of(number)
            (last,) = connection.execute(schema.LAST_KEY, (first, end)).fetchone()
            wanted = (max(first, (last or 0) - among + 1), last, self._array(kinds))
            rows = [] if last is None else connection.execute(schema.LAST_ENTRIES, wanted).fetchall()
        return [checksums.check_entry(self.place, run, place, columns) for place, *columns in rows]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        return dict(self._fetch(schema.RUNS_WITH_MAIL, (after, owner)))

    def rows(self) -> SqliteRows:
        """For `inspection`."""
        return SqliteRows(self, self._marks)

    def ask(self, statement: str, wanted: Any = ()) -> Rows:
        with self._reading() as connection, failures.told(self._path):
            connection.set_progress_handler(_nothing, STEPS)  # has Python look for signals: it may take minutes
            try:
                found: Rows = connection.execute(statement, wanted).fetchall()
                return found
            finally:
                connection.set_progress_handler(None, 0)

    def _fetch(self, statement: str, wanted: Any = ()) -> Rows:
        with self._reading() as connection, failures.told(self._path):
            found: Rows = connection.execute(statement, wanted).fetchall()
        return found

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection on which all statements see the same moment."""
        with self._reading() as connection, failures.told(self._path):
            connection.execute(schema.BEGIN_READING)
            yield connection
            connection.execute(schema.COMMIT)

    def _connect(self) -> sqlite3.Connection:
        with failures.told(self._path):
            return connect_to_read(self._path, self.lock_timeout)

    def _array(self, values: Sequence[str]) -> str:
        return json.dumps(list(values))

    def _fitting(self, wanted: dict[str, Any]) -> list[RunRow]:
        statement = schema.LIST_RUNS if wanted["statuses"] is None else schema.LIST_RUNS_BY_STATUS
        limit = -1 if wanted["limit"] is None else wanted["limit"]
        return self._runs(self._fetch(statement, wanted | {"limit": limit}))

    def _close_rest(self) -> None:
        self._last.close()

    def _check_open(self) -> None:
        super()._check_open()
        try:
            self._identity.check()
        except StorageError as error:
            self._writer.fail(error)
            raise

    def _entries(self, cursor: sqlite3.Cursor, run: str, number: int, least: int) -> Iterator[Entry]:
        count = 0
        while True:
            with failures.told(self._path):
                chunk = cursor.fetchmany(CHUNK)
            if not chunk:
                break
            yield from checksums.check_entries(self.place, run, count, chunk)
            count += len(chunk)
        checksums.check_count(self.place, run, count, least)
        self._check_mark(run, number, count)

    def _check_mark(self, run: str, number: int, count: int) -> None:
        """Whether a run has as many entries as it is known to have had. What was read may be older than the mark."""
        if count >= self._marks.entries(number):
            return
        self._marks.renew()
        marked = self._marks.entries(number)
        ((last,),) = self._fetch(schema.LAST_KEY, schema.keys_of(number))
        if self._fetch(STATEMENTS.get_run, {"run": run}):
            now = 0 if last is None else last % schema.PLACES + 1
            checksums.check_count(self.place, run, now, marked)


class SqliteRows(SqlRows):
    """Nothing is looked up in an index, which may be damaged itself."""

    def __init__(self, journal: SqliteJournal, marks: Marks) -> None:
        super().__init__(journal, STATEMENTS)
        self._marks = marks

    def structure(self) -> list[str]:
        try:
            found = [str(text) for (text,) in self._ask(schema.INTEGRITY)]
            stray = self._ask(schema.STRAY_ENTRIES)
        except StorageError as error:
            if getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from None
            return [error.reason]
        wrong = [] if found == ["ok"] else found
        return wrong + [f"{count} entries are of run number {number}, which is not there" for number, count in stray]

    def all_entries(self, number: int) -> Iterator[Any]:
        """In chunks: whole chunks are yielded, also if a page after it is damaged."""
        first, end = schema.keys_of(number)
        while True:
            chunk = self._ask(f"{schema.LOAD_ENTRIES} LIMIT {CHUNK}", (first, end))
            yield from chunk
            if len(chunk) < CHUNK:
                return
            first = number * schema.PLACES + chunk[-1][0] + 1

    def mark(self, number: int) -> int:
        self._marks.renew()
        return self._marks.entries(number)

    def has_run(self, run: str) -> bool:
        return any(columns[3] == run for columns in self.all_runs())


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
    is closed: closing a file ends the locks of every thread in this process that has it open."""
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
    return checksums.check_identity(where, connection.execute(STATEMENTS.get_identity).fetchall())


def fill_up_log(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the log as long as it will become anyway, with zeros.

    A commit that makes a file longer has to wait for the file system's own journal as well; one that overwrites does
    not, and takes half the time (measured on ext4). SQLite takes zeros for the end of the log: a frame counts only if
    it carries the log's salt and a checksum. No other process writes meanwhile, because the transaction has SQLite's
    write lock.
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
