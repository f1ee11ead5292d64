"""Checksums: verify that what is read from the journal, or of a blob, is what was written.

Disks, file systems and copies change bits, and SQLite believes its pages. So each row of the journal carries a CRC-32
of its content together with where it belongs: the run, and its place there. A row that was changed, moved or exchanged
does not match. The rows vouch for blobs in turn: a reference has size and CRC-32 of the blob in it (`blobs`).

CRC-32 notices every change of up to three bits in a small row, every burst of up to 32 bits, and all but one in four
billions of other changes. It protects against accidents, not against forgers, who could compute it as well. It comes
with Python, and takes a microsecond for a row and 0.3 ms for a megabyte.

The functions `check_...` raise `StorageDamaged`. What comes of a damaged page may have any type. A forger of a row can
compute its checksum as well; so names that are to become parts of paths are checked after it (`names`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from onceflow.errors import StorageDamaged
from onceflow.storage import names
from onceflow.storage.journal import Command, DamagedRun, Entry, MailboxEvent, RunRow, StandingRow, Table

Row = TypeVar("Row")

logger = logging.getLogger(__name__)

CHUNK = 2**20
"""Bytes of a blob that are added at once: as many as the processor's cache has room for."""

TAKEN = 2**32
"""Is added to the checksum of an event that is taken: so that flag is there twice."""

_encode = msgspec.msgpack.Encoder().encode
"""Writes each value with its type and length: different contents are never the same bytes."""


def of_entry(run: str, place: int, entry: Entry) -> int:
    return crc32(_encode((run, place, entry)))


def of_run(number: int, entries: int, columns: Sequence[Any]) -> int:
    """Of columns as in `RunRow`. Databases may give times back as integers."""
    created, updated, metadata, due = columns[-4:]
    due = None if due is None else float(due)
    return crc32(_encode((number, entries, columns[:-4], float(created), float(updated), metadata, due)))


def of_parts(*parts: str | int | float | bytes | None) -> int:
    """Of anything else: the parts in their order."""
    return crc32(_encode(parts))


def of_definition(run: str, number: int, graph: bytes, settings: bytes) -> int:
    """Graphs may be large, so they are not copied."""
    return crc32(graph, of_parts(run, number, len(graph), settings))


def of_event(run: str, key: str, id: str, payload: bytes) -> int:
    return of_parts(run, key, id, payload)


def of_command(run: str, kind: str, body: bytes) -> int:
    return of_parts(run, kind, body)


def of_standing_definition(table: Table, id: str, definition: bytes) -> int:
    return of_parts(table, id, definition)


def of_standing_state(table: Table, id: str, version: int, due: float | None, state: bytes) -> int:
    return of_parts(table, id, version, None if due is None else float(due), state)


def of_identity(id: str) -> int:
    return of_parts(id)


def of_bytes(views: Iterable[memoryview], found: int = 0) -> int:
    """Of the content of a blob, or of the first part of it and what follows. Lets other threads run meanwhile."""
    for view in views:
        for start in range(0, view.nbytes, CHUNK):
            found = crc32(view[start : start + CHUNK], found)
    return found


def check_run(where: str, columns: Sequence[Any]) -> RunRow:
    """Of columns (checksum, number, entries, those of the row)."""
    found, number, entries, *rest = columns
    if not _matches(found, lambda: of_run(number, entries, rest)):
        raise StorageDamaged(where, "the row of a run is not what was written", run=_text(rest[0]))
    row = RunRow(*rest)
    names.check_run(row.id)
    if row.owner is not None:
        names.check_engine(row.owner, row.id)
    return row


def check_definition(where: str, row: RunRow, number: int, graph: bytes, settings: bytes, found: int) -> None:
    if not _matches(found, lambda: of_definition(row.id, number, graph, settings)):
        raise StorageDamaged(where, "the stored graph of a run is not what was written", run=row.id)


