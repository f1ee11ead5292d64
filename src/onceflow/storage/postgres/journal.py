"""The journal in a PostgreSQL database: reading, and the whole behind `storage.journal`.

A run is read without holding a transaction open: its entries are only ever added, so those that were there when the
run was looked up are the same whenever they are fetched, over whichever connection. A reader that loses its connection
goes on where it was.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from onceflow.errors import NoSuchRun, StorageClosed, StorageDamaged, StorageError
from onceflow.storage import checksums, forks, redaction
from onceflow.storage.checksums import skipped
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.journal import (
    Answer,
    Command,
    DamagedRun,
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
from onceflow.storage.postgres import connections, schema
from onceflow.storage.postgres.presence import Attendance, Member
from onceflow.storage.postgres.writer import PostgresWriter
from onceflow.values.metadata import decode as decode_metadata
from onceflow.values.metadata import fits

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

CHUNK = 256
"""Entries that are read at once."""

PAGE = 1000
"""Runs that are read at once, where not the database but we decide which of them fit."""

OPENING = 10.0
"""Seconds that a server has to answer when a journal is opened."""

MOST_IDLE = 4
"""Connections for reading that are kept for the next reader."""


class PostgresJournal:
    """A `Journal`. Opening it creates the tables, or brings older ones up to date. `member` is the engine that it is
    opened for; without one it makes one up."""

    lock_timeout = math.inf

    def __init__(
        self,
        url: str,
        member: Member | None = None,
        *,
        clock: Callable[[], float] = time.time,
        identity: FileIdentity | None = None,
    ) -> None:
        member = member or Member(os.urandom(8).hex())
        self.url = url
        self._place = redaction.redacted(url)
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._ask(lambda connection: schema.bring_up_to_date(connection, self._place), OPENING)
        self.attendance = Attendance(url, self._place, member)
        self._writer = PostgresWriter(
            url, self._place, member.id, clock, self.attendance.enrol, self.attendance.patience, identity
        )
        forks.watch(self)

    def identity(self) -> str:
        return checksums.check_identity(self._place, self._rows(schema.GET_IDENTITY, ())[0])

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        self._writer.submit(requests, answer)

    def withdraw(self, answer: Answer) -> StorageError | None:
        return None

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        return self._writer.commit_at_once(requests)

    def when_failed(self, then: OnFailure) -> None:
        self._writer.when_failed(then)

    def statistics(self) -> Statistics:
        return self._writer.statistics()

    def close(self) -> None:
        if self._closed is None:
            self._closed = "it was closed"
            self._writer.close()
            self.attendance.close()
            with self._lock:
                while self._idle:
                    self._idle.pop().close()

    def leave_to_parent(self) -> None:
        self._closed = "it was opened by the process that this one was forked from"
        _left_to_parent.extend(self._idle)
        self._idle = []
        self._writer.leave_to_parent()
        self.attendance.leave_to_parent()

    def get_run(self, run: str) -> RunRow | None:
        return self._one(schema.GET_RUN, run)

    def find_name(self, name: str) -> RunRow | None:
        return self._one(schema.FIND_NAME, name)

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        return found_runs(self._rows(schema.FIND_RUNS, {"runs": list(runs)}), self._place)

    def check_absence(self, run: str) -> None:
        """The database answers for its indexes."""

    def find_prefix(self, prefix: str, limit: int = 2) -> list[RunRow]:
        wanted = {"prefix": prefix, "end": schema.after_prefix(prefix), "limit": limit}
        return self._runs(self._rows(schema.FIND_PREFIX, wanted))

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
            "statuses": None if statuses is None else list(statuses),
            "name": name,
            "end": schema.after_prefix(name or ""),
            "workflow": workflow,
            "before": before,
            "limit": limit,
        }
        if metadata is None:
            return self._runs(self._rows(schema.LIST_RUNS, wanted))
        members = decode_metadata(metadata)
        found: list[RunRow] = []
        while limit is None or len(found) < limit:
            rows = self._rows(schema.LIST_RUNS, wanted | {"limit": PAGE})
            page = self._runs(rows)
            found += [row for row in page if fits(decode_metadata(row.metadata), members)]
            if len(rows) < PAGE or not page:
                break
            wanted["before"] = page[-1].id
        return found[:limit]

    def last_runs(
        self, statuses: Sequence[str], *, workflow: str | None = None, limit: int = 100, among: int
    ) -> list[RunRow]:
        wanted = {"statuses": list(statuses), "workflow": workflow, "limit": limit, "among": among}
        return self._runs(self._rows(schema.LAST_RUNS, wanted))

    def owners(self, statuses: Sequence[str]) -> dict[str | None, int]:
        return dict(self._rows(schema.OWNERS, (list(statuses),)))

    def owned(self, owner: str | None, statuses: Sequence[str], limit: int, *, parked: bool = False) -> list[RunRow]:
        return self._runs(self._rows(schema.OWNED, (list(statuses), owner, parked, limit)))

    def damaged_runs(self) -> list[DamagedRun]:
        return checksums.damaged_runs(self._place, self.ask(schema.ALL_RUNS))

    def size(self, run: str) -> int:
        found = self._rows(schema.SIZE_OF_RUN, (run,))
        return int(found[0][0])

    @contextlib.contextmanager
    def load(self, run: str) -> Iterator[Loaded]:
        found = self._rows(schema.LOAD_RUN, (run,))
        if not found:
            if self.get_run(run) is not None:
                raise StorageDamaged(self._place, "the stored graph of a run is missing", run=run)
            raise NoSuchRun(run)
        number, count, graph, settings, checksum, *columns = found[0]
        row = checksums.check_run(self._place, columns)
        checksums.check_definition(self._place, row, number, graph, settings, checksum)
        checksums.check_count(self._place, run, count, columns[2])
        entries = _Entries(self, run, number, count)
        try:
            yield Loaded(row, graph, settings, entries)
        finally:
            entries.over = True

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        rows = self._rows(schema.LOAD_RUNS, (list(runs),))
        numbers = [number for number, *_ in rows]
        entries = self._rows(schema.FIRST_ENTRIES, (numbers, most))
        return short_runs(rows, entries, self._rows(schema.FREE_EVENTS, (numbers,)), most, self._place)

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        found = self._rows(schema.NAMED_BLOBS, (run,))
        if not found:
            return None, set()
        *columns, named = found[0]
        return checksums.check_run(self._place, columns), set(named)

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        rows = self._rows(schema.LAST_ENTRIES, (run, among, list(kinds)))
        return [checksums.check_entry(self._place, run, place, columns) for place, *columns in rows]

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        return [checksums.check_event(self._place, row) for row in self._rows(schema.MAILBOX, (run, key))]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        """Of all that nobody has taken: events may be committed in another order than they were numbered in."""
        return dict(self._rows(schema.RUNS_WITH_MAIL, (owner,)))

    def commands(self, owner: str) -> list[Command]:
        rows = self._rows(schema.LIST_COMMANDS, (owner,))
        return checksums.whole(partial(checksums.check_command, self._place), rows, skipped)

    def get_standing(self, table: Table, id: str) -> StandingRow | None:
        found = self._rows(schema.GET_STANDING[table], (id,))
        return checksums.check_standing(self._place, table, found[0]) if found else None

    def list_standing(self, table: Table) -> list[StandingRow]:
        rows = self._rows(schema.LIST_STANDING[table], ())
        return checksums.whole(partial(checksums.check_standing, self._place, table), rows, skipped)

    def read_entries(self, run: str, number: int, first: int, end: int) -> list[Entry]:
        """Of a run that was loaded."""
        rows = self._rows(schema.LOAD_ENTRIES, (number, first, end), binary=True)
        if len(rows) < end - first and self.get_run(run) is None:  # it was deleted meanwhile
            raise NoSuchRun(run)
        checked = checksums.check_entries(self._place, run, first, rows)
        checksums.check_count(self._place, run, first + len(checked), end)
        return checked

    def rows(self) -> PostgresRows:
        """For `inspection`."""
        return PostgresRows(self)

    def ask(self, question: str, wanted: Any = (), *, patience: float = connections.PATIENCE) -> list[tuple[Any, ...]]:
        """For `fleet`. All rows that a statement of `schema` gives."""
        return self._ask(lambda connection: connection.execute(question, wanted).fetchall(), patience)

    @property
    def place(self) -> str:
        """What errors call it."""
        return self._place

    def _one(self, statement: str, wanted: str) -> RunRow | None:
        found = self._rows(statement, (wanted,))
        return checksums.check_run(self._place, found[0]) if found else None

    def _runs(self, rows: Sequence[tuple[Any, ...]]) -> list[RunRow]:
        return checksums.whole(partial(checksums.check_run, self._place), rows, skipped)

    def _rows(self, statement: str, wanted: Any, *, binary: bool = False) -> list[tuple[Any, ...]]:
        return self._ask(lambda connection: connection.execute(statement, wanted, binary=binary).fetchall())

    def _ask(self, act: Callable[[Any], T], patience: float = connections.PATIENCE) -> T:
        def attempt() -> T:
            with self._reading() as connection:
                return act(connection)

        return connections.persistently(attempt, self._place, patience)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Any]:
        """A connection for one reader. After an error it is not used again."""
        if self._closed is not None:
            raise StorageClosed(self._place, self._closed)
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connections.connect(self.url)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if self._is_open() and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _is_open(self) -> bool:
        return self._closed is None


class _Entries:
    """Those of a loaded run, in order."""

    def __init__(self, journal: PostgresJournal, run: str, number: int, count: int) -> None:
        self._journal = journal
        self._run = run
        self._number = number
        self._count = count
        self._fetched = 0
        self._chunk: Iterator[Entry] = iter(())
        self.over = False

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> Entry:
        if self.over:
            raise StorageError(self._journal.place, f"run {self._run} is not being read any more")
        entry = next(self._chunk, None)
        if entry is not None:
            return entry
        if self._fetched == self._count:
            raise StopIteration
        end = min(self._fetched + CHUNK, self._count)
        chunk = self._journal.read_entries(self._run, self._number, self._fetched, end)
        self._fetched, self._chunk = end, iter(chunk)
        return next(self._chunk)


class PostgresRows:
    """`inspection.Rows`. The database answers for its own structure."""

    def __init__(self, journal: PostgresJournal) -> None:
        self._journal = journal
        self.where = journal.place

    def structure(self) -> list[str]:
        return []

    def all_runs(self) -> list[Any]:
        return self._journal.ask(schema.ALL_RUNS)

    def definition(self, number: int) -> Any | None:
        return next(iter(self._journal.ask(schema.DEFINITION, (number,))), None)

    def all_entries(self, number: int) -> Iterator[Any]:
        (count,) = self._journal.ask(schema.COUNT_ENTRIES, (number,))[0]
        for first in range(0, count, CHUNK):
            yield from self._journal.ask(schema.ENTRIES_FROM, (number, first, first + CHUNK))

    def mark(self, number: int) -> int:
        return 0

    def has_run(self, run: str) -> bool:
        return bool(self._journal.ask(schema.GET_RUN, (run,)))

    def all_events(self) -> list[Any]:
        return self._journal.ask(schema.ALL_EVENTS)

    def all_commands(self) -> list[Any]:
        return self._journal.ask(schema.ALL_COMMANDS)

    def all_standing(self, table: Table) -> list[Any]:
        return self._journal.ask(schema.LIST_STANDING[table])


_left_to_parent: list[Any] = []
"""In a forked child: connections that must not be closed."""
