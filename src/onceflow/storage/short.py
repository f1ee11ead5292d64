"""Many runs at once: put together from the rows that a few statements give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onceflow.storage.journal import Entry, MailboxEvent, RunRow, Short, read_entry


def found_runs(rows: Iterable[Sequence[Any]]) -> dict[str, RunRow]:
    """Of rows (what was asked for, columns): those that were found by their ids first."""
    found: dict[str, RunRow] = {}
    for asked, *columns in rows:
        found.setdefault(asked, RunRow(*columns))
    return found


def short_runs(
    rows: Sequence[Sequence[Any]], entries: Iterable[Sequence[Any]], events: Iterable[Sequence[Any]], most: int
) -> dict[str, Short]:
    """Of rows (number, graph, settings, columns), their entries (number of the run, columns) and free events."""
    known = {number: RunRow(*columns) for number, _, _, *columns in rows}
    found: dict[int, list[Entry]] = {}
    for number, *columns in entries:
        found.setdefault(number, []).append(read_entry(known[number].id, columns))
    mail: dict[str, list[MailboxEvent]] = {}
    for event in [MailboxEvent(*row) for row in events]:
        mail.setdefault(event.run, []).append(event)
    runs: dict[str, Short] = {}
    for number, graph, settings, *_ in rows:
        row = known[number]
        few = found.get(number, [])
        if len(few) <= most:
            runs[row.id] = Short(row, graph, settings, few, mail.get(row.id, []))
    return runs
