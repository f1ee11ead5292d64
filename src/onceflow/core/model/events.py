"""What the driver reports to a `Run`. One class per event; `Run.handle` takes any of them.

An event about an attempt that is no longer the current one (it was lost, stopped, or belongs to an older epoch) is
late: it changes nothing, except that it proves the attempt has ended. An event that cannot have happened raises
`IllegalEvent`.
"""

from __future__ import annotations

import msgspec

from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart

Part = tuple[str, int]
"""One part of an output: (node id, index of the part)."""


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The attempt returned: every part of its output is visible. `graph` is set if it returned a graph (design 2.9);
    `small` says that all parts are small enough to be carried in a *begun* record; `refs` are the refs in the output,
    the parts after the declared ones (design 2.7). `handled`: it raised, and this is what a handler gave in its stead
    (2.8). `joined` are nodes that stand aside, of which it has been given the outcome (2.11)."""

    node: str
    attempt: int
    graph: Graph | None = None
    small: bool = True
    refs: tuple[RefPart, ...] = ()
    handled: bool = False
    joined: tuple[str, ...] = ()


class Raised(msgspec.Struct, frozen=True, gc=False):
    """The attempt raised (or timed out). `permanent`: trying again can never help, or the retry policy excludes it.
    `again`: a handler wants it to be tried once more, whatever the policy says. It may count as having raised although
    it never `started`, because its time was over."""

    node: str
    attempt: int
    permanent: bool = False
    again: bool = False
    started: bool = True


class Ends(msgspec.Struct, frozen=True, gc=False):
    """The attempt raised, and a handler answers for a graph around it (2.8): the scope at depth `ends` is tried again,
    or ends with an outcome that the driver has; `small` is about that. `failed` is the depth of the scope whose failure
    it is to the handler, negative if that is the task itself: transactions up to there are taken back."""

    node: str
    attempt: int
    failed: int
    ends: int
    again: bool = False
    small: bool = True


class Expired(msgspec.Struct, frozen=True, gc=False):
    """The time of a graph is over (2.8): that at depth `ends` around this node ends, with an outcome that the driver
    has; `small` is about that. Late if the graph has its result, or ends anyway; and reported again by the driver if
    the run was loaded and has yet to be resumed."""

    node: str
    ends: int
    small: bool = True


class Lost(msgspec.Struct, frozen=True, gc=False):
    """What one failure took at once: outputs that were in memory only, and attempts (also undos and private rebuilds)
    that will not report any more. A lost attempt has not necessarily ended: see `Ended`. An object that is lost is lost
    to every part that shared it (design 2.7), so all of them are named."""

    outputs: tuple[Part, ...] = ()
    attempts: tuple[tuple[str, int], ...] = ()


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Proof that a stopped or lost attempt (or undo) no longer runs and can have no further effect (design 2.6). If it
    never `started`, it had none before, either."""

    node: str
    attempt: int
    started: bool = True


class Saved(msgspec.Struct, frozen=True, gc=False):
    """The bytes of this part are written; the record that makes them count is appended in answer."""

    node: str
    part: int
    attempt: int


class SaveFailed(msgspec.Struct, frozen=True, gc=False):
    """Saving this part failed. `permanent`: it can never succeed (not picklable, say), which fails the run."""

    node: str
    part: int
    attempt: int
    permanent: bool = False


class Elapsed(msgspec.Struct, frozen=True, gc=False):
    """The delay asked for with `commands.Wait` is over."""

    node: str
    attempt: int


class Undone(msgspec.Struct, frozen=True, gc=False):
    """The undo returned."""

    node: str
    attempt: int


class UndoFailed(msgspec.Struct, frozen=True, gc=False):
    """The undo raised."""

    node: str
    attempt: int


class RetryUndo(msgspec.Struct, frozen=True, gc=False):
    """A user asks to retry the undo that parked this run."""

    node: str


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Stop the run. With `undo`, also take back the finished undoable tasks below which nothing irrevocable has
    begun."""

    undo: bool = False


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """The time that a cancelled run gives to begun irrevocable attempts is over."""


class Limit(msgspec.Struct, frozen=True, gc=False):
    """Limit of the nodes in flight from now on, of those that the graph of this node began with (design 2.10)."""

    group: str
    limit: int


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A node that asked for it may start (design 2.13). It starts at once, or not at all: then it asks again."""

    node: str


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Continue a run that was loaded and had failed, been undone, cancelled or parked. What is saved of the nodes in
    `again` is dropped (see `Run.droppable`)."""

    again: tuple[str, ...] = ()


class Given(msgspec.Struct, frozen=True, gc=False):
    """For a run over a part of a graph: the state of a node outside it that a member reads. Facts only grow, except
    that `available=False` says that the output was lost."""

    node: str
    available: bool = True
    quiet: bool = False
    reproducible: bool = False


Event = (
    Finished
    | Raised
    | Ends
    | Expired
    | Lost
    | Ended
    | Saved
    | SaveFailed
    | Elapsed
    | Undone
    | UndoFailed
    | RetryUndo
    | Cancel
    | GiveUp
    | Resume
    | Given
    | Limit
    | Admitted
)
