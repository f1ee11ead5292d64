"""The journal: the log of every run, in the order in which entries were committed.

A run is a row (its driver, its status), a definition (graph and settings) and a list of entries. All of them are
opaque bytes and words here. The driver of a run holds its *epoch*, a number that grows with every claim; a write that
carries an older one is refused, so a driver that lost its run without noticing can do no harm.

Writing is asynchronous. A *batch* of requests is submitted and answered later, from the journal's own thread; whatever
waits when that thread is free shares one commit. A batch is atomic: if one of its requests is refused, none of it
happened. Batches are carried out, and answered, in the order of submission. An answer means: durable.

Reading is synchronous, from any thread, and sees everything that was answered. It raises `StorageDamaged`, with the
run, if something is not what was written (`checksums`). Lists leave out rows that are damaged, and log that.

Beside runs there are *standing rows*, of schedules and of queues: opaque bytes with a version, which grows with every
write. A write says which version it goes by, and is refused if there is another one. So of several engines that decide
something by what they read, one succeeds, and the others look again.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Literal, Protocol

import msgspec

from onceflow.errors import OnceflowError, StorageError

NEVER = 1e15
"""A moment that does not come."""

Durability = Literal["power", "process"]
"""What an answered write survives: loss of power (and anything less), or only the death of processes."""


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """The row of a run: what is known without reading its entries."""

    id: str
    name: str | None
    workflow: str
    status: str
    epoch: int
    owner: str | None
    """The id of the engine that claimed the run last, if any."""
    digest: str
    """Of the definition: equal for graphs that count as the same under one name."""
    created: float
    updated: float
    """Seconds since 1970, as all times. Of the last change of this row; entries do not change it."""
    metadata: str | None = None
    """A JSON object, if there is any (`values.metadata`)."""
    due: float | None = None
    """When a run continues that waits without being in an engine's memory, unless an event comes first; `NEVER` if only
    an event can help. None for all others."""


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One record of a run. A small value stands beside it, a large one is a blob of that reference."""

    kind: str
    node: str
    body: bytes
    value: bytes | None = None
    blob: str | None = None


class CreateRun(msgspec.Struct, frozen=True, gc=False):
    """A new run, in epoch 1. Answered by `Taken` if its id or its name belongs to another one."""

    id: str
    name: str | None
    workflow: str
    digest: str
    graph: bytes
    settings: bytes
    owner: str | None = None
    status: str = "pending"
    fresh: bool = False
    """The id was drawn at random, so it is new, and need not be looked up."""
    metadata: str | None = None


