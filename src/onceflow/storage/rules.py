"""The effect of requests on the rows of runs: the rules of epochs and names, without a database.

A writer hands all batches of one transaction to an `Application`, which decides each of them against the rows as the
batches before left them, and gathers what is to be written. So fencing happens inside the transaction (the writer holds
the database's write lock and has looked the rows up), a batch that is refused leaves no trace, and a transaction needs
a handful of statements however many batches share it. That matters twice: each statement gives up the interpreter's
lock and may wait long to get it back from a busy engine thread.

`Rows` is what the writer knows of the runs it has met. It outlives transactions as long as no other process writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import astuple, replace

from onceflow.storage import checksums
from onceflow.storage.journal import (
    DONE,
    MISSING,
    SKIPPED,
    AppendEntries,
    Claim,
    CreateRun,
    DeleteDamagedRun,
    DeleteRun,
    DeleteStanding,
    Entry,
    Fenced,
    ForgetCommands,
    MarkEvents,
    OfStanding,
    Outcome,
    Outdated,
    Request,
    Result,
    RunRow,
    SendCommand,
    SendEvent,
    SetStatus,
    Table,
    Taken,
    WriteStanding,
)


class Known(msgspec.Struct, frozen=True, gc=False):
    """A run as the database has it, or will have it after this transaction."""

    number: int
    """The database's own short name for the run."""
    row: RunRow
    entries: int
    """How many there are: the place of the next one."""

    @property
    def checksum(self) -> int:
        return checksums.of_run(self.number, self.entries, astuple(self.row))

    def columns(self) -> tuple[int | float | str | None, ...]:
        """Of a row of the table of runs."""
        columns = astuple(self.row)
        return (self.number, *columns, self.entries, checksums.of_run(self.number, self.entries, columns))


Standing = tuple[Table, str]
"""A standing row: its table and its id."""


class Needed(msgspec.Struct):
    """What a transaction has to look up."""

    ids: set[str] = set()
    names: set[str] = set()
    """Of runs."""
    standing: set[Standing] = set()
    """The standing rows whose versions count."""
    damaged: set[int] = set()
    """The numbers of runs whose rows are reported as damaged."""


class Rows:
    """Runs by id and by name."""

    MOST = 10_000
    """Forgetting costs one more look at the database, remembering some 500 bytes a run."""

    def __init__(self) -> None:
        self.last_number = 0
        self.numbered = False
        """Whether `last_number` is the last one that is taken."""
        self.by_id: dict[str, Known] = {}
        self.by_name: dict[str, Known] = {}

    def forget(self) -> None:
        self.numbered = False
        self.by_id.clear()
        self.by_name.clear()

    def learn(self, known: Known) -> None:
        self.by_id[known.row.id] = known
        if known.row.name is not None:
            self.by_name[known.row.name] = known

    def unlearn(self, known: Known) -> None:
        self.by_id.pop(known.row.id, None)
        if known.row.name is not None:
            self.by_name.pop(known.row.name, None)

    def needed(self, batches: Iterable[Sequence[Request]]) -> Needed:
        """What must be looked up before these batches can be decided. Ids and names of new runs are among it, unless
        they are fresh: nothing is remembered about what does not exist."""
        if len(self.by_id) > self.MOST:
            self.forget()
        needed, known = Needed(), self.by_id
        new: set[str] = set()
        for batch in batches:
            for request in batch:
                if isinstance(request, (AppendEntries, SetStatus)):  # most are
                    if request.run not in known and request.run not in new:
                        needed.ids.add(request.run)
                elif isinstance(request, CreateRun):
                    new.add(request.id)
                    if not (request.fresh and self.numbered):
                        needed.ids.add(request.id)
                    if request.name is not None:
                        needed.names.add(request.name)
                elif isinstance(request, (WriteStanding, DeleteStanding)):
                    needed.standing.add((request.table, request.id))
                elif isinstance(request, DeleteDamagedRun):
                    needed.damaged.add(request.number)
                elif request.run not in known and request.run not in new:
                    needed.ids.add(request.run)
        return needed


