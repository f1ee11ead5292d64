"""Runs that are kept in memory: for tests, where no files are needed and nothing has to outlive the process.

The rules of epochs and names are those of `rules`, as for any journal. Every batch is a transaction of its own, and
is answered before `submit` returns.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from onceflow.errors import NoSuchRun, OnceflowError, StorageClosed, StorageDamaged, StorageError
from onceflow.storage.blobs import Author, File, as_bytes
from onceflow.storage.journal import (
    Answer,
    Command,
    CreateRun,
    DamagedRun,
    Entry,
    Failed,
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
    WriteStanding,
)
from onceflow.storage.rules import Application, Known, Rows
from onceflow.storage.run_stores import EngineRow, Introduction
from onceflow.values.buffers import Buffer
from onceflow.values.metadata import decode as decode_metadata
from onceflow.values.metadata import fits

PATH = Path("/onceflow in memory")
"""What errors call the place. There is no such folder."""


class MemoryJournal:
    """A `Journal`."""

    lock_timeout = math.inf

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.trouble: OnceflowError | None = None
        """What every write is answered with, as long as it is set: that of a full disk, say."""
        self._on_failure: OnFailure = lambda error: None
        self._clock = clock
        self._rows = Rows()
        self._definitions: dict[int, CreateRun] = {}
        self._entries: dict[int, list[Entry]] = {}
        self._commands: dict[int, tuple[int, str, bytes]] = {}
        """Number of the command → number of the run, kind, body."""
        self._command_numbers = itertools.count(1)
        self._standing: dict[tuple[Table, str], StandingRow] = {}
        self._events: dict[int, list[tuple[int, str, str, bytes]]] = {}
        """Number of a run → its events: number, key, id, payload."""
        self._event_numbers = itertools.count(1)
        self._taken: set[int] = set()
        """Numbers of events."""
        self._lock = threading.RLock()
        self._closed = False
        self._commits = self._bytes = self._written = 0

    def identity(self) -> str:
        return "memory"

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        answer(self.commit_at_once(requests))

    def withdraw(self, answer: Answer) -> StorageError | None:
        return None

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome:
        with self._lock:
            self._check_open()
            if self.trouble is not None:
                self._on_failure(self.trouble)
                return Outcome((Failed(self.trouble),) * len(requests), ok=False)
            versions = {standing: row.version for standing, row in self._standing.items()}
            application = Application(self._rows, self._clock(), versions)
            outcome = application.apply(requests)
            if outcome.ok:
                self._write(application)
            return outcome

    def when_failed(self, then: OnFailure) -> None:
        self._on_failure = then

    def _write(self, application: Application) -> None:
        changes = application.changes
        for number in changes.deleted:
            self._definitions.pop(number, None)
            self._entries.pop(number, None)
            self._events.pop(number, None)
            self._commands = {key: command for key, command in self._commands.items() if command[0] != number}
        for number, definition in changes.definitions.items():
            self._definitions[number] = definition
            self._entries[number] = []
            self._bytes += len(definition.graph) + len(definition.settings)
        for number, _, entry, _ in changes.entries:
            self._entries[number].append(entry)
            self._bytes += len(entry.body) + len(entry.value or b"")
        for number, its_key, id, payload, _ in changes.events:
            mailbox = self._events.setdefault(number, [])
            if all(id != other for _, _, other, _ in mailbox):
                mailbox.append((next(self._event_numbers), its_key, id, payload))
        for taken, returned in changes.marked:
            self._taken.update(taken)
            self._taken.difference_update(returned)
        for number, kind, body, _ in changes.commands:
            self._commands[next(self._command_numbers)] = (number, kind, body)
        for number, forgotten in changes.forgotten:
            for key in forgotten:
                if key in self._commands and self._commands[key][0] == number:
                    del self._commands[key]
        for request in changes.standing:
            before = self._standing.pop((request.table, request.id), None)
            if isinstance(request, WriteStanding):
                written = request.definition or (b"" if before is None else before.definition)
                row = StandingRow(request.id, request.expected + 1, request.due, written, request.state)
                self._standing[request.table, request.id] = row
        self._commits += 1
        self._written += len(changes.entries)
        application.finish()

    def get_run(self, run: str) -> RunRow | None:
        self._check_open()
        known = self._rows.by_id.get(run)
        return None if known is None else known.row

    def find_name(self, name: str) -> RunRow | None:
        self._check_open()
        known = self._rows.by_name.get(name)
        return None if known is None else known.row

    def check_absence(self, run: str) -> None:
        """Memory is never damaged."""

    def damaged_runs(self) -> list[DamagedRun]:
        return []

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        found = {run: self.get_run(run) or self.find_name(run) for run in runs}
        return {run: row for run, row in found.items() if row is not None}

    def find_prefix(self, prefix: str, limit: int = 2) -> list[RunRow]:
        return [row for row in self._newest_first() if row.id.startswith(prefix)][:limit]

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
        wanted = decode_metadata(metadata)
        return [
            row
            for row in self._newest_first(before)
            if (statuses is None or row.status in statuses)
            and (name is None or (row.name is not None and row.name.startswith(name)))
            and (workflow is None or row.workflow == workflow)
            and (metadata is None or fits(decode_metadata(row.metadata), wanted))
        ][:limit]

    def last_runs(
        self, statuses: Sequence[str], *, workflow: str | None = None, limit: int = 100, among: int
    ) -> list[RunRow]:
        last = self._newest_first()[:among]
        return [row for row in last if row.status in statuses and workflow in (None, row.workflow)][:limit]

    def owners(self, statuses: Sequence[str]) -> dict[str | None, int]:
        return dict(Counter([row.owner for row in self._newest_first() if row.status in statuses]))

    def owned(self, owner: str | None, statuses: Sequence[str], limit: int, *, parked: bool = False) -> list[RunRow]:
        found = [row for row in self._newest_first() if row.owner == owner and row.status in statuses]
        return [row for row in found[::-1] if (row.due is not None) == parked][:limit]

    def _newest_first(self, before: str | None = None) -> list[RunRow]:
        self._check_open()
        newest = sorted(self._rows.by_id.values(), key=_number, reverse=True)
        mark = None if before is None else self._rows.by_id.get(before)
        if mark is not None:
            newest = [known for known in newest if known.number < mark.number]
        elif before is not None:
            newest = [known for known in newest if known.row.id < before]
        return [known.row for known in newest]

    def size(self, run: str) -> int:
        with self._lock:
            known = self._rows.by_id.get(run)
            if known is None:
                return 0
            definition = self._definitions[known.number]
            entries = self._entries[known.number]
            return (
                len(definition.graph)
                + len(definition.settings)
                + sum([len(entry.body) + len(entry.value or b"") for entry in entries])
            )

    @contextlib.contextmanager
    def load(self, run: str) -> Iterator[Loaded]:
        with self._lock:
            self._check_open()
            known = self._rows.by_id.get(run)
            if known is None:
                raise NoSuchRun(run)
            definition = self._definitions[known.number]
            entries = itertools.islice(self._entries[known.number], known.entries)
            loaded = Loaded(known.row, definition.graph, definition.settings, entries)
        yield loaded

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        with self._lock:
            self._check_open()
            found: dict[str, Short] = {}
            for known in [self._rows.by_id[run] for run in runs if run in self._rows.by_id]:
                if known.entries <= most:
                    run, definition = known.row.id, self._definitions[known.number]
                    entries = self._entries[known.number][: known.entries]
                    mail = [
                        MailboxEvent(number, run, key, payload)
                        for number, key, _, payload in self._events.get(known.number, ())
                        if number not in self._taken
                    ]
                    found[run] = Short(known.row, definition.graph, definition.settings, entries, mail)
            return found

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        with self._lock:
            known = self._rows.by_id.get(run)
            if known is None:
                return None, set()
            return known.row, {entry.blob for entry in self._entries[known.number] if entry.blob is not None}

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        with self._lock:
            known = self._rows.by_id.get(run)
            last = [] if known is None else self._entries[known.number][-among:]
            return [entry for entry in last if entry.kind in kinds]

    def commands(self, owner: str) -> list[Command]:
        with self._lock:
            runs = {known.number: known.row for known in self._rows.by_id.values()}
            return [
                Command(key, runs[number].id, kind, body)
                for key, (number, kind, body) in self._commands.items()
                if runs[number].owner == owner
            ]

    def get_standing(self, table: Table, id: str) -> StandingRow | None:
        self._check_open()
        return self._standing.get((table, id))

    def list_standing(self, table: Table) -> list[StandingRow]:
        self._check_open()
        return sorted([row for (its, _), row in self._standing.items() if its == table], key=lambda row: row.id)

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        with self._lock:
            known = self._rows.by_id.get(run)
            return [
                MailboxEvent(number, run, key, payload)
                for number, other, _, payload in self._events.get(known.number if known is not None else 0, ())
                if other == key and number not in self._taken
            ]

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        with self._lock:
            found: dict[str, int] = {}
            for known in self._rows.by_id.values():
                free = [number for number, *_ in self._events.get(known.number, ()) if number not in self._taken]
                if known.row.owner == owner and free and free[-1] > after:
                    found[known.row.id] = free[-1]
            return found

    def statistics(self) -> Statistics:
        return Statistics(self._commits, self._commits, self._written, self._bytes, 0.0, 0.0)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosed(str(PATH), "it was closed")


def _number(known: Known) -> int:
    return known.number


class MemoryBlobs:
    """`run_stores.Values`."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._files: dict[str, dict[str, File]] = {}
        """Run → its references, and what they stand for."""

    def write(self, author: Author, name: str, buffers: Sequence[Buffer]) -> str:
        value = b"".join([as_bytes(buffer) for buffer in buffers])
        reference = f"{author.run}/{author.epoch}.{author.engine}.{len(value)}.{name}"
        self._values[reference] = value
        self._files.setdefault(author.run, {})[reference] = File(reference, author.epoch, author.engine, len(value))
        return reference

    def read(self, reference: str) -> bytes:
        try:
            return self._values[reference]
        except KeyError:
            raise StorageDamaged(f"{PATH}/{reference}", "a saved value is missing") from None

    def map(self, reference: str) -> memoryview:
        return memoryview(bytearray(self.read(reference)))

    def delete(self, reference: str) -> None:
        self._values.pop(reference, None)
        self._files.get(reference.partition("/")[0], {}).pop(reference, None)

    discard = delete

    def files(self, run: str) -> Iterator[File]:
        yield from list(self._files.get(run, {}).values())

    def delete_run(self, run: str) -> None:
        for reference in self._files.pop(run, {}):
            self._values.pop(reference, None)


class MemoryHome:
    """A `run_stores.Place` for one engine."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.path = PATH
        self.engine = "memory"
        self.journal = MemoryJournal(clock)
        self.blobs = MemoryBlobs()

    @property
    def engines(self) -> MemoryHome:
        return self

    def is_alive(self, engine: str) -> bool:
        return engine == self.engine

    def ring(self, engine: str) -> None:
        """There are no other engines."""

    def ring_all(self) -> None:
        """There are no other engines."""

    def members(self) -> list[EngineRow]:
        return [EngineRow(self.engine, Introduction(os.getpid(), home=str(self.path)), alive=True)]

    def close(self) -> None:
        self.journal.close()