class AppendEntries(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    run: str
    epoch: int
    entries: list[Entry]


class SetStatus(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    run: str
    epoch: int
    status: str
    due: float | None = None
    """As `RunRow.due`."""


class Claim(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Makes `owner` the driver of the run, in epoch `expected_epoch + 1`. Answered by `Fenced` if another engine was
    quicker."""

    run: str
    owner: str
    expected_epoch: int


class DeleteRun(msgspec.Struct, frozen=True, gc=False):
    """Forgets the run with all its entries. Its blobs are the caller's to delete, afterwards."""

    run: str
    expected_epoch: int


class DeleteDamagedRun(msgspec.Struct, frozen=True, gc=False):
    """Forgets a run whose own row is damaged, with all its entries. Nothing in that row can be trusted, so the run goes
    by its number. Answered by `Missing` if there is no such row, or if it is whole. The blobs are orphans then."""

    number: int


class SendCommand(msgspec.Struct, frozen=True, gc=False):
    """Leaves a command for the driver of the run, now or later. It stays until it is forgotten."""

    run: str
    kind: str
    body: bytes = b""


class ForgetCommands(msgspec.Struct, frozen=True, gc=False):
    """These commands have been carried out. Forgetting what is forgotten is harmless."""

    run: str
    numbers: tuple[int, ...]


class SendEvent(msgspec.Struct, frozen=True, gc=False):
    """Puts an event into the mailbox of a run, behind those that are there. One that was sent before under the same
    `id` is there once."""

    run: str
    key: str
    id: str
    payload: bytes


class MarkEvents(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """These events of a run are taken, or free again: they have kept their places."""

    run: str
    epoch: int
    taken: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()


Table = Literal["schedule", "queue"]


class WriteStanding(msgspec.Struct, frozen=True, gc=False):
    """Writes a standing row whose version is `expected`, which is 0 if there is to be a new one. Answered by `Outdated`
    if it has another version."""

    id: str
    expected: int
    state: bytes
    due: float | None = None
    """When an engine should look at it again; None for never."""
    definition: bytes | None = None
    """None if it stays as it is."""
    table: ClassVar[Table]


class DeleteStanding(msgspec.Struct, frozen=True, gc=False):
    id: str
    expected: int
    table: ClassVar[Table]


class WriteSchedule(WriteStanding, frozen=True):
    table = "schedule"


class DeleteSchedule(DeleteStanding, frozen=True):
    table = "schedule"


class WriteQueue(WriteStanding, frozen=True):
    table = "queue"


class DeleteQueue(DeleteStanding, frozen=True):
    table = "queue"


OfRun = (
    CreateRun | AppendEntries | SetStatus | Claim | DeleteRun | SendCommand | ForgetCommands | SendEvent | MarkEvents
)
OfStanding = WriteStanding | DeleteStanding
Request = OfRun | OfStanding | DeleteDamagedRun


class Done(msgspec.Struct, frozen=True, gc=False):
    """The request was carried out and is durable."""


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """Refused: the run has another epoch than the request says. `run` is its current row."""

    run: RunRow


class Taken(msgspec.Struct, frozen=True, gc=False):
    """Refused: the id or the name of the new run belongs to `run`."""

    run: RunRow


class Missing(msgspec.Struct, frozen=True, gc=False):
    """Refused: there is no such run."""


class Outdated(msgspec.Struct, frozen=True, gc=False):
    """Refused: the standing row has this version, not the one that the request goes by. 0 if there is none."""

    version: int


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """Not carried out, because another request of the same batch was refused."""


class Failed(msgspec.Struct, frozen=True):
    """Not carried out, and nothing else of its batch. If the storage itself failed, the journal writes nothing more
    until it is opened anew, and everything submitted meanwhile is answered with the same error. A batch whose commit
    failed in its very last step may then turn out to be there, as a whole: load the run again before going on."""

    error: OnceflowError


Result = Done | Fenced | Taken | Missing | Outdated | Skipped | Failed

DONE = Done()
MISSING = Missing()
SKIPPED = Skipped()


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a batch: a result for each request, in their order."""

    results: tuple[Result, ...]
    ok: bool
    """Whether the batch was carried out."""

    @property
    def refusal(self) -> Result | None:
        """What kept the batch from being carried out."""
        return next((result for result in self.results if result not in (DONE, SKIPPED)), None)


AGAIN = 1.0
"""Seconds until `commit` tries again to withdraw what waits for too long."""

Answer = Callable[[Outcome], None]
"""Called from the journal's thread: it must be quick, and thread-safe."""

OnFailure = Callable[[OnceflowError], None]
"""The same for a failure of the storage."""


class Statistics(msgspec.Struct, frozen=True, gc=False):
    """What a journal has written since it was opened."""

    commits: int
    batches: int
    entries: int
    bytes: int
    """Of definitions and entries, without what the database adds."""
    commit_seconds: float
    """In transactions, from their begin until they were durable."""
    turn_seconds: float
    """Waited for other processes that write to the same journal."""

    @property
    def batches_per_commit(self) -> float:
        return self.batches / self.commits if self.commits else 0.0


class Command(msgspec.Struct, frozen=True, gc=False):
    """A command for a run that another engine may be driving."""

    number: int
    run: str
    kind: str
    body: bytes


class StandingRow(msgspec.Struct, frozen=True, gc=False):
    """The state of a schedule or a queue."""

    id: str
    version: int
    due: float | None
    definition: bytes
    state: bytes


class MailboxEvent(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event that was sent to a run."""

    number: int
    """Its place: those of later events are larger."""
    run: str
    key: str
    payload: bytes


class Loaded(msgspec.Struct, frozen=True):
    """A run as it stood at one moment. `entries` are read while they are iterated over."""

    run: RunRow
    graph: bytes
    settings: bytes
    entries: Iterator[Entry]


class DamagedRun(msgspec.Struct, frozen=True, gc=False):
    """A run whose own row is damaged."""

    number: int
    """The journal's own short name for it."""
    run: str
    """The id that the row has now; empty if that is no text."""
    reason: str


class Short(msgspec.Struct, frozen=True, gc=False):
    """A run with few entries."""

    run: RunRow
    graph: bytes
    settings: bytes
    entries: list[Entry]
    mail: list[MailboxEvent]
    """The events that have not been taken, in the order in which they were sent."""


class Journal(Protocol):
    lock_timeout: float
    """Seconds that `commit` gives other programs that keep the journal locked."""

    def identity(self) -> str:
        """Letters and digits that no other journal has, made with it. Where several journals have their blobs in one
        place, it identifies the journal of a blob."""

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        """Hands over a batch. Returns at once; raises `StorageClosed` after `close`."""

    def withdraw(self, answer: Answer) -> StorageError | None:
        """Takes back the batch that was submitted with this answer, if it has not been answered and waits for a lock
        that other programs hold: it is never carried out, nor answered. Returns the error that says so, or None."""

    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        """Commits a batch in the caller's thread and gives its outcome, if no other thread is writing or waiting to.
        None if that is not so: nothing has happened, submit it."""

    def when_failed(self, then: OnFailure) -> None:
        """Has this called when the storage fails and nothing more is written (`Failed`): in the thread that commits,
        before any batch is answered with the error. Called at once if that has happened already."""

    def get_run(self, run: str) -> RunRow | None: ...

    def find_name(self, name: str) -> RunRow | None: ...

    def check_absence(self, run: str) -> None:
        """A run with this id, or this name, was not found: looks whether that is true, at every run. Raises
        `StorageDamaged` if it is there after all and cannot be found; not if it was created meanwhile."""

    def find_runs(self, runs: Sequence[str]) -> dict[str, RunRow]:
        """The existing ones of these runs, each by its id, or else by its name."""

    def find_prefix(self, prefix: str, limit: int = 2) -> list[RunRow]:
        """Runs whose id starts with the prefix, newest first. Two are enough to know that a prefix is ambiguous."""

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
        """Runs that fit, newest first. `name` is the beginning of a name, `metadata` a JSON object whose members theirs
        has too, `before` the id of a run that is newer than all that are listed. (If that is gone, ids tell the order,
        which is good to a millisecond.)"""

    def damaged_runs(self) -> list[DamagedRun]:
        """The damaged runs, which lists leave out. Reads the rows of all runs."""

    def last_runs(
        self, statuses: Sequence[str], *, workflow: str | None = None, limit: int = 100, among: int
    ) -> list[RunRow]:
        """Runs with one of these statuses, newest first, looked for among the last so many, however many there are."""

    def owners(self, statuses: Sequence[str]) -> dict[str | None, int]:
        """The engines that claimed runs with one of these statuses last, and how many each; None for runs not claimed
        yet."""

    def owned(self, owner: str | None, statuses: Sequence[str], limit: int, *, parked: bool = False) -> list[RunRow]:
        """Some of those, oldest first: such that only wait (`RunRow.due`), or such that do not."""

    def size(self, run: str) -> int:
        """Bytes of its definition and its entries; 0 if there is no such run."""

    def load(self, run: str) -> AbstractContextManager[Loaded]:
        """Everything about a run, as one consistent view that lasts until the context ends. Raises `NoSuchRun`."""

    def load_short(self, runs: Sequence[str], most: int) -> dict[str, Short]:
        """The runs of these that have at most `most` entries. What is read of a run may be newer than its row: a
        claim with the epoch of that row detects it."""

    def blobs(self, run: str) -> tuple[RunRow | None, set[str]]:
        """The run and the references of all blobs that its entries name, as one consistent view."""

    def last_entries(self, run: str, kinds: Sequence[str], among: int) -> list[Entry]:
        """The entries of these kinds among the last `among` of a run, in order. None of a run that does not exist."""

    def commands(self, owner: str) -> list[Command]:
        """The commands for runs that this engine claimed last, in the order in which they were sent."""

    def get_standing(self, table: Table, id: str) -> StandingRow | None: ...

    def list_standing(self, table: Table) -> list[StandingRow]:
        """All of them, by id."""

    def mailbox(self, run: str, key: str) -> list[MailboxEvent]:
        """The events of this run under this key that have not been taken, in the order in which they were sent."""

    def runs_with_mail(self, owner: str, after: int = 0) -> dict[str, int]:
        """The runs that this engine claimed last, and that have events which have not been taken: the number of the
        newest of each. Those with larger numbers than `after` are enough, for journals in which no event shows up whose
        number is smaller than one that has been seen."""

    def statistics(self) -> Statistics: ...

    def close(self) -> None:
        """Commits what was submitted before, then lets go of everything. Closing twice is harmless."""


def commit(journal: Journal, requests: Sequence[Request], *, limited: bool = True) -> Outcome:
    """Submits a batch and waits for the answer: for callers without a loop of their own. If other programs keep the
    journal locked for too long it is withdrawn, and has `Failed` with `StorageBusy`, unless it is not `limited`."""
    answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    answer = answers.put
    journal.submit(requests, answer)
    timeout = journal.lock_timeout if limited and not math.isinf(journal.lock_timeout) else None
    while True:
        try:
            return answers.get(timeout=timeout)
        except queue.Empty:
            busy = journal.withdraw(answer)
            if busy is not None and answers.empty():  # else it has been answered meanwhile
                return Outcome((Failed(busy),) * len(requests), ok=False)
            timeout = AGAIN