class Changes(msgspec.Struct):
    """The changes to write: rows first deleted, then overwritten; the rest is only ever added."""

    deleted: dict[int, Known | None] = {}
    """Number of the run, and the run, unless its own row is damaged."""
    runs: dict[int, Known] = {}
    definitions: dict[int, CreateRun] = {}
    entries: list[tuple[int, int, Entry, int]] = []
    """Number of the run, place in the run, entry, checksum."""
    commands: list[tuple[int, str, bytes, int]] = []
    """Number of the run, kind, body, checksum."""
    forgotten: list[tuple[int, tuple[int, ...]]] = []
    """Number of the run, numbers of its commands."""
    events: list[tuple[int, str, str, bytes, int]] = []
    """Number of the run, key, id, payload, checksum."""
    marked: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    """Numbers of events that are taken, and of those that are free again."""
    standing: list[OfStanding] = []
    """In the order in which they are to be carried out."""

    def marks(self) -> dict[bool, list[int]]:
        """The numbers of events that are taken after all of `marked`, and of those that are free again."""
        last: dict[int, bool] = {}
        for taken, returned in self.marked:
            last |= dict.fromkeys(taken, True) | dict.fromkeys(returned, False)
        marks: dict[bool, list[int]] = {}
        for number, is_taken in last.items():
            marks.setdefault(is_taken, []).append(number)
        return marks

    def add(self, later: Changes) -> None:
        for number, gone in later.deleted.items():
            self.deleted[number] = gone
            self.runs.pop(number, None)
            self.definitions.pop(number, None)
            self.entries = [item for item in self.entries if item[0] != number]
            self.commands = [item for item in self.commands if item[0] != number]
            self.events = [item for item in self.events if item[0] != number]
        self.runs.update(later.runs)
        self.definitions.update(later.definitions)
        self.entries += later.entries
        self.commands += later.commands
        self.events += later.events
        self.marked += later.marked
        self.forgotten += later.forgotten
        self.standing += later.standing


class Application:
    """Decides the batches of one transaction. `rows`, `versions` and `damaged` must know what is `Needed` for that, as
    far as it exists."""

    def __init__(
        self,
        rows: Rows,
        now: float,
        versions: Mapping[Standing, int] | None = None,
        damaged: Iterable[int] = (),
    ) -> None:
        self.changes = Changes()
        self.now = now
        self._last_number = rows.last_number
        self._by_id: dict[str, Known | None] = {}
        self._by_name: dict[str, Known | None] = {}
        self._rows = rows
        self._versions = dict(versions or {})
        self._damaged = set(damaged)

    def apply_all(self, batches: Iterable[Sequence[Request]]) -> list[Outcome]:
        return [self.apply(batch) for batch in batches]

    def apply(self, batch: Sequence[Request]) -> Outcome:
        draft = _Draft(self)
        for index, request in enumerate(batch):
            refusal = draft.carry_out(request)
            if refusal is not None:
                results: list[Result] = [SKIPPED] * len(batch)
                results[index] = refusal
                return Outcome(tuple(results), ok=False)
        draft.keep()
        return Outcome((DONE,) * len(batch), ok=True)

    def finish(self) -> None:
        """The transaction is committed: what it changed is known from now on."""
        self._rows.last_number = self._last_number
        if None in self.changes.deleted.values():  # it may be known from before it was damaged
            self._rows.forget()
        for gone in self.changes.deleted.values():
            if gone is not None:
                self._rows.unlearn(gone)
        for known in self._by_id.values():
            if known is not None:
                self._rows.learn(known)

    def find(self, run: str) -> Known | None:
        return self._by_id[run] if run in self._by_id else self._rows.by_id.get(run)

    def find_name(self, name: str) -> Known | None:
        return self._by_name[name] if name in self._by_name else self._rows.by_name.get(name)

    def version_of(self, standing: Standing) -> int:
        return self._versions.get(standing, 0)

    def is_damaged(self, number: int) -> bool:
        return number in self._damaged and number not in self.changes.deleted

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def keep(
        self,
        touched: dict[str, Known | None],
        names: dict[str, Known | None],
        versions: dict[Standing, int],
        changes: Changes,
    ) -> None:
        self._by_id.update(touched)
        self._by_name.update(names)
        self._versions.update(versions)
        self.changes.add(changes)


