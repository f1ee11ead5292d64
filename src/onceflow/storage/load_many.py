"""Loads many runs at once: a few statements read their rows, which are checked and assembled here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onceflow.errors import StorageDamaged
from onceflow.storage import checksums
from onceflow.storage.journal import RunRow, Short


def found_runs(rows: Iterable[Sequence[Any]], where: str) -> dict[str, RunRow]:
    """Of rows (what was asked for, columns): those that were found by their ids first."""
    found: dict[str, RunRow] = {}
    for asked, *columns in rows:
        row = checksums.check_run(where, columns)
        if asked not in (row.id, row.name):
            raise StorageDamaged(where, "an index of the journal leads to another run", run=row.id)
        found.setdefault(asked, row)
    return found


def short_runs(
    rows: Iterable[Sequence[Any]],
    entries: Iterable[Sequence[Any]],
    events: Iterable[Sequence[Any]],
    most: int,
    where: str,
) -> dict[str, Short]:
    """Of rows (number, graph, settings, checksum, columns), their entries (number of the run, place, columns) and free
    events. Runs that are damaged are not among them: loaded alone, they say so."""
    found: dict[int, list[Sequence[Any]]] = {}
    for number, *columns in entries:
        found.setdefault(number, []).append(columns)
    mail: dict[str, list[Sequence[Any]]] = {}
    for event in events:
        mail.setdefault(event[1], []).append(event)
    runs: dict[str, Short] = {}
    for number, graph, settings, checksum, *columns in rows:
        few = found.get(number, [])
        if len(few) <= most:
            try:
                row = checksums.check_run(where, columns)
                checksums.check_definition(where, row, number, graph, settings, checksum)
                checked = checksums.check_entries(where, row.id, 0, few)
                checksums.check_count(where, row.id, len(checked), columns[2])
                free = [checksums.check_event(where, event) for event in mail.get(row.id, [])]
            except StorageDamaged:
                continue
            runs[row.id] = Short(row, graph, settings, checked, free)
    return runs
