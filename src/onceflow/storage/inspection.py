"""Reads everything that a home directory has, and reports what is damaged: each row of the journal, each blob. What
cannot be read just now (a store that does not answer, a file that others could have changed) is reported separately: it
may be whole.

No other code reads all of it. Values of runs that have ended long ago are looked at here or never, and damage that is
found while there is a backup can be mended. Nothing is changed, and other engines may write meanwhile.

What is read comes without the help of indexes, which may be damaged themselves; that they lead to all rows is for
SQLite to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from onceflow.errors import StorageDamaged, StorageError, StorageNotTrusted
from onceflow.storage import checksums
from onceflow.storage.journal import Entry, RunRow, Table
from onceflow.storage.statements import STANDING

MOST_REFUSALS = 3
"""Values in a row that an object store does not give. Each takes its patience; it is not asked for more."""

LOOK_AGAIN = "It may be whole: keep it. Remove the cause, then look again."


class Damage(msgspec.Struct, frozen=True):
    """Something that is not what was written, or could not be read."""

    file: str
    """Where: a file, or the address of an object or of a database."""
    reason: str
    run: str | None = None
    task: str | None = None
    own_row: bool = False
    """Whether it is the row of the run itself, so that nothing about the run can be looked up."""
    unread: str | None = None
    """What to do, if it could not be read; None if it was read, and is damaged."""


class Progress(msgspec.Struct, frozen=True):
    """How much has been read."""

    runs: int
    of_runs: int
    entries: int
    blobs: int
    bytes: int
    """Of blobs."""


class Rows(Protocol):
    """A journal as it is, unchecked. Rows have the columns that `checksums` takes."""

    @property
    def where(self) -> str: ...

    def structure(self) -> list[str]:
        """What the database itself says is wrong with it."""

    def all_runs(self) -> list[Any]: ...

    def definition(self, number: int) -> Any | None: ...

    def all_entries(self, number: int) -> Iterator[Any]:
        """Of columns (place, checksum, columns)."""

    def mark(self, number: int) -> int:
        """How many entries a run has, at least."""

    def has_run(self, run: str) -> bool:
        """Whether it has not been deleted meanwhile."""

    def all_events(self) -> list[Any]:
        """Of columns (number, number of the run, key, payload, id, checksum, whether it is taken)."""

    def all_commands(self) -> list[Any]:
        """Of columns (number, number of the run, kind, body, checksum)."""

    def all_standing(self, table: Table) -> list[Any]: ...


class Blobs(Protocol):
    def check(self, reference: str) -> int:
        """Reads a blob as a whole. How many bytes it has. Raises `StorageDamaged`."""


class Inspection:
    """One reading of a journal, and of the blobs that it names. `tell` is called with the progress now and then."""

    def __init__(self, rows: Rows, blobs: Blobs, tell: Callable[[Progress], None] = lambda progress: None) -> None:
        self._rows = rows
        self._blobs = blobs
        self._tell = tell
        self._runs = self._entries = self._checked = self._bytes = 0
        self._of_runs = 0
        self._refusals = 0
        """Of an object store, in a row."""

    @property
    def progress(self) -> Progress:
        return Progress(self._runs, self._of_runs, self._entries, self._checked, self._bytes)

    def damage(self) -> Iterator[Damage]:
        """All there is, as it is found."""
        rows = self._rows
        for reason in rows.structure():
            yield Damage(rows.where, f"the database says: {reason}")
        try:
            found = rows.all_runs()
        except StorageError as error:
            yield _damage(error)
            return
        self._of_runs = len(found)
        ids: dict[int, str] = {}
        for columns in found:
            try:
                row = checksums.check_run(rows.where, columns)
            except StorageDamaged as error:
                yield msgspec.structs.replace(_damage(error), own_row=True)
            else:
                ids[columns[1]] = row.id
                yield from self._run(row, columns[1], columns[2])
            self._runs += 1
            self._tell(self.progress)
        yield from self._mail(ids)
        yield from self._others()

    def _run(self, row: RunRow, number: int, least: int) -> Iterator[Damage]:
        rows = self._rows
        least = max(least, rows.mark(number))
        count = 0
        seen: set[str] = set()
        found: list[Damage] = []
        try:
            definition = rows.definition(number)
            if definition is None:
                found.append(Damage(rows.where, "the stored graph of a run is missing", row.id))
            else:
                checksums.check_definition(rows.where, row, *definition)
        except StorageError as error:
            found.append(_damage(error, row.id))
        try:
            for place, *columns in rows.all_entries(number):
                if place != count:
                    found.append(Damage(rows.where, f"entries {count} to {place - 1} of a run are missing", row.id))
                count = place + 1
                self._entries += 1
                try:
                    entry = checksums.check_entry(rows.where, row.id, place, columns)
                except StorageDamaged as error:
                    found.append(_damage(error))
                else:
                    if entry.blob is not None and entry.blob not in seen:
                        seen.add(entry.blob)
                        found += self._blob(row.id, entry)
            checksums.check_count(rows.where, row.id, count, least)
        except StorageError as error:
            found.append(_damage(error, row.id))
        if found and rows.has_run(row.id):
            yield from found

    def _blob(self, run: str, entry: Entry) -> list[Damage]:
        assert entry.blob is not None
        task = entry.node or None
        is_far = "://" in entry.blob and not entry.blob.startswith("file:")
        if is_far and self._refusals >= MOST_REFUSALS:
            reason = f"it was not asked for, after {MOST_REFUSALS} others there could not be read"
            return [Damage(entry.blob, reason, run, task, unread=LOOK_AGAIN)]
        try:
            self._bytes += self._blobs.check(entry.blob)
        except StorageDamaged as error:
            return [Damage(error.path, error.reason, run, task)]
        except StorageError as error:
            self._refusals += is_far
            return [msgspec.structs.replace(_damage(error, run), task=task)]
        if is_far:
            self._refusals = 0
        self._checked += 1
        self._tell(self.progress)
        return []

    def _mail(self, ids: dict[int, str]) -> Iterator[Damage]:
        """What is there for runs that have been deleted, or whose own rows are damaged, has no owner."""
        rows = self._rows
        try:
            for number, of, key, payload, id, checksum, taken in rows.all_events():
                if of in ids:
                    try:
                        plain = checksum - checksums.TAKEN * bool(taken)
                        checksums.check_event(rows.where, (number, ids[of], key, payload, id, plain))
                    except StorageDamaged as error:
                        yield _damage(error)
            for number, of, kind, body, checksum in rows.all_commands():
                if of in ids:
                    try:
                        checksums.check_command(rows.where, (number, ids[of], kind, body, checksum))
                    except StorageDamaged as error:
                        yield _damage(error)
        except StorageError as error:
            yield _damage(error)

    def _others(self) -> Iterator[Damage]:
        for table in STANDING:
            try:
                for columns in self._rows.all_standing(table):
                    try:
                        checksums.check_standing(self._rows.where, table, columns)
                    except StorageDamaged as error:
                        yield _damage(error)
            except StorageError as error:
                yield _damage(error)


def _damage(error: StorageError, run: str | None = None) -> Damage:
    if isinstance(error, StorageDamaged):
        return Damage(error.path, error.reason, error.run or run, error.task)
    mending = f"{error.advice} " if isinstance(error, StorageNotTrusted) else ""
    return Damage(error.path, error.reason, run, unread=mending + LOOK_AGAIN)
