"""What someone can do who may write to a journal: change rows by hand, and compute their checksums as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from onceflow.storage import checksums
from onceflow.storage.journal import Entry
from onceflow.storage.schema import PLACES
from onceflow.storage.statements import COLUMNS, STANDING


def vouch_for_all(connection: sqlite3.Connection) -> None:
    """Writes the checksums of all rows as they are now."""
    functions: dict[str, Callable[..., int]] = {
        "of_run": lambda number, entries, *columns: checksums.of_run(number, entries, columns),
        "of_definition": checksums.of_definition,
        "of_entry": lambda run, place, *columns: checksums.of_entry(run, place, Entry(*columns)),
        "of_event": checksums.of_event,
        "of_command": checksums.of_command,
        "of_identity": checksums.of_identity,
        "of_standing_definition": checksums.of_standing_definition,
        "of_standing_state": checksums.of_standing_state,
    }
    for name, function in functions.items():
        connection.create_function(name, -1, function, deterministic=True)
    run = "(SELECT id FROM run WHERE run.number = {})"
    of_entry = f"of_entry({run.format(f'key / {PLACES}')}, key % {PLACES}, kind, node, body, value, blob)"
    connection.execute(f"UPDATE run SET checksum = of_run(number, entries, {COLUMNS})")
    definition = run.format("definition.number")
    connection.execute(f"UPDATE definition SET checksum = of_definition({definition}, number, graph, settings)")
    connection.execute(f"UPDATE entry SET checksum = {of_entry}")
    of_event = f"of_event({run.format('event.run')}, key, id, payload)"
    connection.execute(f"UPDATE event SET checksum = {of_event} + taken * {checksums.TAKEN}")
    connection.execute(f"UPDATE command SET checksum = of_command({run.format('command.run')}, kind, body)")
    connection.execute("UPDATE identity SET checksum = of_identity(id)")
    for table in STANDING:
        connection.execute(
            f"UPDATE {table} SET definition_checksum = of_standing_definition('{table}', id, definition), "
            f"state_checksum = of_standing_state('{table}', id, version, due, state)"
        )
