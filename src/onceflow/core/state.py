"""The memory of a run, and the agenda through which the verbs of `core` hand work to each other.

No verb calls another that is built on top of it: it leaves a row on the agenda, and `Run` works the agenda off until
it is empty. So nothing recurses, and a chain of a hundred thousand nodes costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from onceflow.core import commands, records
from onceflow.core.graph import Edge, Graph
from onceflow.core.rows import Mark, Row, Scope, new_row

Status = Literal["running", "undoing", "parked", "stopping", "succeeded", "failed", "undone", "cancelled"]
OnFailure = Literal["keep", "undo"]

EPOCH_BITS = 32
"""An attempt is one number that orders all attempts of a run: the epoch in the high bits, a count in the low ones."""


class RunState(msgspec.Struct, eq=False):
    """What every verb can see.

    What most runs never fill is a dict, also where it is an ordered set: an empty one is nothing to the garbage
    collector, and there may be thousands of runs.
    """

    graph: Graph
    epoch: int = 1
    on_failure: OnFailure = "keep"
    members: Iterable[str] | None = None
    """The part of the graph that it is about, if it is not about all of it."""
    validate: bool = False
    has_place: Callable[[str], bool] | None = None
    """If the host wants everything that has an effect to ask before it starts (design 2.13): whether it has a place for
    this node at once. If not, the node asks like one in a queue. Set before `begin()`; it must not tell the run
    anything."""
    rows: dict[str, Row] = {}
    undos: dict[str, int] = {}
    """How often the effect of a node was taken back. Part of its idempotency key, so it outlives the row."""
    final: commands.Status | None = None
    """How the run ended, once it has."""

    _codes: dict[str, str] = {}
    """Nodes whose code is no longer what it was when their graph was stored → its version now."""
    _commands: list[commands.Command] = []
    _attempt: int = 0
    """The last attempt that was given out."""
    _reconsider: list[Row] = []
    """Agenda: rows one of whose counters reached zero."""
    _explore: list[Mark] = []
    """Agenda: marks whose obstacle is gone."""
    _retirable: list[Row] = []
    """Agenda: rows that are settled together with all their consumers, perhaps."""
    _ready: list[Row] = []
    """Agenda: rows that might start."""
    _seeds: dict[Row, None] = {}
    """Agenda: rows whose lost output is needed again."""
    _suspects: dict[Row, None] = {}
    """Agenda: rows that may be lost and needed."""
    _outcomes: dict[Row, None] = {}
    """Agenda: sinks whose outcome, given for their graph, can be saved now or has been."""
    _held: dict[Row, None] = {}
    """Rows that could start but for `_stalled`."""
    _stalled: bool = False
    """Nothing may start: a recovery is under way, or the run is stopping."""
    _running: int = 0
    """How many rows are running."""
    _saving: int = 0
    """How many saves are asked for and not answered."""
    _zombies: dict[int, str] = {}
    """Attempts that are stopped or lost and not known to have ended → the node."""

    _aside: dict[Row, None] = {}
    """Rows from which nothing leads to the sink, and which the end of the run has to wait for all the same, until they
    are settled."""
    _whole: Scope = msgspec.field(default_factory=Scope)
    _sink: Row | None = None

    def __post_init__(self) -> None:
        graph = self.graph
        self._attempt = self.epoch << EPOCH_BITS
        self._build(graph, None if self.members is None else set(self.members))
        self._sink = self.rows.get(graph.nodes[graph.sink].id)
        self._whole.ends_with(self._sink)
        if self._sink is not None:
            self._sink.checkpoint = True

    @property
    def partial(self) -> bool:
        return self.members is not None

    def _build(self, graph: Graph, members: set[str] | None) -> None:
        rows: list[Row] = []
        for node in graph.nodes:
            row = new_row(node.id, node, self._whole)
            rows.append(row)
            if members is not None and node.id not in members:
                row.foreign = True
                for parent, _ in node.edges:
                    rows[parent].exported = True
                continue
            link_new(row, node.edges, rows)
        for row in rows:
            if not row.foreign:
                if row.exported:
                    row.unsettled += 1  # nobody here learns when those outside are settled
                self.rows[row.id] = row
            elif row.consumers:
                self.rows[row.id] = row

    def ends(self) -> list[Row]:
        """The rows that everything leads to: the sink, or what nobody reads in this part of the graph."""
        if self._sink is not None:
            return [self._sink]
        return [row for row in self.rows.values() if not row.consumers]

    def ends_aside(self) -> list[Row]:
        """What stands aside, as far as it still matters."""
        return [row for row in self._aside if not row.scope.over]

    def _emit(self, command: commands.Command) -> None:
        self._commands.append(command)

    def _append(self, record: records.Record) -> None:
        self._commands.append(commands.Append(record))

    def _ask_for(self, foreign: Row) -> None:
        """A member needs a lost output from outside. Asked once for each loss."""
        if not foreign.asked_for:
            foreign.asked_for = True
            self._commands.append(commands.Need(foreign.id))

    def _new_attempt(self) -> int:
        self._attempt += 1
        return self._attempt

    def _bury(self, row: Row, attempt: int) -> None:
        """This attempt will not report any more, but may still be alive."""
        self._zombies[attempt] = row.id
        if row.zombies is None:
            row.zombies = set()
        row.zombies.add(attempt)

    def _prove_ended(self, row: Row | None, attempt: int) -> None:
        """`row` is None if the run has forgotten it."""
        self._zombies.pop(attempt, None)
        if row is not None and row.zombies is not None:
            row.zombies.discard(attempt)
            if not row.zombies:
                row.zombies = None
                self._ready.append(row)


def link_new(row: Row, edges: Iterable[Edge], rows: Sequence[Row]) -> None:
    """Add the edges of a new row, whose parents are all new: none of them gives anything yet."""
    parents = row.parents
    for number, mask in edges:
        parent = rows[number]
        parent.consumers.append((row, mask, len(parents)))
        parent.unsettled += 1
        parents.append((parent, mask))
        if parent.writes:
            row.follows_writer = True
            row.uncommitted += 1
    row.missing = row.unquiet = row.irreproducible = row.unretired = len(parents)


def link(parent: Row, consumer: Row, mask: int) -> None:
    """Add an edge to a row that has not started."""
    parent.consumers.append((consumer, mask, len(consumer.parents)))
    parent.unsettled += 1
    consumer.parents.append((parent, mask))
    consumer.missing += not parent.gives(mask)
    consumer.unquiet += not parent.quiet
    consumer.irreproducible += not parent.reproducible
    consumer.unretired += 1
    consumer.follows_writer |= parent.writes
    if parent.writes:
        consumer.uncommitted += parent.holds_up


def reach(rows: Iterable[Row], next_to: Callable[[Row], Iterable[Row]]) -> dict[Row, None]:
    """All that can be reached from these rows, without those of them that cannot."""
    found: dict[Row, None] = {}
    stack = list(rows)
    while stack:
        more = [other for other in next_to(stack.pop()) if other not in found]
        found.update(dict.fromkeys(more))
        stack += more
    return found


def stood_on_with(row: Row) -> list[Row]:
    """What is stood on if this row is (design 2.8): its parents, and all that read it, if it could not be made
    again."""
    more = [parent for parent, _ in row.parents]
    return more if row.reproducible else [*more, *(consumer for consumer, _, _ in row.consumers)]


def unsaved_parents(row: Row) -> list[Row]:
    """What it reads and would have to be made again."""
    return [parent for parent, _ in row.parents if not parent.fully_saved]


def topological(rows: Mapping[str, Row]) -> list[Row]:
    """All rows, parents before consumers."""
    waiting = {row: sum(not parent.retired for parent, _ in row.parents) for row in rows.values()}
    order = [row for row, count in waiting.items() if count == 0]
    for row in order:
        for consumer, _, _ in row.consumers:
            if not consumer.retired:
                waiting[consumer] -= 1
                if waiting[consumer] == 0:
                    order.append(consumer)
    return order
