"""What the journals in SQLite and PostgreSQL share: a writer with a thread of its own (`group_commit`), connections for
readers, and all questions that are one statement in both (`statements`).

Every row is checked as it is read. Rows that are damaged are left out of lists, and an error where one was asked for.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from onceflow.errors import NoSuchRun, OnceflowError, StorageClosed, StorageDamaged, StorageError
from onceflow.storage import checksums, forks
from onceflow.storage.checksums import skipped
from onceflow.storage.group_commit import GroupWriter
from onceflow.storage.journal import (
    Answer,
    Command,
    DamagedRun,
    MailboxEvent,
    OnFailure,
    Outcome,
    Request,
    RunRow,
    StandingRow,
    Statistics,
    Table,
)
from onceflow.storage.load_many import found_runs
from onceflow.storage.statements import Statements, after_prefix

CHUNK = 256
"""Entries that are read at once."""

MOST_IDLE = 4
"""Connections for reading that are kept for the next reader."""

Rows = list[tuple[Any, ...]]


class SqlJournal(ABC):
    """A `Journal`, but for `load` and what each database does in its own way. Subclasses set `_writer`."""

    _writer: GroupWriter

    def __init__(self, place: str, statements: Statements) -> None:
        self.place = place
        """What errors call it."""
        self._statements = statements
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._closed: str | None = None

    @abstractmethod
    def ask(self, statement: str, wanted: Any = ()) -> Rows:
        """All rows that a statement gives, which may be many."""

    @abstractmethod
    def _fetch(self, statement: str, wanted: Any = ()) -> Rows:
        """All rows that a statement gives."""

    @abstractmethod
    def _connect(self) -> Any:
        """Another connection for reading."""

    @abstractmethod
    def _array(self, values: Sequence[str]) -> Any:
        """A list, as the statements take it."""

    @abstractmethod
    def _fitting(self, wanted: dict[str, Any]) -> list[RunRow]:
        """See `list_runs`."""

    @abstractmethod
    def _close_rest(self) -> None:
        """Close what is closed after the writer and all idle connections."""

    # -- writing -------------------------------------------------------------------------------------------------------

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
        """Not while there are readers."""
        if self._closed is None:
            self._closed = "it was closed"
            self._writer.close()
            with self._lock:
                while self._idle:
                    self._idle.pop().close()
            self._close_rest()

    def leave_to_parent(self) -> None:
        self._closed = "it was opened by the process that this one was forked from"
        forks.leave_open(*self._idle)
        self._idle = []
        self._writer.leave_to_parent()

    # -- reading -------------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return checksums.check_identity(self.place, self._fetch(self._statements.get_identity))

    def get_run(self, run: str) -> RunRow | None:
        row = self._one(self._statements.get_run, run)
        if row is not None and row.id != run:
            raise self._wrong_index(run)
        return row

    def find_name(self, name: str) -> RunRow | None:
        row = self._one(self._statements.find_name, name)
        if row is not None and row.name != name:
            raise self._wrong_index(name)
        return row

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        return found_runs(self._fetch(self._statements.find_runs, {"runs": self._array(runs)}), self.place)

    def find_prefix(self, prefix: str, limit: int = 2) -> list[RunRow]:
        wanted = {"prefix": prefix, "end": after_prefix(prefix), "limit": limit}
        return self._runs(self._fetch(self._statements.find_prefix, wanted))

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
        return self._fitting(
            {
                "statuses": None if statuses is None else self._array(statuses),
                "name": name,
                "end": after_prefix(name or ""),
                "workflow": workflow,
                "metadata": metadata,
                "before": before,
                "limit": limit,
            }
        )

    def damaged_runs(self) -> list[DamagedRun]:
        return checksums.damaged_runs(self.place, self.ask(self._statements.all_runs))

    def last_runs(
        self, statuses: Sequence[str], *, workflow: str | None = None, limit: int = 100, among: int
    ) -> list[RunRow]:
        wanted = {"statuses": self._array(statuses), "workflow": workflow, "limit": limit, "among": among}
        return self._runs(self._fetch(self._statements.last_runs, wanted))

    def owners(self, statuses: Sequence[str]) -> dict[str | None, int]:
        return dict(self._fetch(self._statements.owners, {"statuses": self._array(statuses)}))

    def owned(self, owner: str | None, statuses: Sequence[str], limit: int, *, parked: bool = False) -> list[RunRow]:
        wanted = {"owner": owner, "statuses": self._array(statuses), "limit": limit, "parked": parked}
        return self._runs(self._fetch(self._statements.owned, wanted))

    def size(self, run: str) -> int:
        return int(self._fetch(self._statements.size_of_run, {"run": run})[0][0])

    def commands(self, owner: str) -> list[Command]:
        rows = self._fetch(self._statements.commands, {"owner": owner})
        return checksums.whole(partial(checksums.check_command, self.place), rows, skipped)

    def get_standing(self, table: Table, id: str) -> StandingRow | None:
        rows = self._fetch(self._statements.get_standing[table], {"id": id})
        return checksums.check_standing(self.place, table, rows[0]) if rows else None

    def list_standing(self, table: Table) -> list[StandingRow]:
        rows = self._fetch(self._statements.list_standing[table])
        return checksums.whole(partial(checksums.check_standing, self.place, table), rows, skipped)

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        rows = self._fetch(self._statements.mailbox, {"run": run, "key": key})
        return [checksums.check_event(self.place, row) for row in rows]

    def _one(self, statement: str, run: str) -> RunRow | None:
        rows = self._fetch(statement, {"run": run})
        return checksums.check_run(self.place, rows[0]) if rows else None

    def _runs(self, rows: Rows) -> list[RunRow]:
        return checksums.whole(partial(checksums.check_run, self.place), rows, skipped)

    def _absent(self, run: str) -> OnceflowError:
        """Why a run cannot be loaded that was not found together with its definition."""
        if self.get_run(run) is None:
            return NoSuchRun(run)
        return StorageDamaged(self.place, "the stored graph of a run is missing", run=run)

    def _wrong_index(self, run: str) -> StorageDamaged:
        return StorageDamaged(self.place, "an index of the journal does not lead to a run that is there", run=run)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise StorageClosed(self.place, self._closed)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Any]:
        """A connection for one reader. After an error it is not used again."""
        self._check_open()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
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


class SqlRows(ABC):
    """`inspection.Rows`, but for entries."""

    def __init__(self, journal: SqlJournal, statements: Statements) -> None:
        self._ask = journal.ask
        self._statements = statements
        self.where = journal.place

    @abstractmethod
    def all_entries(self, number: int) -> Iterator[Any]: ...

    def structure(self) -> list[str]:
        return []

    def mark(self, number: int) -> int:
        return 0

    def all_runs(self) -> list[Any]:
        return self._ask(self._statements.all_runs)

    def has_run(self, run: str) -> bool:
        return bool(self._ask(self._statements.get_run, {"run": run}))

    def definition(self, number: int) -> Any | None:
        return next(iter(self._ask(self._statements.definition, {"number": number})), None)

    def all_events(self) -> list[Any]:
        return self._ask(self._statements.all_events)

    def all_commands(self) -> list[Any]:
        return self._ask(self._statements.all_commands)

    def all_standing(self, table: Table) -> list[Any]:
        return self._ask(self._statements.all_standing[table])
