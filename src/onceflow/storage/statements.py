"""The statements that both SQL journals send, each database in its own words. They read rows as `checksums` takes them.

Statements that only one of them needs, and those that write, are in its own `schema`.
"""

from __future__ import annotations

from onceflow.storage.journal import Table

COLUMNS = "id, name, workflow, status, epoch, owner, digest, created, updated, metadata, due"
CHECKED_RUN = "run.checksum, run.number, run.entries, " + COLUMNS
CHECKED_ENTRY = "entry.checksum, kind, node, body, entry.value, blob"
CHECKED_EVENT = "event.number, run.id, key, payload, event.id, event.checksum"
CHECKED_STANDING = "id, version, due, definition, state, definition_checksum, state_checksum"
"""As `checksums` takes them."""

STANDING: tuple[Table, ...] = ("schedule", "queue")

OF_RUNS = f"""
    SELECT number, graph, settings, definition.checksum, {CHECKED_RUN} FROM run JOIN definition USING (number)
"""


class Statements:
    """`named` is a parameter of a name, `among` a test whether a value is in the list of a name, and `same` one for
    equality that takes NULL for a value. `newest` and `oldest` are orders of runs; `unaided` follows the name of a
    table that is read without the help of an index. `of_run` is what is true of the entries of a row of `run`."""

    def __init__(
        self, *, named: str, among: str, same: str, newest: str, oldest: str, of_run: str, unaided: str = ""
    ) -> None:
        run, owner, workflow, parked = [named.format(name) for name in ("run", "owner", "workflow", "parked")]
        prefix, end, limit = [named.format(name) for name in ("prefix", "end", "limit")]
        runs, statuses = among.format("runs"), among.format("statuses")
        self.get_identity = "SELECT id, checksum FROM identity"
        self.get_run = f"SELECT {CHECKED_RUN} FROM run WHERE id = {run}"
        self.find_name = f"SELECT {CHECKED_RUN} FROM run WHERE name = {run}"
        self.find_runs = f"""
            SELECT id, {CHECKED_RUN} FROM run WHERE id {runs}
            UNION ALL
            SELECT name, {CHECKED_RUN} FROM run WHERE name {runs}
        """
        self.find_prefix = f"""
            SELECT {CHECKED_RUN} FROM run WHERE id >= {prefix} AND id < {end} ORDER BY {newest} LIMIT {limit}
        """
        self.last_runs = f"""
            SELECT {CHECKED_RUN} FROM (SELECT * FROM run ORDER BY {newest} LIMIT {named.format("among")}) AS run
            WHERE status {statuses} AND (workflow = {workflow} OR {workflow} IS NULL)
            ORDER BY {newest} LIMIT {limit}
        """
        self.owners = f"SELECT owner, count(*) FROM run WHERE status {statuses} GROUP BY owner"
        self.owned = f"""
            SELECT {CHECKED_RUN} FROM run
            WHERE status {statuses} AND owner {same} {owner} AND (due IS NOT NULL) = {parked}
            ORDER BY {oldest} LIMIT {limit}
        """
        self.load_runs = f"{OF_RUNS} WHERE id {runs}"
        self.free_events = f"""
            SELECT {CHECKED_EVENT} FROM event JOIN run ON run.number = event.run
            WHERE event.run {among.format("numbers")} AND NOT taken ORDER BY event.number
        """
        self.size_of_run = f"""
            SELECT coalesce(sum(length(graph) + length(settings)), 0) + coalesce(sum((
                SELECT sum(length(body) + coalesce(length(value), 0)) FROM entry WHERE {of_run}
            )), 0)
            FROM run JOIN definition USING (number) WHERE id = {run}
        """
        self.mailbox = f"""
            SELECT {CHECKED_EVENT} FROM run JOIN event ON event.run = run.number
            WHERE run.id = {run} AND key = {named.format("key")} AND NOT taken ORDER BY event.number
        """
        self.commands = f"""
            SELECT command.number, run.id, command.kind, command.body, command.checksum
            FROM command JOIN run ON run.number = command.run
            WHERE run.owner = {owner} ORDER BY command.number
        """
        self.get_standing = {
            table: f"SELECT {CHECKED_STANDING} FROM {table} WHERE id = {named.format('id')}" for table in STANDING
        }
        self.list_standing = {table: f"SELECT {CHECKED_STANDING} FROM {table} ORDER BY id" for table in STANDING}

        # For reading everything (`inspection`).
        self.all_runs = f"SELECT {CHECKED_RUN} FROM run{unaided} ORDER BY number"
        number = named.format("number")
        self.definition = f"SELECT number, graph, settings, checksum FROM definition WHERE number = {number}"
        self.all_events = f"SELECT number, run, key, payload, id, checksum, taken FROM event{unaided} ORDER BY number"
        self.all_commands = f"SELECT number, run, kind, body, checksum FROM command{unaided} ORDER BY number"
        self.all_standing = {table: f"SELECT {CHECKED_STANDING} FROM {table}{unaided}" for table in STANDING}


def after_prefix(prefix: str) -> str:
    """Above every text that starts so."""
    return prefix + "\U0010ffff"
