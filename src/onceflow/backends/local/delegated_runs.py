"""Runs that a worker drives by itself, as far as it can (design 1: choreography is delegation).

A worker is handed what the journal has of runs that wait, with the events that have come for them. It goes on with
each: the same core, the same driver, and a host without journal, without other workers and without patience. What a run
has to write down meanwhile is collected, and the engine commits all of it as one batch, with the claim in front. Until
that is durable nothing has happened, whichever process dies. So only code without effect may run here: segments of
fibers, which is what most of those have to do that were woken.

Whatever else a run asks for (a task, a blob, a place in a queue, a retry) is not to be had here. Then it is *handed
back*, and nothing of what was done counts: the engine drives it as if no worker had tried.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from onceflow.authoring import graph_storage
from onceflow.authoring.fiber_tasks import live_continuations
from onceflow.backends.jobs import make_job
from onceflow.backends.local import output_sender
from onceflow.backends.local.job_runner import arguments_of, finished
from onceflow.backends.local.messages import Job, Output
from onceflow.backends.local.refs import JobRefs
from onceflow.core.rules.state import OnFailure
from onceflow.core.run import Run, attempt_name
from onceflow.data.objects import Object
from onceflow.data.places import Live, Place
from onceflow.driver import measurements
from onceflow.driver.children import Outcome
from onceflow.driver.driver import Driver
from onceflow.driver.history import History, load_values
from onceflow.driver.outputs import Part
from onceflow.driver.work import Ahead, Work
from onceflow.errors import Stopped
from onceflow.storage.journal import (
    AppendEntries,
    Claim,
    Entry,
    MailboxEvent,
    MarkEvents,
    Request,
    SetStatus,
)
from onceflow.values import context, packed_outputs, variables
from onceflow.values.packed_outputs import SMALL, Packed, Ready
from onceflow.values.refs import Ref
from onceflow.values.variables import Updates

ENOUGH = 0.05
"""Seconds after which a worker leaves the rest to others."""

ROOM = SMALL - 8 * 1024
"""Bytes that a report may have about, so that it travels in a message."""

OVERHEAD = 100
"""Bytes that a run, or an entry, takes there besides what it carries."""

SLOW = 0.1
"""Seconds. What takes longer should not keep others waiting the next time."""


class Woken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run as the journal has it."""

    run: str
    epoch: int
    status: str
    metadata: str | None
    on_failure: OnFailure
    graph: int
    """Its place among `Delegation.graphs`."""
    entries: list[Entry]
    mail: list[MailboxEvent]


class Delegation(msgspec.Struct, frozen=True, array_like=True):
    """To a worker: go on with these."""

    owner: str
    """The engine that claims them."""
    graphs: list[bytes]
    runs: list[Woken]


class Driven(msgspec.Struct, frozen=True, array_like=True):
    """A run that got as far as it can: to its end, or to where it waits again."""

    run: str
    requests: list[Claim | AppendEntries | MarkEvents | SetStatus]
    """What has to become durable, as one batch."""
    status: str
    due: float | None
    """If it waits: `RunRow.due`."""
    attempts: list[tuple[str, int]]
    """Nodes that ran, and their attempts."""
    printed: list[tuple[int, Output]]
    """What they printed and logged, with their places in `attempts`. (What goes past Python's streams belongs to no
    job.)"""

    @property
    def size(self) -> int:
        """Bytes that a report of it takes, about."""
        entries = [
            entry for request in self.requests if isinstance(request, AppendEntries) for entry in request.entries
        ]
        content = [len(entry.body) + len(entry.value or b"") for entry in entries]
        content += [len(piece.data) for _, piece in self.printed]
        return OVERHEAD * (1 + len(content)) + sum(content)


class Report(msgspec.Struct, array_like=True):
    """The outcome of a delegation."""

    driven: list[Driven] = []
    handed_back: list[str] = []
    left: list[str] = []
    """There was no time, or no room, left for them."""
    slow: list[str] = []
    """Those of all that took long."""


encode = msgspec.msgpack.Encoder().encode
decode_report = msgspec.msgpack.Decoder(Report).decode
_decode = msgspec.msgpack.Decoder(Delegation).decode


_numbers = itertools.count(-1, -1)
"""By which runs are known here. Those of jobs are positive."""


