"""Reports of a pool about the jobs it was given. For each job there is exactly one report, which proves that it has
ended or never started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from onceflow.backends.local.messages import Outcome
from onceflow.data.objects import HeldRef, Object, Shelf
from onceflow.data.places import Live, Place
from onceflow.values.failures import Blame
from onceflow.values.handler_answers import Answer
from onceflow.values.variables import Step

Stream = Literal["stdout", "stderr", "log"]

STANDARD: tuple[Stream, Stream] = ("stdout", "stderr")


class Finished(msgspec.Struct, frozen=True, gc=False):
    """It returned. `parts` are packed, large ones perhaps live; times are seconds since the epoch; `worker` is a
    process id. `graph`: it returned a node, and the only part is the graph that leads to it."""

    token: int
    parts: Sequence[bytes | Object]
    started: float
    ended: float
    worker: int
    graph: bool = False
    annotations: str | None = None
    """Its metadata (`values.metadata`)."""
    refs: Sequence[HeldRef] = ()
    """The refs in the output."""
    writes: Sequence[Step] = ()
    """Its writes to task variables."""


class MetLost(msgspec.Struct, frozen=True, gc=False):
    """It asked for what refs refer to that it was given, and that is gone. `refs` are their places among them."""

    token: int
    refs: list[int]
    started: float
    ended: float
    worker: int


class Raised(msgspec.Struct, frozen=True, gc=False):
    """It raised: `failures.load(failure)` is the exception. `permanent`: trying again can never help, because what it
    returned cannot be sent, or what it needs cannot be loaded."""

    token: int
    failure: bytes
    permanent: bool
    started: float
    ended: float
    worker: int
    answer: Answer | None = None
    """What a handler says shall become of it."""
    here: bool = False
    """It was found out here, not where it ran: no handler has been asked."""


class Died(msgspec.Struct, frozen=True, gc=False):
    """The worker died while these jobs ran or before it could report their outcomes. `status` is its exit status,
    negative for a signal, None if unknown."""

    tokens: tuple[int, ...]
    worker: int
    status: int | None
    blame: Blame = "certain"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The job was stopped: it no longer runs, or has never started (`started` is False)."""

    token: int
    started: bool


Report = Finished | Raised | MetLost | Died | Ended


class Printed(msgspec.Struct, frozen=True, gc=False):
    """A job has written this, or logged it. What a job wrote comes in its order and before its report. `token` is 0 for
    what belongs to no job: a thread or subprocess goes on after its job, or several share a worker and the job is
    unknown. What is written past Python's streams, by C code and subprocesses, counts as the work of the job in the
    lane.

    On `stdout` and `stderr`, `text` consists of lines, each with its end, unless the job ended without one, flushed in
    the middle of a line, or wrote a very long one. On `log` it is one record (a very long one is cut in pieces), with
    its traceback and without an end of line; `level` and `logger` are the record's. `time` is in seconds since the
    epoch."""

    token: int
    stream: Stream
    text: str
    time: float
    level: int = 0
    logger: str = ""


class Progressed(msgspec.Struct, frozen=True, gc=False):
    """A job reports its progress. The last of these comes before its report."""

    token: int
    done: int | float
    total: int | float | None
    note: str


class Statistics(msgspec.Struct, frozen=True, gc=False):
    """A look at a pool."""

    workers: int
    """Processes that can take jobs now."""
    starting: int
    """Processes asked for that are not there yet."""
    queued: int
    """Jobs that no worker has."""
    taken: int
    """Jobs that a worker has, running or next."""
    dispatched: int
    """Jobs sent to workers since the pool was made, counting again those that were given back."""
    returned: int
    """Jobs given back by a worker since then, not started."""
    deaths: int
    """Workers that died since then without having been asked to."""
    actors: int = 0
    """Actors that live now, each in a process of its own. They do not count as workers."""


def report_of(outcome: Outcome, shelf: Shelf, worker: int) -> Finished | Raised | MetLost:
    """The report of a job that ran to its end in the worker with this process id. Large values come to the shelf."""

    def shelved(part: bytes | Place | Live) -> bytes | Object:
        if isinstance(part, bytes):
            return part
        return shelf.add_live(part, worker) if isinstance(part, Live) else shelf.add(part)

    token, started, ended = outcome.token, outcome.started, outcome.ended
    if outcome.lost:
        return MetLost(token, outcome.lost, started, ended, worker)
    if outcome.failure is not None:
        return Raised(token, outcome.failure, outcome.permanent, started, ended, worker, outcome.answer)
    parts = [shelved(part) for part in outcome.parts]
    refs = [
        HeldRef(ref.holders, ref.origin, None if ref.content is None else shelved(ref.content), ref.actor)
        for ref in outcome.refs
    ]
    return Finished(token, parts, started, ended, worker, outcome.graph, outcome.annotations, refs, outcome.writes)