class _Draft:
    """One batch, until it is known whether all of it can be carried out."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._touched: dict[str, Known | None] = {}
        self._names: dict[str, Known | None] = {}
        self._versions: dict[Standing, int] = {}
        self._changes = Changes()

    def keep(self) -> None:
        self._application.keep(self._touched, self._names, self._versions, self._changes)

    def carry_out(self, request: Request) -> Result | None:
        """Does it, or says why not."""
        if isinstance(request, AppendEntries):  # these three are almost all
            return self._append(request)
        if isinstance(request, SetStatus):
            return self._set_status(request)
        if isinstance(request, CreateRun):
            return self._create(request)
        if isinstance(request, (WriteStanding, DeleteStanding)):
            return self._change_standing(request)
        if isinstance(request, DeleteDamagedRun):
            if not self._application.is_damaged(request.number) or request.number in self._changes.deleted:
                return MISSING
            self._changes.deleted[request.number] = None
            return None
        known = self._find(request.run)
        if known is None:
            return MISSING
        if isinstance(request, MarkEvents):
            if known.row.epoch != request.epoch:
                return Fenced(known.row)
            self._changes.marked.append((request.taken, request.returned))
            return None
        if isinstance(request, SendEvent):
            checksum = checksums.of_event(request.run, request.key, request.id, request.payload)
            self._changes.events.append((known.number, request.key, request.id, request.payload, checksum))
            return None
        if isinstance(request, SendCommand):
            checksum = checksums.of_command(request.run, request.kind, request.body)
            self._changes.commands.append((known.number, request.kind, request.body, checksum))
            return None
        if isinstance(request, ForgetCommands):
            self._changes.forgotten.append((known.number, request.numbers))
            return None
        if known.row.epoch != request.expected_epoch:
            return Fenced(known.row)
        if isinstance(request, Claim):
            row = known.row
            now = self._application.now
            self._write(known, replace(row, owner=request.owner, epoch=row.epoch + 1, updated=now))
        else:
            self._delete(known, request)
        return None

    def _find(self, run: str) -> Known | None:
        return self._touched[run] if run in self._touched else self._application.find(run)

    def _find_name(self, name: str) -> Known | None:
        return self._names[name] if name in self._names else self._application.find_name(name)

    def _create(self, request: CreateRun) -> Result | None:
        other = self._find(request.id)
        if other is None and request.name is not None:
            other = self._find_name(request.name)
        if other is not None:
            return Taken(other.row)
        now = self._application.now
        row = RunRow(
            id=request.id,
            name=request.name,
            workflow=request.workflow,
            status=request.status,
            epoch=1,
            owner=request.owner,
            digest=request.digest,
            created=now,
            updated=now,
            metadata=request.metadata,
        )
        known = Known(self._application.next_number(), row, 0)
        self._changes.runs[known.number] = known
        self._changes.definitions[known.number] = request
        self._remember(known)
        return None

    def _append(self, request: AppendEntries) -> Result | None:
        known = self._find(request.run)
        if known is None:
            return MISSING
        if known.row.epoch != request.epoch:
            return Fenced(known.row)
        number, run, place = known.number, request.run, known.entries
        for entry in request.entries:
            self._changes.entries.append((number, place, entry, checksums.of_entry(run, place, entry)))
            place += 1
        self._remember(Known(number, known.row, place))
        return None

    def _set_status(self, request: SetStatus) -> Result | None:
        known = self._find(request.run)
        if known is None:
            return MISSING
        row = known.row
        if row.epoch != request.epoch:
            return Fenced(row)
        status, due = request.status, _storable(request.due)
        if status != row.status or due != row.due:
            self._write(known, replace(row, status=status, due=due, updated=self._application.now))
        return None

    def _write(self, known: Known, row: RunRow) -> None:
        changed = Known(known.number, row, known.entries)
        self._changes.runs[known.number] = changed
        self._remember(changed)

    def _delete(self, known: Known, request: DeleteRun) -> None:
        gone = Changes()
        gone.deleted[known.number] = known
        self._changes.add(gone)
        self._touched[request.run] = None
        if known.row.name is not None:
            self._names[known.row.name] = None

    def _change_standing(self, request: OfStanding) -> Result | None:
        standing = (request.table, request.id)
        version = self._versions.get(standing)
        if version is None:
            version = self._application.version_of(standing)
        is_new = isinstance(request, WriteStanding) and request.definition is not None
        if version != request.expected or not (version or is_new):
            return Outdated(version)
        self._versions[standing] = 0 if isinstance(request, DeleteStanding) else version + 1
        self._changes.standing.append(request)
        return None

    def _remember(self, known: Known) -> None:
        self._touched[known.row.id] = known
        if known.row.name is not None:
            self._names[known.row.name] = known


def _storable(due: float | None) -> float | None:
    """As every database gives it back: SQLite's JSON, through which rows are looked up, keeps 15 digits."""
    return None if due is None else float(f"{due:.15g}")
