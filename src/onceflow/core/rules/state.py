"""The state of a run, the agenda through which the rules hand work to each other, and walks over the rows (2.2).

The rules are modules of functions over one `State`, from the bottom to the top

    state → settling → objects → starting → outputs → slices → recovery → failures → ending → loading

and none of them calls one that is built on top of it: it leaves a row on the agenda, and `core.run` works the agenda
off until it is empty. So nothing recurses, and a chain of a hundred thousand nodes costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from onceflow.core.model import commands, records, walks
from onceflow.core.model.graph import Graph
from onceflow.core.model.rows import Effort, End, Group, Mark, Row, Scope, new_row

Status = Literal["running", "undoing", "parked", "stopping", "succeeded", "failed", "undone", "cancelled"]
OnFailure = Literal["keep", "undo"]

EPOCH_BITS = 32
"""An attempt is one number that orders all attempts of a run: the epoch in the high bits, a count in the low ones."""


class State(msgspec.Struct, eq=False):
    """All that a run remembers. Only the rules change it.

    What most runs never fill is a dict, also where it is an ordered set: an empty one is nothing to the garbage
    collector, and there may be thousands of runs.
    """

    # -- how it was made

    graph: Graph
    """What is to be run. It never changes: what tasks return is in `rows` alone."""
    epoch: int = 1
    """How often the run was loaded, plus one. Attempts of later epochs have higher numbers."""
    on_failure: OnFailure = "keep"
    """`undo` makes it a saga: a failure takes back what can be taken back."""
    members: Iterable[str] | None = None
    """The part of the graph that it is about (`slices`), if it is not about all of it."""
    validate: bool = False
    """Every state is compared with its definition after every event, which is slow."""
    has_place: Callable[[str], bool] | None = None
    """If the host wants everything that has an effect to ask before it starts (design 2.13): whether it has a place for
    this node at once. If not, the node asks like one in a queue. Set before `begin()`; it must not report events to the
    run."""

    # -- the run as a whole

    rows: dict[str, Row] = {}
    """Id → row, for every node that still matters; an expander comes before the rows of its graph."""
    sink: Row | None = None
    """The row whose output is the result of the run; None if that is in another part of the graph."""
    whole: Scope = msgspec.field(default_factory=Scope)
    """The scope around all others. It ends with `sink`."""
    undos: dict[str, int] = {}
    """How often each node was undone. Part of its idempotency key, so it outlives the row."""
    final: commands.Status | None = None
    """How the run ended, once it has. Then no event changes anything but `Resume`, of a run that was loaded."""
    decided: list[commands.Command] = []
    """The commands of the answer that is being made; empty between events."""
    codes: dict[str, str] = {}
    """Nodes whose code is no longer what it was when their graph was stored → its version now."""
    aside: dict[Row, None] = {}
    """Rows without a path to the sink, which the end of the run waits for until they are settled."""

    # -- the agenda: empty between events, but for rows that wait for a reader (`takers`)

    outcomes: dict[Row, None] = {}
    """Sinks whose outcome, given for their graph, can be saved now or has been."""
    reconsider: list[Row] = []
    """Rows one of whose counters reached zero."""
    explore: list[Mark] = []
    """Marks whose obstacle is gone."""
    retirable: list[Row] = []
    """Rows that are settled together with all their consumers, perhaps."""
    suspects: dict[Row, None] = {}
    """Rows that may be lost and needed."""
    seeds: dict[Row, None] = {}
    """Rows whose lost output is needed again."""
    ready: list[Row] = []
    """Rows that might start."""
    eager: dict[Group, None] = {}
    """Groups one of whose rows may start, perhaps."""
    admitted: dict[Row, None] = {}
    """Rows that asked for admission and were answered."""
    takers: dict[Row, None] = {}
    """Rows that could start but for those that read what they take."""

    # -- attempts

    last_attempt: int = 0
    """The last attempt that was given out. It only grows."""
    running: int = 0
    """How many rows are running."""
    saving: int = 0
    """How many saves are asked for and not answered: the sum over the rows."""
    zombies: dict[int, str] = {}
    """Attempts that are stopped or lost and not known to have ended → the node."""
    stalled: bool = False
    """Nothing may start: a recovery is under way, or the run is stopping."""
    held: dict[Row, None] = {}
    """Rows that could start but for `stalled`."""
    limits: dict[str, int] = {}
    """Group → the limit that was set while the run went on. It outlives the group, which may come again."""
    queued: int = 0
    """How many rows have come to wait for their turn, ever; breaks ties."""

    # -- what is settled and what is kept

    no_way_back: bool = False
    """In this exploration nothing has what is being assumed as its witness, so no chain can lead back to that."""
    verdicts: dict[Mark, bool] = {}
    """What is known in this exploration of chains of witnesses: does the one that begins here stand?"""
    exposed: int = 0
    """How many begun undoable rows are not covered."""
    lingering: dict[Row, dict[Row, None]] = {}
    """Begun undoable row that is not covered → rows that stay because one of their readers would be dropped with it."""
    retained: dict[Scope, list[Row]] = {}
    """Transaction that may still fail → rows in it that would otherwise be released or forgotten."""
    kept: dict[str, Scope] = {}
    """Ids and scopes of forgotten rows whose effects were undoable."""

    # -- undos and recovery

    undoing: dict[Row, None] = {}
    """Rows with an undo: those whose `undo` is not None."""
    rebuilding: dict[Row, Effort] = {}
    """Rows that are being rebuilt, privately, for undos. Empty if nothing is being undone."""
    rebuilt: dict[Row, int] = {}
    """Parts that were rebuilt for undos. Empty if nothing is being undone."""
    recovering: dict[Row, None] = {}
    """Tainted members of the journaled R that is not yet dropped."""
    uncleared: dict[Row, int] = {}
    """The members of the recovery under way that are not yet undone → how many of their consumers are among them."""

    # -- failures, and graphs that end

    stopping: Literal["failed", "cancelled"] | None = None
    """Why nothing new starts. Once set, only a later `Resume` resets it."""
    undo_all: bool = False
    """Whether the run undoes all that can be undone before it ends."""
    undoing_all: bool = False
    """Whether the recovery under way does that."""
    failed: dict[str, Scope | None] = {}
    """Nodes that failed for good → where: their rows may be forgotten before the run ends."""
    gave_up: dict[Row, None] = {}
    """Rows whose attempts were asked to stop because the run, which is being stopped, no longer waits for them."""
    endings: dict[Scope, End] = {}
    """The scopes that are about to end, or to be tried again, except those that end, or are tried again, with another
    one."""
    pausing: dict[int, Scope] = {}
    """Attempt → the scope that is opened again when its delay is over."""
    afresh: dict[Scope, None] = {}
    """Scopes that have not ended after all. They open when what was taken back in them is dropped."""

    # -- what was loaded

    loaded: bool = False
    """It was rebuilt from a journal."""
    dormant: bool = False
    """Loaded as a run that had ended or parked, or to be cancelled: nothing happens before it is resumed or
    cancelled."""
    were_parked: dict[str, None] = {}
    """Nodes whose undo was parked according to the journal; empty once the run has woken."""
    to_be_dropped: dict[str, None] = {}
    """The members of the journaled R. Some become known only later, when their expander turns out to be saved."""
    torn: list[Row] = []
    """Rows that are saved in part, and count as a whole or not at all. Empty once the run has woken."""
    were_joined: dict[str, tuple[str, ...]] = {}
    """Node → what it has joined, with what is saved of it. Empty once the journal is replayed."""
    abandonments: dict[tuple[str, int, str], None] = {}
    """(sink, attempt, expander) of scopes that may have ended."""

    def __post_init__(self) -> None:
        nodes = self.graph.nodes
        rows = [new_row(node.id, node, self.whole) for node in nodes]
        for row in rows:
            walks.link_new(row, row.node.edges, rows)
            self.rows[row.id] = row
        self.last_attempt = self.epoch << EPOCH_BITS
        self.sink = rows[self.graph.sink]
        self.sink.checkpoint = True
        self.whole.ends_with(self.sink)

    def emit(self, command: commands.Command) -> None:
        """Add a command for the driver."""
        self.decided.append(command)

    def append(self, record: records.Record) -> None:
        """Add a record for the journal."""
        self.decided.append(commands.Append(record))

    def new_attempt(self) -> int:
        """A new attempt number."""
        self.last_attempt += 1
        return self.last_attempt

    def bury(self, row: Row, attempt: int) -> None:
        """This attempt will not report any more, but may still be alive."""
        self.zombies[attempt] = row.id
        if row.zombies is None:
            row.zombies = set()
        row.zombies.add(attempt)


def ends_aside(run: State) -> list[Row]:
    """The rows that stand aside, as far as they still matter."""
    return [row for row in run.aside if not row.scope.over]


def rows_in(run: State, scope: Scope) -> Iterator[Row]:
    """The rows of this graph, and of all nested in it."""
    return (row for row in run.rows.values() if row.scope.is_in(scope))


def scopes_in(run: State, scope: Scope) -> list[Scope]:
    """This graph, and all nested in it in which something is left, also if that is in a graph nested deeper."""
    found: dict[Scope, None] = {}
    for row in rows_in(run, scope):
        inner: Scope | None = row.scope
        while inner is not None and inner.depth >= scope.depth and inner not in found:
            found[inner] = None
            inner = inner.outer
    return list(found)
