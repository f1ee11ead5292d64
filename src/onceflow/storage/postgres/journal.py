"""The journal in a PostgreSQL database: reading, and the implementation of `storage.journal`.

A run is read without holding a transaction open: its entries are only ever added, so those that were there when the
run was looked up are the same whenever they are fetched, over whichever connection. A reader that loses its connection
goes on where it was.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from onceflow.errors import NoSuchRun, StorageError
from onceflow.storage import checksums, forks, redaction
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.journal import Entry, Loaded, RunRow, Short
from onceflow.storage.load_many import short_runs
from onceflow.storage.postgres import connections, schema
from onceflow.storage.postgres.presence import Attendance, Member
from onceflow.storage.postgres.schema import STATEMENTS
from onceflow.storage.postgres.writer import PostgresWriter
from onceflow.storage.sql_journal import CHUNK, Rows, SqlJournal, SqlRows
from onceflow.values.metadata import decode as decode_metadata
from onceflow.values.metadata import fits

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

PAGE = 1000
"""Runs that are read at once, where not the database but we decide which of them fit."""

OPENING = 10.0
"""Seconds that a server has to answer when a journal is opened."""


class PostgresJournal(SqlJournal):
    """Opening it creates the tables, or brings older ones up to date. `member` is the engine that it is opened for;
    without one it makes one up."""

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
        super().__init__(redaction.redacted(url), STATEMENTS)
        self.url = url
        self._ask(lambda connection: schema.bring_up_to_date(connection, self.place), OPENING)
        self.attendance = Attendance(url, self.place, member)
        self._writer = PostgresWriter(
            url, self.place, member.id, clock, self.attendance.enrol, self.attendance.patience, identity
        )
        forks.watch(self)

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        self.attendance.leave_to_parent()

    def check_absence(self, run: str) -> None:
        """The database answers for its indexes."""

    @contextlib.contextmanager
    def load(self, run: str) -> Iterator[Loaded]:
        found = self._fetch(schema.LOAD_RUN, (run,))
        if not found:
            raise self._absent(run)
        number, count, graph, settings, checksum, *columns = found[0]
        row = checksums.check_run(self.place, columns)
        checksums.check_definition(self.place, row, number, graph, settings, checksum)
        checksums.check_count(self.place, run, count, columns[2])
        entries = _Entries(self, run, number, count)
        try:
            yield Loaded(row, graph, settings, entries)
        finally:
            entries.over = True

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        rows = self._fetch(STATEMENTS.load_runs, {"runs": self._array(runs)})
        numbers = [number for number, *_ in rows]
        entries = self._fetch(schema.FIRST_ENTRIES, (numbers, most))
        events = self._fetch(STATEMENTS.free_events, {"numbers": numbers})
        return short_runs(rows, entries, events, most, self.place)

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        found = self._fetch(schema.NAMED_BLOBS, (run,))
        if not found:
            return None, set()
        *columns, named = found[0]
        return checksums.check_run(self.place, columns), set(named)

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        rows = self._fetch(schema.LAST_ENTRIES, (run, among, self._array(kinds)))
        return [checksums.check_entry(self.place, run, place, columns) for place, *columns in rows]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        """Of all that have not been taken: events may be committed in another order than they were numbered in."""
        return dict(self._fetch(schema.RUNS_WITH_MAIL, (owner,)))

    def read_entries(self, run: str, number: int, first: int, end: int) -> list[Entry]:
        """Of a run that was loaded."""
        wanted = (number, first, end)
        rows = self._ask(lambda connection: connection.execute(schema.LOAD_ENTRIES, wanted, binary=True).fetchall())
        if len(rows) < end - first and self.get_run(run) is None:  # it was deleted meanwhile
            raise NoSuchRun(run)
        checked = checksums.check_entries(self.place, run, first, rows)
        checksums.check_count(self.place, run, first + len(checked), end)
        return checked

    def rows(self) -> PostgresRows:
        """For `inspection`."""
        return PostgresRows(self, STATEMENTS)

    def ask(self, statement: str, wanted: Any = ()) -> Rows:
        return self._ask(lambda connection: connection.execute(statement, wanted).fetchall())

    _fetch = ask

    def _ask(self, act: Callable[[Any], T], patience: float = connections.PATIENCE) -> T:
        def attempt() -> T:
            with self._reading() as connection:
                return act(connection)

        return connections.persistently(attempt, self.place, patience)

    def _connect(self) -> psycopg.Connection[Any]:
        return connections.connect(self.url)

    def _array(self, values: Sequence[str]) -> list[str]:
        return list(values)

    def _fitting(self, wanted: dict[str, Any]) -> list[RunRow]:
        """Metadata is compared here, page by page."""
        limit = wanted["limit"]
        if wanted["metadata"] is None:
            return self._runs(self._fetch(schema.LIST_RUNS, wanted))
        members = decode_metadata(wanted["metadata"])
        found: list[RunRow] = []
        while limit is None or len(found) < limit:
            rows = self._fetch(schema.LIST_RUNS, wanted | {"limit": PAGE})
            page = self._runs(rows)
            found += [row for row in page if fits(decode_metadata(row.metadata), members)]
            if len(rows) < PAGE or not page:
                break
            wanted["before"] = page[-1].id
        return found[:limit]

    def _close_rest(self) -> None:
        self.attendance.close()


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


class PostgresRows(SqlRows):
    """The database answers for its own structure."""

    def all_entries(self, number: int) -> Iterator[Any]:
        (count,) = self._ask(schema.COUNT_ENTRIES, (number,))[0]
        for first in range(0, count, CHUNK):
            yield from self._ask(schema.ENTRIES_FROM, (number, first, first + CHUNK))
