"""The thread that commits to SQLite. It has the one connection of a journal that writes, and lends it to callers that
want to commit in their own thread while no other thread writes (`commit_at_once`).

It sleeps until a batch arrives (`group_commit`), takes its turn among the processes, and puts everything that is queued
by then into one transaction: the busier it is, the more shares a commit. What each batch does is decided by `rules`,
inside the transaction; here is only how the decision reaches the disk.

The log is copied into the database (a *checkpoint*) here as well, after the answers are given, instead of by SQLite in
the middle of some unlucky commit. It is done while the turn is held: nothing is appended meanwhile, so the whole log is
copied, and the next commit starts it from the beginning instead of making it longer.

Other programs may hold the locks for any time (a stopped one, a backup). Then this waits, and everything that was
submitted waits with it: nothing fails, nothing is lost, and a line in the log names the holder (`lock_waits`).
Meanwhile the thread may be in the kernel, where it cannot be called back, so another one watches it. What is queued can
be withdrawn while it waits. After `lock_timeout` seconds `close` leaves the thread alone; it writes nothing then.

When the storage fails, the transaction is rolled back, everything in it is answered with the error, and so is all that
comes later, until the journal is opened anew: what follows a lost write must not be written. If there was no room for
several batches together, as many of them as there is room for are written first: what they report has happened, and is
not repeated then. A batch that itself cannot be written (a text that is none, a value beyond SQLite's limits) fails
alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from onceflow.errors import StorageDamaged, StorageError
from onceflow.storage import checksums, failures, forks, lock_holders, lock_waits, schema
from onceflow.storage.fair_lock import Turns
from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.group_commit import Batch, GroupWriter
from onceflow.storage.high_water_marks import Marks
from onceflow.storage.journal import Answer, DeleteStanding, OfStanding, Outcome, Request, Statistics
from onceflow.storage.lock_waits import LockWait
from onceflow.storage.rules import Application, Changes, Known, Rows, Standing

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES = 2**20
"""How much is written, about, before a checkpoint is made when no thread waits. The log is filled up to a little more
(`sqlite.LOG_BYTES`), so that commits hardly ever make it longer."""

CHECKPOINT_ANYWAY = 4 * 2**20
"""How much is written before a checkpoint is made although threads wait."""

COMMIT_BYTES = 2 * 4096
"""What a commit adds to the log besides what it carries: pages are logged whole."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05
"""Seconds between two attempts to get SQLite's own lock while a stranger holds it."""

IDLE_CHECKS = 20
"""Checks without a wait after which the watching thread ends."""

DIGITS = 5
"""Of a second's fraction. SQLite's JSON, through which rows are looked up, keeps no more."""


