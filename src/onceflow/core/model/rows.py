"""Rows: the state of each node that a run keeps while the node matters (design 2.2). Only the rules of `core` change
it.

A row is in one of the states of `RowState`, and goes from one to another only as `MOVES` says: `Row.move` is the one
place where that happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from onceflow.core.model.effects import Effect
from onceflow.core.model.graph import Graph, Node
from onceflow.core.model.refs import RefPart

GRAPH = 1
"""Mask of the part that is the graph, where one was returned."""

RowState = Literal["waiting", "running", "backoff", "handled", "failed", "done"]
"""`waiting`: not started, or to be run again. `running`: an attempt is under way. `backoff`: it raised and waits for
its retry. `handled`: it raised, and will be done, with what a handler gave, when that attempt is undone. `failed`: it
raised for good. `done`: its output is, or has been, there."""

MOVES: dict[RowState, tuple[RowState, ...]] = {
    "waiting": ("running", "backoff", "handled", "failed", "done", "waiting"),
    "running": ("done", "backoff", "handled", "failed", "waiting"),
    "backoff": ("waiting", "handled", "done"),
    "handled": ("done", "waiting"),
    "failed": ("waiting",),
    "done": ("waiting", "done"),
}
"""State → those that may come next."""


class Row(msgspec.Struct, eq=False, kw_only=True):
    """One node of a run.

    The counters (`missing`, `unquiet`, `irreproducible`, `unsettled`, `uncommitted`) make the common decisions O(1):
    each counts the neighbours that still stand in the way, and is changed when a neighbour changes.
    """

    id: str
    node: Node
    effect: Effect
    repeatable: bool
    checkpoint: bool
    every_part: int
    """Mask of all parts of the output: the declared ones and, once it is done, the refs it holds."""
    parents: list[tuple[Row, int]] = []
    """(parent, mask of the parts read, with the refs that they hold); mask 0: control only."""
    consumers: list[tuple[Row, int, int]] = []
    """(consumer, mask, position of this row among the consumer's parents)."""

    state: RowState = "waiting"
    attempt: int = 0
    """The running attempt, or the one whose output this is; 0 if there is none. Late events carry another number."""
    visible: bool = False
    """A consumer may have read the output, now or in the past, and that reading still counts."""
    doomed: bool = False
    """The row will be undone and dropped. Until then only undos may read its output."""
    inferred: bool = False
    """After a crash: the row must have been done, because a row below it left a trace. Its return value is unknown."""
    available: int = 0
    """Mask of the parts that can be read now. Saved parts are available."""
    saved: int = 0
    recorded: bool = False
    """A *done* record counts as its save: its output is in memory and nowhere else."""
    saving: int = 0
    """Mask of the parts whose save was asked for and is not answered."""
    refs: Refs | None = None
    """The refs in the output; None if it holds none, or if it is not known."""
    small: bool = False
    writes: bool = False
    """The row writes task variables, which are committed with its save."""
    wrote: bool = False
    """Its writes are committed. (An outcome that a handler gave is no write.)"""
    follows_writer: bool = False
    """A parent writes task variables, or has joined something above which they may have been written: it sees them, so
    it starts when they are durable."""
    uncommitted: int = 0
    """How many parents write task variables and have not committed them, or have joined others and are not saved."""
    joined: tuple[Row, ...] = ()
    """The last of its parents: those that stand aside, whose outcomes it has been given (`rules.starting`)."""
    begun: bool = False
    begun_with: int = 0
    """For an irrevocable row that has begun: the attempt with which it did, as long as that may turn out never to have
    started. What it reads is covered when that is certain."""
    """A *begun* record counts: the effect may be there."""
    carried: tuple[tuple[str, int], ...] = ()
    pinned: list[Row] | None = None
    """The rows that an undo of this one may have to run again to see what the attempt saw."""
    pins: int = 0
    """How many undoable rows have this one among their `pinned`."""
    failures: int = 0
    handled: bool = False
    """Its output was made by a handler. Until it is dropped it is not repeatable."""
    forced: bool = False
    """It is saved, which its options do not ask for: because of something that was handled."""
    undo: Undo | None = None
    zombies: set[int] | None = None
    """Attempts and undos that will not report, but are not known to have ended."""

    missing: int = 0
    """Number of parents whose read parts are not available yet."""
    unquiet: int = 0
    """Number of parents that are not quiet."""
    irreproducible: int = 0
    """Number of parents that are not reproducible."""
    unsettled: int = 0
    """Number of consumers that are not settled."""
    unretired: int = 0
    """Number of parents that have not been forgotten."""
    settled: bool = False
    quiet: bool = False
    """Quiet, and visible: an output that no row can read yet need not be judged."""
    reproducible: bool = False
    """Reproducible, and visible."""
    settling: Mark | None = None
    quieting: Mark | None = None
    covered: bool = False
    """A begun irrevocable task stands on it: it is never undone or dropped."""
    released: bool = False
    retired: bool = False

    foreign: bool = False
    """Not a member of this part of the graph: another part runs it and reports with `Given`."""
    asked_for: bool = False
    """Foreign, lost, and `Need` was sent."""
    exported: bool = False
    """Read by nodes outside this part of the graph."""
    expander: Row | None = None
    nested: Nested | None = None
    code: str = ""
    """The version of the code that its output is made by, as the journal has it (`records.Trusted`)."""
    distrusted: bool = False
    """A record was appended that what the row returned would not come again (*expanded*), and does not have it yet."""
    forks: bool = False
    """A node stands aside in the graph that it returned."""
    prefix: tuple[str, int] | None = None
    """For the sink of a nested graph: the prefix of its ids as (base, tail depth)."""
    depth: int = 0
    scope: Scope
    ends: Scope | None = None
    """The row is `handled`, because the graph whose result it is has ended."""
    ended: Scope | None = None
    """The graph that has ended with it, before its result was there."""
    abandoned: bool = False
    """The row is done without an output: the graph that it is in ended before."""
    group: Group | None = None
    """The rows with which it takes turns."""
    queued: bool = False
    """It waits for its turn."""
    asking: bool = False
    """It has asked for admission."""
    keeps: Row | None = None
    """For the sink of a nested graph: the row of a group that is in flight until this one is done."""
    stands_for: Row | None = None
    """Like `keeps`, also when this row is done: it may be dropped. By then the other row may be forgotten."""

    @property
    def fully_saved(self) -> bool:
        return self.saved == self.every_part

    @property
    def is_empty(self) -> bool:
        """It was abandoned: what it should hold could not be had again. (A row that joins it learns that its graph has
        ended, however often.)"""
        return self.abandoned and not self.node.aside

    @property
    def is_known(self) -> bool:
        """The journal has the graph that it is in."""
        return self.expander is None or bool(self.expander.saved & GRAPH)

    @property
    def holds_up(self) -> bool:
        """Its readers have to wait until it is saved."""
        return (self.writes or bool(self.joined)) and not self.fully_saved

    @property
    def readable(self) -> int:
        """The parts that an undo can read. What was released is there only if it is saved."""
        return self.saved if self.released else self.available

    @property
    def touched(self) -> bool:
        """The row has changed since it was new or last dropped."""
        return self.state != "waiting" or self.visible or self.begun

    @property
    def is_to_be_saved(self) -> bool:
        """Whether its options say so, or the task is saved whose result it gives."""
        expander = self.expander
        if expander is not None and expander.nested is not None and expander.nested.sink is self:
            return expander.checkpoint
        return self.node.options.checkpoint

    @property
    def is_in_flight(self) -> bool:
        """Whether it has its turn, or has to have it, for itself: it runs, or has asked before it does."""
        return self.state == "running" or self.asking

    @property
    def opens(self) -> bool:
        """It will return a graph with more rows of its group."""
        return self.node.turn is not None and self.node.turn.opens

    @property
    def declared(self) -> int:
        """Mask of the parts that are values. What a task returned that returned a graph is one part, the graph."""
        return 1 if self.nested is not None else self.node.every_part

    def move(self, to: RowState) -> None:
        """Go to another state."""
        assert to in MOVES[self.state], f"{self.id} cannot become {to}: it is {self.state}"
        self.state = to

    def with_refs(self, mask: int) -> int:
        """These declared parts and the refs that they hold."""
        return mask if self.refs is None else mask | self.refs.held_by(mask) << self.node.parts

    def gives(self, mask: int) -> bool:
        """Whether the parts that an edge with this mask reads are available."""
        return self.visible if mask == 0 else not mask & ~self.available

    def __repr__(self) -> str:
        return f"<{self.id} {self.state}>"


def new_row(id: str, node: Node, scope: Scope) -> Row:
    """A row for a node that has not run."""
    options = node.options
    return Row(
        id=id,
        node=node,
        effect=options.effect,
        repeatable=options.repeatable,
        checkpoint=options.checkpoint,
        every_part=node.every_part,
        writes=options.writes,
        scope=scope,
    )


def forget_handling(row: Row) -> None:
    """Outcomes of handlers, of this row and in the graph that it returned, no longer count."""
    if row.handled:
        row.handled = False
        row.repeatable = row.node.options.repeatable
    if row.forced:
        row.forced = row.checkpoint = False


class Scope:
    """The graph that a failure concerns (design 2.8): the whole run, or a returned graph with all that is nested in it.
    Where the sink of a returned graph returns the next one, that belongs to the same scope."""

    __slots__ = (
        "_heir",
        "_sink",
        "closed",
        "depth",
        "expander",
        "failures",
        "given",
        "group",
        "in_force",
        "node",
        "outer",
        "over",
    )

    def __init__(self, outer: Scope | None = None, expander: Row | None = None) -> None:
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.expander = "" if expander is None else expander.id
        self.node = None if expander is None else expander.node
        """What returned the graph."""
        self.group: Scope | None = self if self.is_transaction else None if outer is None else outer.group
        """The innermost transaction that this graph is, or is in."""
        self.closed: bool = outer is not None and outer.closed
        """Closed: nothing in the scope may start, because it is about to end, or to be tried again."""
        self.over: bool = outer is not None and outer.over
        """It has ended: nothing in it will ever run."""
        self.failures = 0
        """How often it has failed as a whole."""
        self.given: Row | None = None
        """The outcome that the scope ended with before its result was there."""
        self.in_force: Any = None
        """The handlers in force here, as the driver knows them."""
        self._sink: Row | None = None
        self._heir: Scope | None = None

    @property
    def is_transaction(self) -> bool:
        """Whether a failure in it takes back what can be taken back."""
        return self.node is not None and self.node.options.transaction

    @property
    def sink(self) -> Row | None:
        """The row whose output is the result of this graph."""
        scope = self
        while scope._heir is not None:
            scope = scope._heir
        return scope._sink

    @property
    def unsettled_group(self) -> Scope | None:
        """The innermost transaction that this graph is, or is in, and whose result is not settled."""
        group = self.group
        while group is not None and group.sink is not None and group.sink.settled:
            group = None if group.outer is None else group.outer.group
        return group

    @property
    def has_result(self) -> bool:
        """Whether another row may have read its result, as far as is known here: the sink may be in another part of the
        graph. Then its result can no longer be taken back, and if it is a transaction, that is over."""
        sink = self.sink
        return sink is None or (sink.visible and not sink.doomed)

    def ends_with(self, sink: Row | None, heir: Scope | None = None) -> None:
        """The result is that of this row, or that of another graph."""
        self._sink = sink
        self._heir = heir

    def at(self, depth: int) -> Scope:
        """The graph at this depth that it is, or is nested in."""
        scope = self
        while scope.depth > depth and scope.outer is not None:
            scope = scope.outer
        return scope

    def is_in(self, other: Scope) -> bool:
        """Whether it is this graph, or nested in it."""
        scope: Scope | None = self
        while scope is not None and scope.depth > other.depth:
            scope = scope.outer
        return scope is other

    def is_in_any(self, others: Iterable[Scope]) -> bool:
        """Whether it is one of these graphs, or nested in one."""
        return any(self.is_in(other) for other in others)


class End:
    """The planned end of a closed scope (design 2.8)."""

    __slots__ = ("again", "cause", "expired", "inside", "joined", "small", "undo")

    def __init__(self, cause: str, small: bool, undo: list[Scope], *, again: bool, expired: bool = False) -> None:
        self.cause = cause
        """The node whose failure it was, or whose graph has run out of time."""
        self.small = small
        self.again = again
        self.expired = expired
        self.undo = undo
        """The transactions that are to be taken back for this."""
        self.joined: list[Row] = []
        """What was joined in what has been taken back of it: what it ends with may have come of that all the same."""
        self.inside: dict[Scope, End] = {}
        """What was to become of scopes in it, which end with it; unless it does not end, because it has a result."""


def with_those_inside(endings: dict[Scope, End]) -> Iterator[tuple[Scope, End]]:
    """These ends, and those that go with them."""
    for scope, end in endings.items():
        yield scope, end
        yield from with_those_inside(end.inside)


class Refs:
    """The refs in the output of a row (design 2.7)."""

    __slots__ = ("parts", "replaced", "told")

    def __init__(self, parts: tuple[RefPart, ...], *, told: bool, replaced: bool) -> None:
        self.parts = parts
        self.told = told
        """The journal has this description, together with a save of the attempt."""
        self.replaced = replaced
        """The journal has saves of an output with other refs, which no longer count."""

    def held_by(self, declared: int) -> int:
        """Mask over `parts` of those that these declared parts hold."""
        held = 0
        for number, ref in enumerate(self.parts):
            if ref.holders & declared:
                held |= 1 << number
        return held


class Mark:
    """A claim about a row ("is settled", or for repeatable rows "is quiet") that does not hold yet, and why not.

    `why` is another claim that this one requires; following it from mark to mark ends at a row that is not done.
    `hinders` are the marks whose `why` this is (some of them stale).
    """

    __slots__ = ("about_quiet", "consumer", "hinders", "parent", "row", "why")

    def __init__(self, row: Row, about_quiet: bool) -> None:
        self.row = row
        self.about_quiet = about_quiet
        self.why: Mark | None = None
        self.hinders: list[Mark] = []
        self.consumer = 0
        """All consumers before this position are settled, or done and saved."""
        self.parent = 0
        """All parents before this position are quiet."""

    @property
    def holds(self) -> bool:
        return self.row.quiet if self.about_quiet or self.row.foreign else self.row.settled

    @property
    def open(self) -> bool:
        """Whether the claim can hold at all now."""
        row = self.row
        return not row.doomed and (row.visible if self.about_quiet else row.state == "done")


def settled_mark(row: Row) -> Mark:
    """The claim that the row is settled."""
    if row.settling is None:
        row.settling = Mark(row, about_quiet=False)
    return row.settling


def quiet_mark(row: Row) -> Mark:
    """The claim that the row is quiet, which is the claim that it is settled if it is not repeatable."""
    if not row.repeatable:
        return settled_mark(row)
    if row.quieting is None:
        row.quieting = Mark(row, about_quiet=True)
    return row.quieting


class Effort:
    """Work that is tried until it succeeds: an undo, or the private rebuilding of what an undo needs."""

    __slots__ = ("attempt", "failures", "parked", "waiting")

    def __init__(self) -> None:
        self.attempt = 0
        """The one under way (or the one that raised, while waiting), else 0."""
        self.failures = 0
        self.waiting = False
        """It raised and waits before the next try."""
        self.parked = False
        """It raised too often and waits for a user."""

    @property
    def idle(self) -> bool:
        return not (self.attempt or self.parked)


class Undo(Effort):
    """The undo of one row."""

    __slots__ = ()


class Nested:
    """The graph that a row returned, as rows of the run."""

    __slots__ = ("graph", "held", "rows", "sink")

    def __init__(self, graph: Graph, rows: list[Row], sink: Row) -> None:
        self.graph = graph
        self.rows = rows
        self.sink = sink
        self.held: list[Row] = []
        """Rows whose saves wait until the expander is saved."""

    def all_graphs(self) -> Iterator[Nested]:
        """This one, and all that are nested in it."""
        graphs = [self]
        for graph in graphs:  # grows while it is gone through
            yield graph
            graphs += [row.nested for row in graph.rows if row.nested is not None]

    @property
    def is_repeatable(self) -> bool:
        """Would running it again go unnoticed, with all that is nested in it?"""
        return all(row.repeatable for graph in self.all_graphs() for row in graph.rows)

    @property
    def is_answered_for(self) -> bool:
        """Whether a handler has given something in it, or what it ends with."""
        return any(row.handled or row.ends is not None for graph in self.all_graphs() for row in graph.rows)


class Group:
    """Rows that take turns (design 2.10), as the chunks of a loop do."""

    __slots__ = ("flying", "id", "items", "limit", "waiting")

    def __init__(self, id: str, limit: int, items: int) -> None:
        self.id = id
        """Of the row that returned the graph with which the group begins."""
        self.limit = limit
        self.items = items
        """How many items all of them stand for."""
        self.flying: dict[Row, None] = {}
        """Rows that are in flight."""
        self.waiting: list[tuple[int, int, Row]] = []
        """Rows that could start but for their turn, as a heap by their order. Some may be gone or not be ready any
        more."""

    @property
    def is_open(self) -> bool:
        """Whether the next one that waits may start."""
        if not self.waiting or len(self.flying) >= self.limit:
            return False
        return not (self.waiting[0][2].opens and any(row.opens for row in self.flying))
