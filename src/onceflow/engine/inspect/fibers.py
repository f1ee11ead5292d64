"""The fibers of a run: where each is paused, and what it waits for.

Where a fiber waits is saved before anything that it waits for takes effect, so the journal knows, whichever engine
drives the run; and it is read without the run's code. What the journal does not know is how far a fiber has come since.
"""

from __future__ import annotations

import pickle
import re
from typing import Annotated, Any, Literal

import msgspec

from onceflow.authoring import graph_storage
from onceflow.authoring.fiber_tasks import stored_graphs
from onceflow.authoring.fiber_tasks.continuations import Continuation
from onceflow.authoring.fibers.snapshots import header_of
from onceflow.core.model.rows import Row
from onceflow.core.run import Run
from onceflow.driver.entries import LoadGraph
from onceflow.driver.fiber_failures import SEGMENT
from onceflow.driver.history import History
from onceflow.engine.inspect import wait_reasons
from onceflow.engine.inspect.journal_view import wake
from onceflow.errors import BadSnapshot
from onceflow.storage.journal import NEVER
from onceflow.storage.run_stores import Place
from onceflow.values.inert import Reader

FiberState = Literal["new", "waiting", "ready"]
"""`new`: it has not come to its first await. `waiting`: for what it awaits. `ready`: what it waited for is there, and
it goes on, or does so when an engine drives the run."""


class FiberFrame(msgspec.Struct, frozen=True):
    """One function of a fiber that waits."""

    function: str
    """`module:name`."""
    version: str
    """Of its code, in which the fiber stands."""
    file: str
    line: int
    source: str
    """The text of that line, as it was when the fiber came there."""
    label: str | None
    """Of the place, if the operation there has one."""
    locals: dict[str, str]
    """Its variables, shortened; values of classes that are not built in are shown by the name of their class, and
    secrets are masked."""


class FiberInfo(msgspec.Struct, frozen=True):
    """A fiber that has not ended."""

    id: str
    """That of the task with which it begins; its tasks are called `id/…`, `id~2/…`, `id~3/…`, those of a fiber that
    another one started `id/…`, `id/segment/…`, `id/segment~2/…`."""
    function: str
    """`module:name`."""
    state: FiberState
    waits_for: str = ""
    """What the fiber awaits, for users."""
    tasks: tuple[str, ...] = ()
    """Ids of the tasks that it waits for."""
    until: float | None = None
    """When its wait is over at the latest, in seconds since 1970, if it waits for time to pass or an event."""
    frames: tuple[FiberFrame, ...] = ()
    """The functions that it is in, outermost first."""


class _Frame(msgspec.Struct, frozen=True):
    """What the header of a snapshot has of a function."""

    ref: str
    version: str
    file: str
    line: int
    label: str | None
    locals: dict[str, str]


class _Header(msgspec.Struct, frozen=True):
    """What a snapshot records about itself."""

    frames: Annotated[list[_Frame], msgspec.Meta(min_length=1)]
    op: str


class Standing(msgspec.Struct, frozen=True):
    """A fiber as the journal has it."""

    info: FiberInfo
    continuation: Continuation | None


def list_fibers(home: Place, run: str) -> list[FiberInfo]:
    """The fibers that have not ended; of a run that failed or was cancelled, those that go on if it is resumed. Those
    that started others come first."""
    return [standing.info for standing in standing_in(home, run, stored_graphs.load_graph)[1]]


def standing_in(home: Place, run: str, load: LoadGraph) -> tuple[bytes, list[Standing]]:
    """The run's graph as it is stored, and its fibers. `load` reads graphs that tasks returned as
    `stored_graphs.load_graph` does."""
    with home.journal.load(run) as loaded:
        graph = graph_storage.decode_structure(loaded.graph)
        past = History.read(loaded.entries, home.blobs.read, load)
    if past.finished == "succeeded":
        return loaded.graph, []
    state = Run.load(graph, past.records, epoch=loaded.run.epoch + 1)
    wake(state, past)
    found = [_standing(row, past) for row in state.rows.values() if row.state != "done"]
    known = [standing for standing in found if standing is not None]
    return loaded.graph, sorted(known, key=lambda standing: _order(standing.info.id))


def _order(id: str) -> tuple[int, list[str | int]]:
    """Those that started others first; numbers in ids count as numbers."""
    return id.count("/"), [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", id)]


def _standing(row: Row, past: History) -> Standing | None:
    continuation = stored_graphs.continuation_in(row.node)
    if continuation is None:
        ref = stored_graphs.fiber_in(_task_of(row.node.call))
        return None if ref is None else Standing(FiberInfo(row.id, ref, "new"), None)
    try:
        header = msgspec.convert(header_of(continuation.snapshot), _Header)
    except msgspec.ValidationError as error:
        raise BadSnapshot(f"the header of the snapshot in {row.id} cannot be read: {error}") from error
    frames = _frames(header, continuation)
    if not stored_graphs.is_segment(row.node):
        return Standing(FiberInfo(row.id, frames[0].function, "new", frames=frames), continuation)
    missing = tuple(wait_reasons.missing(row)) if row.missing else ()
    ends = [past.deadlines[id] for id in missing if past.deadlines.get(id, NEVER) < NEVER]
    info = FiberInfo(
        id=_fiber_of(row.id),
        function=frames[0].function,
        state="waiting" if missing else "ready",
        waits_for=header.op,
        tasks=missing,
        until=max(ends, default=None),
        frames=frames,
    )
    return Standing(info, continuation)


def _task_of(call: Any) -> Any:
    if isinstance(call, graph_storage.Outline):
        try:
            return Reader(call.stored).load() if call.stored else None
        except pickle.UnpicklingError as error:
            raise BadSnapshot(f"a task that is stored by value cannot be read: {error}") from error
    return call.task


def _fiber_of(segment: str) -> str:
    """`fulfil~7/segment` → `fulfil`. What a fiber that another one started does last is to hand over its result, not
    its last segment, so its chain has a name of its own: `fulfil~7/fiber/segment~3/segment` → `fulfil~7/fiber`."""
    inside, _, _ = segment.rpartition("/")
    outer, slash, last = inside.rpartition("/")
    base, _, _ = last.partition("~")
    return outer if slash and base == SEGMENT else f"{outer}{slash}{base}"


def _frames(header: _Header, continuation: Continuation) -> tuple[FiberFrame, ...]:
    texts = {(known.ref, known.version): (known.first_line, known.source) for known in continuation.versions}
    frames = []
    for told in header.frames:
        first, source = texts.get((told.ref, told.version), (told.line, ""))
        lines = source.splitlines()[max(0, told.line - first) :]
        text = lines[0].strip() if lines else ""
        frames.append(FiberFrame(told.ref, told.version, told.file, told.line, text, told.label, told.locals))
    return tuple(frames)
