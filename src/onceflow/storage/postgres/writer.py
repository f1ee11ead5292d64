"""The thread that commits to PostgreSQL (`group_commit`): it writes what `rules` has decided.

Most transactions only append entries: they are one statement, `enter`, and one round trip. The others are sent as a
pipeline, which is one round trip as well; the frequent ones without a detour (`one_round_trip`).

**A lost connection.** Whether a transaction was committed whose answer got lost is found out before anything else:
other connections of this writer are ended, the engine's `generation` is changed, which waits for a transaction of the
old generation that is still under way and lets none succeed afterwards, and then `sequence` shows which one was the
last. If it is ours, it has happened; if not, it never will, and is written again. So nothing is written twice, and
callers never learn that there was a problem.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from onceflow.errors import StorageDamaged, StorageError
from onceflow.storage import checksums, forks
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.group_commit import Batch, GroupWriter, size_of
from onceflow.storage.journal import (
    CreateRun,
    DeleteDamagedRun,
    DeleteStanding,
    OfStanding,
    Outcome,
    Request,
    WriteStanding,
)
from onceflow.storage.postgres import connections, one_round_trip, schema
from onceflow.storage.postgres.one_round_trip import Statement, Swift
from onceflow.storage.rules import Application, Changes, Known, Rows, Standing

if TYPE_CHECKING:
    import psycopg

DIGITS = 6
"""Of a second's fraction."""

MOST_CONFLICTS = 100
"""How often in a row others may be quicker."""

Connection = Any