def check_entry(where: str, run: str, place: int, columns: Sequence[Any]) -> Entry:
    """Of columns (checksum, those of the entry)."""
    checksum, *rest = columns
    entry = Entry(*rest)
    if not _is_entry(run, place, entry, checksum):
        reason = f"entry {place} of a run is not what was written"
        raise StorageDamaged(where, reason, run=run, task=_text(entry.node))
    if entry.blob is not None:
        names.check_reference(entry.blob, run, entry.node)
    return entry


def check_entries(where: str, run: str, first: int, rows: Iterable[Sequence[Any]]) -> list[Entry]:
    """Of rows (place, checksum, columns of the entry), which follow each other from this place on."""
    checked: list[Entry] = []
    for place, (found, *columns) in enumerate(rows, first):
        if found != place:
            raise StorageDamaged(where, f"entry {place} of a run is missing", run=run)
        checked.append(check_entry(where, run, place, columns))
    return checked


def _is_entry(run: str, place: int, entry: Entry, checksum: int) -> bool:
    try:
        return of_entry(run, place, entry) == checksum
    except (TypeError, ValueError, OverflowError):  # of other types than what was written
        return False


def check_count(where: str, run: str, found: int, least: int) -> None:
    """A run has at least so many entries."""
    if found < least:
        raise StorageDamaged(where, f"{least - found} of the last entries of a run are missing", run=run)


def check_event(where: str, columns: Sequence[Any]) -> MailboxEvent:
    """Of columns (number, run, key, payload, id, checksum) of an event that is not taken."""
    number, run, key, payload, id, found = columns
    if not _matches(found, lambda: of_event(run, key, id, payload)):
        raise StorageDamaged(where, "an event that was sent to a run is not what was written", run=_text(run))
    return MailboxEvent(number, run, key, payload)


def check_command(where: str, columns: Sequence[Any]) -> Command:
    """Of columns (number, run, kind, body, checksum)."""
    number, run, kind, body, found = columns
    if not _matches(found, lambda: of_command(run, kind, body)):
        raise StorageDamaged(where, "a command for a run is not what was written", run=_text(run))
    return Command(number, run, kind, body)


def check_standing(where: str, table: Table, columns: Sequence[Any]) -> StandingRow:
    """Of columns (those of the row, checksum of its definition, that of its state)."""
    *rest, definition, state = columns
    row = StandingRow(*rest)
    if not _matches(definition, lambda: of_standing_definition(table, row.id, row.definition)) or not _matches(
        state, lambda: of_standing_state(table, row.id, row.version, row.due, row.state)
    ):
        raise StorageDamaged(where, f"the {table} {row.id!r} is not what was written")
    return row


def check_identity(where: str, rows: Sequence[Sequence[Any]]) -> str:
    """Of the one row (identity, checksum)."""
    if not rows:
        raise StorageDamaged(where, "the identity of the journal is missing")
    id, found = rows[0]
    if not _matches(found, lambda: of_identity(id)):
        raise StorageDamaged(where, "the identity of the journal is not what was written")
    return str(id)


def whole(check: Callable[[Any], Row], rows: Iterable[Any], skipped: Callable[[StorageDamaged], None]) -> list[Row]:
    """Those rows that are whole. For lists: one that is damaged must not hide the others."""
    found: list[Row] = []
    for columns in rows:
        try:
            found.append(check(columns))
        except StorageDamaged as error:
            skipped(error)
    return found


def skipped(error: StorageDamaged) -> None:
    """A list goes without a damaged row."""
    logger.error("a row is left out: %s", error)


def damaged_runs(where: str, rows: Iterable[Any]) -> list[DamagedRun]:
    """Of rows as `check_run` takes them: those that are damaged."""
    found: list[DamagedRun] = []
    for columns in rows:
        try:
            check_run(where, columns)
        except StorageDamaged as error:
            found.append(DamagedRun(columns[1], _text(columns[3]), error.reason))
    return found


def _matches(found: Any, compute: Callable[[], int]) -> bool:
    try:
        return bool(compute() == found)
    except (TypeError, ValueError, OverflowError):  # of other types than what was written
        return False


def _text(found: Any) -> str:
    return found if isinstance(found, str) else ""