class Writer(GroupWriter):
    """`open` makes the connection and the marks, in turn, when there is something to write, unless it is given. It is
    closed in the end. With `marking` it notes what it has committed."""

    def __init__(
        self,
        open: Callable[[], sqlite3.Connection],
        turns: Turns,
        path: Path,
        clock: Callable[[], float],
        identity: FileIdentity,
        lock_timeout: float,
        marks: Marks,
        connection: sqlite3.Connection | None = None,
        *,
        marking: bool,
    ) -> None:
        super().__init__(str(path))
        self._open = open
        self._marks = marks
        self._marking = marking
        self._turns = turns
        self._path = path
        self._clock = clock
        self._identity = identity
        self._rows = Rows()
        self._data_version: int | None = None
        self._follow_marks = True
        """Whether the marks may be others than those that are mapped."""
        self._since_checkpoint = 0
        self._connection = connection
        self._lock_timeout = lock_timeout
        self._blocked: LockWait | None = None
        """While locks of other programs are waited for. Changed under `_lock`, as are the next three."""
        self._first: Batch | None = None
        """What the thread has taken from the queue and not begun to write."""
        self._withdrawn: list[Answer] = []
        self._abandoned = False
        """Whether `close` has not waited any longer: nothing more is written."""
        self._watcher: threading.Thread | None = None
        self._start()

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        if not self._writing.acquire(blocking=False):
            return None
        try:
            if self._connection is None or not self._may_commit_at_once() or not self._turns.try_to_acquire():
                return None
            try:
                if not self._try_to_begin(self._connection):
                    return None
                (outcome,) = self._commit([requests])
            except failures.FROM_SQLITE as error:
                failure = failures.from_sqlite(error, self._path)
                self._fail(failure)
                outcome = self._failed(requests, failure)
            finally:
                self._turns.release()
        finally:
            self._writing.release()
        if self._is_checkpoint_due():
            self.submit([], _ignore)
        return outcome

    def leave_to_parent(self) -> None:
        super().leave_to_parent()
        forks.leave_open(self._connection)
        self._connection = None

    def statistics(self) -> Statistics:
        return replace(super().statistics(), turn_seconds=self._turns.seconds_waited)

    def withdraw(self, answer: Answer) -> StorageError | None:
        with self._lock:
            if self._blocked is None or self._abandoned:
                return None
            self._withdrawn.append(answer)
            return self._blocked.error()

    def _join(self) -> None:
        while self._thread.is_alive() and not self._abandon():
            self._thread.join(lock_waits.CHECK_EVERY)

    def _abandon(self) -> bool:
        """Answers what is queued with an error, if other programs have kept it from being written for too long."""
        with self._lock:
            if self._blocked is None or self._first is None or self._blocked.seconds < self._lock_timeout:
                return False
            self._abandoned = True
            error, first = self._blocked.error(), self._first
        group, _ = self._drain(first)
        if group:
            logger.error("closing without having written what was queued: %s", error)
            self._answer(group, [self._failed(requests, error) for requests, _ in group])
        return True

    def _let_go(self) -> None:
        if self._connection is not None:
            if self._failure is None and not self._abandoned and self._turns.try_to_acquire():
                self._checkpoint(schema.CHECKPOINT if lock_holders.are_others(self._path) else schema.EMPTY_LOG)
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._turns.close()
        self._marks.close()

    def _write_group(self, first: Batch) -> bool:
        if self._failure is None and not self._get_ready(first):
            return True
        group, ending = self._drain(first)
        if self._failure is not None:
            self._answer(group, [self._failed(requests, self._failure) for requests, _ in group])
            return ending
        outcomes = self._commit([requests for requests, _ in group])
        if not self._is_checkpoint_due():
            self._turns.release()
            self._answer(group, outcomes)
        else:
            self._answer(group, outcomes)
            self._checkpoint()
            self._turns.release()
        return ending

    def _drain(self, first: Batch) -> tuple[list[Batch], bool]:
        group, ending = super()._drain(first)
        if self._withdrawn:
            withdrawn, self._withdrawn = self._withdrawn, []
            kept = [batch for batch in group if batch[1] not in withdrawn]
            with self._lock:
                self._unanswered -= len(group) - len(kept)
            group = kept
        return group, ending

    def _get_ready(self, first: Batch) -> bool:
        """Takes the turn and begins a transaction, whenever that can be; or fails. False if nothing is to be written
        any more."""
        self._first = first
        try:
            self._turns.acquire(self._note_blocked)
            try:
                self._begin()
            except BaseException:
                self._turns.release()
                raise
        except StorageError as error:
            self._fail(error)
        except OSError as error:
            self._fail(failures.from_system(error, self._path))
        except failures.FROM_SQLITE as error:
            self._fail(failures.from_sqlite(error, self._path))
        self._note_free()
        return not self._abandoned

    def _begin(self) -> None:
        """In turn. Waits while a stranger holds SQLite's own lock."""
        pause = SHORTEST_PAUSE
        while not self._abandoned:
            if self._connection is None:
                try:
                    self._connection = self._open()
                    self._since_checkpoint = _left_in_log(self._path)
                except sqlite3.OperationalError as error:
                    if not failures.is_locked(error):
                        raise
            if self._connection is not None and self._try_to_begin(self._connection):
                return
            self._note_blocked()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _try_to_begin(self, connection: sqlite3.Connection) -> bool:
        try:
            connection.execute(schema.BEGIN_WRITING)
        except sqlite3.OperationalError as error:
            if failures.is_locked(error):
                return False
            raise
        return True

    def _note_blocked(self) -> None:
        """From now on, the duration is watched."""
        with self._lock:
            if self._blocked is None:
                self._blocked = LockWait(self._path)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name=f"onceflow watch {self._place}", daemon=True)
                self._watcher.start()

    def _note_free(self) -> None:
        with self._lock:
            blocked, self._blocked, self._first = self._blocked, None, None
        if blocked is not None:
            blocked.end()

    def _watch(self) -> None:
        """Reports waits that take long. Ends when there has been none for a while."""
        idle = 0
        while True:
            time.sleep(lock_waits.CHECK_EVERY)
            with self._lock:
                blocked = self._blocked
                idle = idle + 1 if blocked is None else 0
                if idle == IDLE_CHECKS or self._abandoned:
                    self._watcher = None
                    return
            if blocked is not None:
                blocked.check()

    def _is_checkpoint_due(self) -> bool:
        enough = CHECKPOINT_BYTES if self._queue.empty() else CHECKPOINT_ANYWAY
        return self._since_checkpoint >= enough

    def _commit(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        try:
            return self._transact(batches)
        except sqlite3.DatabaseError as error:
            self._roll_back()
            if not _is_about_values(error):
                failure = failures.from_sqlite(error, self._path)
                if len(batches) > 1 and error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                    return self._salvage(batches, failure)
                self._fail(failure)
                return [self._failed(requests, failure) for requests in batches]
            reason: Exception = error
        except UnicodeDecodeError as error:
            self._roll_back()
            failure = failures.from_sqlite(error, self._path)
            self._fail(failure)
            return [self._failed(requests, failure) for requests in batches]
        except StorageDamaged as error:  # of a run that was looked up: nothing has happened
            self._roll_back()
            reason = error
        except StorageError as failure:
            self._fail(failure)
            return [self._failed(requests, failure) for requests in batches]
        except Exception as error:
            self._roll_back()
            reason = error
        return self._one_by_one(batches, reason)

    def _salvage(self, batches: list[Sequence[Request]], failure: StorageError) -> list[Outcome]:
        """Writes as many as there is room for, in their order, after the engine has learned to start nothing more. (Not
        after any other error: what was written before a sync that failed may be lost, whatever the next one says.)"""
        self._announce(failure)
        outcomes = [outcome for batch in batches for outcome in self._commit([batch])]
        if self._failure is None:
            self._fail(failure)
        return outcomes

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute(schema.ROLLBACK)

    def _transact(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        if self._failure is not None:
            return [self._failed(requests, self._failure) for requests in batches]
        connection = self._connection
        assert connection is not None
        started = time.perf_counter()
        if not connection.in_transaction:  # it is the second one of this turn
            self._begin()
            self._note_free()
        (version,) = connection.execute(schema.DATA_VERSION).fetchone()
        if version != self._data_version:
            self._rows.forget()
            self._data_version = version
        needed = self._rows.needed(batches)
        if self._follow_marks or needed.ids or needed.names:
            self._renew_marks()
        if needed.ids or needed.names:
            self._look_up(connection, needed.ids, needed.names)
        versions = _look_up_standing(connection, needed.standing) if needed.standing else {}
        damaged = _look_up_damaged(connection, self._place, needed.damaged) if needed.damaged else set()
        application = Application(self._rows, round(self._clock(), DIGITS), versions, damaged)
        outcomes = application.apply_all(batches)
        size = _write(connection, application.changes)
        if application.changes.deleted:
            self._renew_marks()
            self._marks.forget(application.changes.deleted)
        connection.execute(schema.COMMIT)
        self._follow_marks = self._identity.check()
        if self._marking:
            counts: dict[int, int] = {}
            for number, place, _, _ in application.changes.entries:
                counts[number] = place + 1
            self._marks.note(max(application.changes.definitions, default=0), counts.items())
        application.finish()
        self._count(len(batches), len(application.changes.entries), size, started)
        self._since_checkpoint += size + COMMIT_BYTES
        return outcomes

    def _renew_marks(self) -> None:
        """If others are at their path, unless the whole home directory is not there any more, or another one is."""
        if not self._marks.are_replaced:
            return
        try:
            self._identity.check()
        except StorageError:
            self._roll_back()
            raise
        self._marks.renew_to_write()

    def _look_up(self, connection: sqlite3.Connection, ids: set[str], names: set[str]) -> None:
        wanted = {"ids": json.dumps(sorted(ids)), "names": json.dumps(sorted(names))}
        (text,) = connection.execute(schema.LOOK_UP, wanted).fetchone()
        try:
            found = json.loads(text)
        except ValueError as error:
            raise StorageDamaged(self._place, "the rows of runs cannot be read") from error
        self._rows.last_number = max(self._rows.last_number, found["last"] or 0)
        self._rows.numbered = True
        for number, last_key, *columns in found["runs"]:
            found_entries = 0 if last_key is None else last_key - number * schema.PLACES + 1
            row = checksums.check_run(self._place, columns)
            if row.id not in ids and row.name not in names:
                raise StorageDamaged(self._place, "an index leads to another run", run=row.id)
            # If entries are missing at the end, the next one leaves their places free: it must not hide the loss.
            entries = max(found_entries, columns[2], self._marks.entries(number))
            self._rows.learn(Known(number, row, entries))

    def _checkpoint(self, how: str = schema.CHECKPOINT) -> None:
        """If it fails, nothing is lost; but neither will the next commit succeed for long."""
        self._since_checkpoint = 0
        assert self._connection is not None
        try:
            self._connection.execute(how).fetchall()
        except failures.FROM_SQLITE as error:
            self._fail(failures.from_sqlite(error, self._path))


def _left_in_log(path: Path) -> int:
    """How many bytes, at most, processes have left that were killed before they made a checkpoint, if that is much."""
    size = os.stat(f"{path}-wal").st_size
    return size if size > CHECKPOINT_ANYWAY else 0


def _ignore(outcome: Outcome) -> None:
    """The answer to a batch that only asks for a checkpoint."""


def _is_about_values(error: sqlite3.DatabaseError) -> bool:
    """Whether SQLite refused what was to be written, rather than being unable to write."""
    return isinstance(error, (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError))


def _write(connection: sqlite3.Connection, changes: Changes) -> int:
    """Carries the changes out, in few statements. Returns how many bytes were handed over."""
    for number in changes.deleted:
        connection.execute(schema.DELETE_ENTRIES, schema.keys_of(number))
        connection.execute(schema.DELETE_DEFINITION, (number,))
        connection.execute(schema.DELETE_COMMANDS, (number,))
        connection.execute(schema.DELETE_EVENTS, (number,))
        connection.execute(schema.DELETE_RUN, (number,))
    size = 0
    for runs in schema.in_statements(list(changes.runs.values())):
        statement = schema.of_rows(schema.WRITE_RUNS, len(runs), 14, schema.OVER_OLD_RUNS)
        connection.execute(statement, [column for known in runs for column in known.columns()])
    if changes.definitions:
        for definitions in schema.in_statements(list(changes.definitions.items())):
            statement = schema.of_rows(schema.WRITE_DEFINITIONS, len(definitions), 4)
            values: list[int | bytes] = []
            for number, run in definitions:
                checksum = checksums.of_definition(run.id, number, run.graph, run.settings)
                values += (number, run.graph, run.settings, checksum)
                size += len(run.graph) + len(run.settings)
            connection.execute(statement, values)
    for entries in schema.in_statements(changes.entries) if len(changes.entries) != 1 else (changes.entries,):
        statement = schema.of_rows(schema.WRITE_ENTRIES, len(entries), 7)
        columns: list[int | str | bytes | None] = []
        for number, place, entry, checksum in entries:
            key = number * schema.PLACES + place
            columns += (key, entry.kind, entry.node, entry.body, entry.value, entry.blob, checksum)
            size += len(entry.body) + (len(entry.value) if entry.value is not None else 0)
        connection.execute(statement, columns)
    for number, numbers in changes.forgotten:
        connection.execute(schema.FORGET_COMMANDS, (number, json.dumps(numbers)))
    for command in changes.commands:
        connection.execute(schema.WRITE_COMMAND, command)
    if changes.events:
        connection.executemany(schema.WRITE_EVENT, changes.events)
        size += sum([len(payload) for _, _, _, payload, _ in changes.events])
    for taken, marked in changes.marks().items() if changes.marked else ():
        connection.execute(schema.MARK_EVENTS, {"taken": taken, "numbers": json.dumps(marked)})
    for request in changes.standing:
        _write_standing(connection, request)
    return size


def _look_up_standing(connection: sqlite3.Connection, wanted: set[Standing]) -> dict[Standing, int]:
    found = {row: connection.execute(schema.VERSION_OF_STANDING[row[0]], row[1:]).fetchone() for row in wanted}
    return {row: version[0] for row, version in found.items() if version is not None}


def _look_up_damaged(connection: sqlite3.Connection, place: str, numbers: set[int]) -> set[int]:
    """Those that are. A row that is deleted is looked for in the indexes, which may have it as it was: they are made
    anew."""
    rows = [connection.execute(schema.GET_RUN_BY_NUMBER, (number,)).fetchone() for number in sorted(numbers)]
    found = {run.number for run in checksums.damaged_runs(place, [row for row in rows if row is not None])}
    if found:
        connection.execute(schema.REBUILD_INDEXES)
    return found


def _write_standing(connection: sqlite3.Connection, request: OfStanding) -> None:
    if isinstance(request, DeleteStanding):
        connection.execute(schema.DELETE_STANDING[request.table], (request.id,))
        return
    table, version = request.table, request.expected + 1
    row = {
        "id": request.id,
        "version": version,
        "due": request.due,
        "state": request.state,
        "state_checksum": checksums.of_standing_state(table, request.id, version, request.due, request.state),
    }
    if request.definition is None:
        connection.execute(schema.ADVANCE_STANDING[table], row)
    else:
        row["definition"] = request.definition
        row["definition_checksum"] = checksums.of_standing_definition(table, request.id, request.definition)
        connection.execute(schema.WRITE_STANDING[table], row)