END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()
"""


class PostgresWriter(GroupWriter):
    """`enrol` makes the engine known before the first write; `patience` says for how many seconds a lost server is
    waited for; `identity` is the lock that proves to others that the engine lives."""

    def __init__(
        self,
        url: str,
        place: str,
        engine: str,
        clock: Callable[[], float],
        enrol: Callable[[], None],
        patience: Callable[[], float],
        identity: FileIdentity | None = None,
    ) -> None:
        super().__init__(place)
        self._url = url
        self._engine = engine
        self._clock = clock
        self._enrol = enrol
        self._patience = patience
        self._identity = identity
        self._title = f"onceflow writer {engine}"
        self._rows = Rows()
        self._last_of_block = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._swift: Swift | None = None
        self._generation = self._sequence = 0
        self._start()

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        if not self._writing.acquire(blocking=False):
            return None
        try:
            if not self._may_commit_at_once():
                return None
            (outcome,) = self._commit([requests])
            return outcome
        finally:
            self._writing.release()

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        forks.leave_open(self._connection)
        self._connection = None

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _write_group(self, first: Batch) -> bool:
        group, ending = self._drain(first)
        self._answer(group, self._commit([requests for requests, _ in group]))
        return ending

    def _commit(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        failure = self._failure
        if failure is None:
            psycopg = connections.library()
            try:
                return self._transact(batches)
            except StorageDamaged as error:
                if error.run is not None:
                    return self._one_by_one(batches, error)
                failure = error
            except StorageError as error:
                failure = error
            except psycopg.Error as error:
                if connections.is_about_values(error):
                    return self._one_by_one(batches, error)
                failure = connections.as_ours(error, self._place)
            except Exception as error:
                return self._one_by_one(batches, error)
            self._fail(failure)
        return [self._failed(requests, failure) for requests in batches]

    def _transact(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        started = time.perf_counter()
        new = sum([isinstance(request, CreateRun) for batch in batches for request in batch])
        for _ in range(MOST_CONFLICTS):
            if new:
                self._reserve(new)
            needed = self._rows.needed(batches)
            versions = self._look_up_standing(needed.standing)
            damaged = self._look_up_damaged(needed.damaged)
            application = Application(self._rows, round(self._clock(), DIGITS), versions, damaged)
            outcomes = self._decide(application, batches)
            if outcomes is None:
                self._rows.forget()
                continue
            size = 0
            if any(outcome.ok and batch for outcome, batch in zip(outcomes, batches, strict=True)):
                known = self._known(batch for batch, outcome in zip(batches, outcomes, strict=True) if outcome.ok)
                written = self._write(application.changes, known)
                if written is None:
                    self._rows.forget()
                    continue
                size = written
            if self._identity is not None:
                self._identity.check()
            application.finish()
            self._count(len(batches), len(application.changes.entries), size, started)
            return outcomes
        raise StorageError(self._place, "too many others write to the same runs")

    def _decide(self, application: Application, batches: list[Sequence[Request]]) -> list[Outcome] | None:
        """None if something is refused because of what was known from before: it has to be looked up anew."""
        remembered = bool(self._rows.by_id)
        needed = self._rows.needed(batches)
        if needed.ids or needed.names:
            remembered = bool(self._rows.by_id)
            self._look_up(needed.ids, needed.names)
        outcomes = application.apply_all(batches)
        return outcomes if not remembered or all(outcome.ok for outcome in outcomes) else None

    def _known(self, batches: Any) -> list[Known]:
        """The runs that these batches are about, as they were before."""
        others = (CreateRun, WriteStanding, DeleteStanding, DeleteDamagedRun)
        runs = {request.run for batch in batches for request in batch if not isinstance(request, others)}
        return [self._rows.by_id[run] for run in runs if run in self._rows.by_id]

    # -- reading -------------------------------------------------------------------------------------------------------

    def _look_up(self, ids: set[str], names: set[str]) -> None:
        wanted = {"ids": sorted(ids), "names": sorted(names)}
        found = self._persistently(lambda connection: connection.execute(schema.LOOK_UP, wanted).fetchall())
        for number, last, *columns in found:
            row = checksums.check_run(self._place, columns)
            self._rows.learn(Known(number, row, max(0 if last is None else last + 1, columns[2])))

    def _look_up_standing(self, wanted: set[Standing]) -> dict[Standing, int]:
        versions: dict[Standing, int] = {}
        for table in {table for table, _ in wanted}:
            ids = [id for its, id in wanted if its == table]
            select = partial(_select, schema.VERSIONS_OF_STANDING[table], (ids,))
            versions |= {(table, id): version for id, version in self._persistently(select)}
        return versions

    def _look_up_damaged(self, numbers: set[int]) -> set[int]:
        """Those that are. No number is used twice, and nothing mends a row."""
        if not numbers:
            return set()
        rows = self._persistently(partial(_select, schema.GET_RUNS_BY_NUMBER, (sorted(numbers),)))
        return {run.number for run in checksums.damaged_runs(self._place, rows)}

    def _reserve(self, runs: int) -> None:
        """Numbers for so many new runs."""
        if self._last_of_block - self._rows.last_number < runs:
            blocks = -(-runs // schema.BLOCK)
            drawn: list[int] = []
            while len(drawn) < blocks:
                block = self._persistently(lambda connection: connection.execute(schema.NEXT_BLOCK).fetchone()[0])
                if drawn and block != drawn[-1] + schema.BLOCK:  # another engine drew between
                    drawn.clear()
                drawn.append(block)
            self._rows.last_number = drawn[0] - 1
            self._last_of_block = drawn[-1] + schema.BLOCK - 1
        self._rows.numbered = True

    def _persistently(self, act: Callable[[Connection], Any]) -> Any:
        def attempt() -> Any:
            try:
                return act(self._connected())
            except connections.library().Error as error:
                if connections.is_lost(error):
                    self._drop()
                raise

        return connections.persistently(attempt, self._place, self._patience())

    # -- writing -------------------------------------------------------------------------------------------------------

    def _write(self, changes: Changes, known: list[Known]) -> int | None:
        """How many bytes were handed over. None if another engine was quicker."""
        self._enrol()
        statements, size = _statements(changes)
        psycopg = connections.library()
        while True:
            connection = self._persistently(lambda connection: connection)
            sequence = self._sequence + 1
            enter = (self._engine, self._generation, sequence, *_of_known(known), *_of_entries(changes))
            try:
                self._transact_once(connection, [(schema.ENTER, enter), *statements])
            except psycopg.Error as error:
                if connections.is_conflict(error):
                    return None
                if getattr(error, "sqlstate", None) == schema.GONE:
                    raise StorageError(self._place, f"the lease of engine {self._engine} has run out") from error
                if not connections.is_lost(error):
                    raise
                self._drop()
                if self._find_out() < sequence:
                    continue
            self._sequence = sequence
            return size

    def _transact_once(self, connection: Connection, statements: list[Statement]) -> None:
        if all(one_round_trip.types_of(statement) is not None for statement, _ in statements):
            assert self._swift is not None
            self._swift.commit(statements)
            return
        with connection.pipeline():
            for statement, columns in statements:
                connection.execute(statement, columns, prepare=True)

    def _find_out(self) -> int:
        """The last transaction of this writer that has been committed. None of those before can be any more."""

        def ask(connection: Connection) -> tuple[int, int] | None:
            connection.execute(END_OTHERS, (self._title,))
            found: tuple[int, int] | None = connection.execute(schema.CHANGE_GENERATION, (self._engine,)).fetchone()
            return found

        found = self._persistently(ask)
        if found is None:
            raise StorageError(self._place, f"engine {self._engine} was taken for dead")
        self._generation, last = found
        return int(last)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connections.connect(self._url, application_name=self._title)
            self._swift = Swift(self._connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(connections.library().Error):
                connection.close()


def _statements(changes: Changes) -> tuple[list[Statement], int]:
    """What is to be done besides appending entries, and how many bytes all of it is."""
    made: list[Statement] = []
    if changes.deleted:
        made += [(statement, (list(changes.deleted),)) for statement in schema.DELETE_RUNS]
    new = [known for number, known in changes.runs.items() if number in changes.definitions]
    if new:
        made.append((schema.CREATE_RUNS, _columns([known.columns() for known in new])))
        definitions = [
            (number, run.graph, run.settings, checksums.of_definition(run.id, number, run.graph, run.settings))
            for number, run in changes.definitions.items()
        ]
        made.append((schema.WRITE_DEFINITIONS, _columns(definitions)))
    changed = [known for number, known in changes.runs.items() if number not in changes.definitions]
    if changed:
        made.append((schema.CHANGE_RUNS, _columns([_of_change(known) for known in changed])))
    made += [(schema.FORGET_COMMANDS, (number, list(numbers))) for number, numbers in changes.forgotten]
    if changes.commands:
        made.append((schema.WRITE_COMMANDS, _columns(changes.commands)))
    if changes.events:
        made.append((schema.WRITE_EVENTS, _columns(changes.events)))
    made += [(schema.MARK_EVENTS, (taken, int(taken), numbers)) for taken, numbers in changes.marks().items()]
    made += [(schema.CHANGE_STANDING[request.table], _of_standing(request)) for request in changes.standing]
    size = sum([len(run.graph) + len(run.settings) for run in changes.definitions.values()])
    return made, size + sum([size_of(entry) for _, _, entry, _ in changes.entries])


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _of_known(known: Sequence[Known]) -> tuple[list[Any], ...]:
    return (
        [each.number for each in known],
        [each.row.epoch for each in known],
        [each.row.status for each in known],
        [each.row.owner for each in known],
    )


def _of_entries(changes: Changes) -> tuple[list[Any], ...]:
    entries = changes.entries
    return (
        [number for number, _, _, _ in entries],
        [place for _, place, _, _ in entries],
        [entry.kind for _, _, entry, _ in entries],
        [entry.node for _, _, entry, _ in entries],
        [entry.body for _, _, entry, _ in entries],
        [entry.value for _, _, entry, _ in entries],
        [entry.blob for _, _, entry, _ in entries],
        [checksum for _, _, _, checksum in entries],
    )


def _of_change(known: Known) -> tuple[Any, ...]:
    row = known.row
    return (known.number, row.status, row.epoch, row.owner, row.updated, row.due, known.entries, known.checksum)


def _select(statement: str, arguments: tuple[Any, ...], connection: Connection) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(statement, arguments).fetchall()
    return found


def _of_standing(request: OfStanding) -> tuple[Any, ...]:
    if isinstance(request, DeleteStanding):
        return request.id, request.expected, True, None, None, None, None, None
    table, id, definition = request.table, request.id, request.definition
    of_definition = None if definition is None else checksums.of_standing_definition(table, id, definition)
    of_state = checksums.of_standing_state(table, id, request.expected + 1, request.due, request.state)
    return id, request.expected, False, request.due, definition, request.state, of_definition, of_state
