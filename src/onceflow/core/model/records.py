"""What the journal keeps of a run, in order. `Run.load` rebuilds a run from any prefix of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart

Status = Literal["succeeded", "failed", "undone", "cancelled"]
"""How a run can end."""


class Begun(msgspec.Struct, frozen=True, gc=False):
    """An attempt of an undoable or irrevocable task may start from here on. `carried` names the input parts that are
    stored with this record, so that an undo finds them."""

    node: str
    attempt: int
    carried: tuple[tuple[str, int], ...] = ()


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    """The attempt with which this irrevocable node began never started, and never will: the node has not begun."""

    node: str


class Saved(msgspec.Struct, frozen=True, gc=False):
    """This part is saved. For a node that returned a graph, the graph is the value of part 0. The first record of an
    attempt lists the refs that its output holds; the others do not repeat it. `joined` are the nodes whose outcomes it
    was given."""

    node: str
    part: int
    attempt: int
    graph: Graph | None = None
    refs: tuple[RefPart, ...] = ()
    joined: tuple[str, ...] = ()


class Wrote(msgspec.Struct, frozen=True, gc=False):
    """The node is saved, and what this attempt wrote to task variables counts. It stands in the journal together with
    the last of the node's saves, or not at all."""

    node: str
    attempt: int


class Expanded(msgspec.Struct, frozen=True, gc=False):
    """This deterministic, not yet saved node returned a graph that is not deterministic. Should the graph be lost,
    the node counts as nondeterministic."""

    node: str


class Handled(msgspec.Struct, frozen=True, gc=False):
    """What this node, which is declared to be deterministic, gave last was made by a handler, or something in the graph
    that it returned was, which is not saved: until it is dropped, it counts as nondeterministic, and is saved."""

    node: str


class Trusted(msgspec.Struct, frozen=True, gc=False):
    """This node has run again and is what it declares: what *expanded* and *handled* said of it is past. `code` is the
    version of the code that what it gives from here on is made by; empty: that with which its graph was stored."""

    node: str
    code: str = ""


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """The graph that `expander` returned (the run, if that is empty) ends with what this attempt of its sink gives, if
    all of that is saved. What has not been done in it never will be."""

    node: str
    attempt: int
    expander: str


class Done(msgspec.Struct, frozen=True, gc=False):
    """An effectful task without a checkpoint whose consumers only wait for it (design 2.12) is done: counts as its
    save."""

    node: str


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The node has failed this often; `final` if that ends the run."""

    node: str
    failures: int
    final: bool


class Again(msgspec.Struct, frozen=True, gc=False):
    """The graph that this node returned has failed this often, and is tried again."""

    node: str
    failures: int


class Recovering(msgspec.Struct, frozen=True, gc=False):
    """These nodes are to be undone and dropped. Ends all their attempts and pending saves."""

    nodes: tuple[str, ...]


class Undone(msgspec.Struct, frozen=True, gc=False):
    """The node's effect is taken back; its idempotency key changes."""

    node: str


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """Everything in `Recovering` is undone; outputs and saves of these nodes are void."""

    nodes: tuple[str, ...]


class Parked(msgspec.Struct, frozen=True, gc=False):
    """The undo of this node keeps failing; the run waits for a user."""

    node: str


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """A user cancelled the run."""

    undo: bool


class Limited(msgspec.Struct, frozen=True, gc=False):
    """A caller set how many nodes of this group may be in flight."""

    group: str
    limit: int


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The run is over, with this status (see `commands.Finish`)."""

    status: Status


class Resumed(msgspec.Struct, frozen=True, gc=False):
    """A finished, unsuccessful run goes on; failures are counted from zero again."""


Record = (
    Begun
    | Withdrawn
    | Saved
    | Wrote
    | Expanded
    | Handled
    | Trusted
    | Abandoned
    | Done
    | Failed
    | Again
    | Recovering
    | Undone
    | Dropped
    | Parked
    | Cancelled
    | Limited
    | Finished
    | Resumed
)