class _NotAlone(Exception):
    """The run needs something that is not to be had here."""


def drive(delegation: bytes) -> Ready:
    """A job by itself. Gives a `Report`."""
    given = _decode(delegation)
    token = context.job_token.get()
    report = Report()
    tried: list[_Alone] = []
    room = ROOM
    began = before = time.monotonic()
    try:
        for woken in given.runs:
            if before - began > ENOUGH or room <= 0:
                report.left.append(woken.run)
                continue
            context.job_token.set(next(_numbers))
            alone = _Alone(woken, given.graphs[woken.graph], given.owner)
            tried.append(alone)
            room -= _try(alone, report, room)
            now = time.monotonic()
            if now - before > SLOW:
                report.slow.append(woken.run)
            before = now
    except BaseException:  # it was asked to stop: what was done is not reported
        for alone in tried:
            alone.forget()
        raise
    finally:
        context.job_token.set(token)
    return Ready(encode(report))


def _try(alone: _Alone, report: Report, room: int) -> int:
    """Returns how much of the room it takes."""
    try:
        driven = alone.drive()
    except Stopped:
        raise
    except BaseException:  # whatever it is: the engine finds out, and reports it
        alone.forget()
        report.handed_back.append(alone.run)
        return 0
    if driven.size <= room:
        report.driven.append(driven)
    else:
        alone.forget()
        (report.left if report.driven else report.handed_back).append(alone.run)
    return driven.size


def _elsewhere(*_: object, **__: object) -> NoReturn:
    raise _NotAlone


class _Refless(JobRefs):
    """Of a job that may not return any."""

    __slots__ = ()

    def set_aside_for(self, part: int) -> packed_outputs.SetAside:
        return _elsewhere

    def hold_in_graph(self, ref: Ref[Any]) -> int:
        _elsewhere()


class _Contents:
    """What jobs are given here: nothing but small values."""

    open_actors = peek = _elsewhere

    def load(self, part: bytes | Place | Live, refs: Sequence[Any] = ()) -> Any:
        return packed_outputs.unpack(self.view(part), refs)

    def view(self, part: bytes | Place | Live) -> bytes:
        return part if isinstance(part, bytes) else _elsewhere()


_contents = _Contents()


def _leave(packed: Packed) -> bytes:
    return packed.joined() if packed.size <= SMALL else _elsewhere()


class _Alone:
    """The host (`driver.work.Host`) and the store of one run."""

    def __init__(self, woken: Woken, graph: bytes, owner: str) -> None:
        self.run = woken.run
        self._woken = woken
        self._graph = graph
        self._owner = owner
        self._works: deque[Work] = deque()
        self._attempts: list[tuple[str, int]] = []
        self._printed: list[tuple[int, Output]] = []
        self._requests: list[Any] = []
        self._unanswered = 0
        self._dirty = False
        self._due: float | None = None

    def drive(self) -> Driven:
        """Raises whatever keeps it from getting on."""
        try:
            driver = self._go_on()
        finally:
            _tidy_up(context.job_token.get())
        status = "waiting" if driver.ending is None else driver.ending.status
        return Driven(self.run, self._requests, status, self._due, self._attempts, self._printed)

    def _go_on(self) -> Driver:
        driver = self._load()
        while not driver.over and self._due is None:
            if self._works:
                self._carry_out(driver, self._works.popleft())
            elif self._dirty:
                self._dirty = False
                driver.flush()
            elif self._unanswered:  # as if: whether it becomes durable concerns only the engine
                self._unanswered -= 1
                driver.committed()
            else:
                _elsewhere()
        if driver.interruption is not None:
            raise driver.interruption
        if driver.ending is None:
            driver.rest()
        return driver

    def forget(self) -> None:
        """What was done here does not count. The engine that continues it has attempts of the same names."""
        for node, attempt in self._attempts:
            live_continuations.drop(live_continuations.token_of(self.run, node, attempt_name(attempt)))

    def _load(self) -> Driver:
        woken = self._woken
        stored = graph_storage.decode(self._graph, _elsewhere)
        past = History.read(woken.entries, _elsewhere)
        if stored.changed or not past.is_plain:
            _elsewhere()
        run = Run.load(stored.graph, past.records, epoch=woken.epoch + 1, on_failure=woken.on_failure)
        if any(row.expander is not None and row.node.call.has_changed for row in run.rows.values()):
            _elsewhere()
        decided = run.begin()
        outputs, carried = load_values(woken.entries, run)
        driver = Driver(
            woken.run,
            run,
            self,
            self,
            opening=[Claim(woken.run, self._owner, woken.epoch)],
            past=past,
            outputs=outputs,
            carried=carried,
            mail=woken.mail,
            woken=True,
            metadata=woken.metadata,
            status=woken.status,
        )
        driver.begin(decided)
        return driver

    def _carry_out(self, driver: Driver, work: Work) -> None:
        token = context.job_token.get()
        job = make_job(token, "", driver, work, [_small(part) for part in work.inputs])
        job.context[context.ALONE] = 1
        self._attempts.append((work.node, work.attempt))
        started = time.time()
        refs = _Refless(job, _contents)
        outcome = finished(job, started, self._call(job, work, refs), _leave, refs)
        if outcome.lost or outcome.writes:
            _elsewhere()
        parts = [_small(part) for part in outcome.parts]
        size = sum(map(len, parts))
        driver.measurements.add(work, measurements.FINISHED, started, outcome.ended, os.getpid(), size)
        driver.finished(work, parts, outcome.graph, outcome.annotations)

    def _call(self, job: Job, work: Work, refs: JobRefs) -> Any:
        output_sender.holding[job.token] = []
        before = context.running.set(job.context)
        try:
            args, kwargs = arguments_of(job, _contents.load, refs)
            return work.call.function(*args, **kwargs)
        finally:
            context.running.reset(before)
            self._printed += [(len(self._attempts) - 1, piece) for piece in output_sender.release(job.token)]

    # -- as `Host` and `Store` have it ---------------------------------------------------------------------------------

    def start(self, driver: Driver, work: Work) -> None:
        settings = work.call.settings
        is_plain = work.refs is None and work.guard is None and work.failure is None and not work.undo
        limits = (settings.timeout, settings.total_timeout, settings.until)
        if not settings.fiber or not is_plain or limits != (None, None, None):
            _elsewhere()
        self._works.append(work)

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        """What follows has yet to be known."""

    def ask(self, driver: Driver, node: str) -> bool:
        _elsewhere()

    def unused(self, driver: Driver, node: str, attempt: int) -> None:
        _elsewhere()

    def forgo(self, driver: Driver, node: str) -> None:
        _elsewhere()

    def stop(self, driver: Driver, attempt: int) -> None:
        _elsewhere()

    def withdraw(self, driver: Driver, attempt: int) -> None:
        _elsewhere()

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None:
        _elsewhere()

    def checkpoint(
        self, driver: Driver, node: str, live: bytes, then: Callable[[bytes | Object | None, bytes | None], None]
    ) -> None:
        _elsewhere()

    def update(
        self, driver: Driver, updates: Updates, then: Callable[[Sequence[bytes | Object], bytes | None], None]
    ) -> None:
        _elsewhere()

    def changed_variables(self, driver: Driver) -> None:
        _elsewhere()

    def mailbox(self, driver: Driver, key: str) -> list[MailboxEvent]:
        return []  # what has come since it was loaded is seen by the engine, which wakes it again

    def park(self, driver: Driver, due: float) -> None:
        self._due = due

    def wake(self, driver: Driver) -> None:
        self._dirty = True

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        self._requests += requests
        self._unanswered += 1

    def later(self, driver: Driver, seconds: float, then: Callable[[], None]) -> None:
        """It is parked until then, or handed back."""

    @property
    def worker_deaths(self) -> int:
        _elsewhere()

    def chance(self) -> float:
        _elsewhere()

    def now(self) -> float:
        return time.time()

    def ended(self, driver: Driver) -> None:
        """`drive` looks."""

    def delete(self, reference: str) -> None:
        _elsewhere()

    def values(self, parts: set[tuple[str, int]]) -> dict[tuple[str, int], Part]:
        _elsewhere()

    def outcomes(self) -> dict[str, Outcome]:
        _elsewhere()


def _tidy_up(token: int) -> None:
    """What was noted under this number is no longer needed."""
    context.annotated.pop(token, None)
    context.sent.pop(token, None)
    context.take_lost(token)
    variables.take(token)


def _small(part: object) -> bytes:
    return part if isinstance(part, bytes) else _elsewhere()
