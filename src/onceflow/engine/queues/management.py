"""Inspecting and changing queues: called by users and the CLI, from any thread.

What a program declares (`queue`) is remembered beside what holds. Declaring the same again changes nothing: so a
program may declare its queues whenever it starts, and what a user has changed meanwhile (`set_queue`) stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

import msgspec

from onceflow.engine.queues.decision import State
from onceflow.engine.queues.limits import Limits, check_name, checked
from onceflow.errors import NoSuchQueue
from onceflow.storage.journal import DeleteQueue, Failed, WriteQueue, commit

if TYPE_CHECKING:
    from onceflow.engine.queues.decision import Share
    from onceflow.storage.journal import OfStanding, StandingRow
    from onceflow.storage.run_stores import Place


class QueueLimits(TypedDict, total=False):
    """The limits of a queue. None: it does not matter."""

    concurrency: int | None
    per_key: int | None
    per_host: int | None
    rate: str | None
    max_pending: int | None


class Defined(msgspec.Struct, frozen=True):
    """What the journal has of the limits of a queue."""

    limits: Limits
    declared: Limits | None = None
    """What a program said last."""


class QueuePlace(msgspec.Struct, frozen=True):
    """A place in a queue that is taken."""

    run: str
    task: str | None
    """None if the run as a whole has it."""
    key: str
    since: float
    """Seconds since 1970."""
    engine: str


class QueueInfo(msgspec.Struct, frozen=True):
    """Information about a queue."""

    name: str
    concurrency: int | None
    per_key: int | None
    per_host: int | None
    rate: str | None
    max_pending: int | None
    paused: bool
    waiting: int
    """How many wait for a place, roughly."""
    places: list[QueuePlace]
    """Those that are taken."""


class Queueing:
    """What an engine can do with queues."""

    def _queue_place(self) -> Place:
        """Where they are kept."""
        raise AssertionError("an engine says where")

    def _queues_changed(self) -> None:
        """Notify the engines that drive runs."""

    def queue(self, name: str, **limits: Unpack[QueueLimits]) -> QueueInfo:
        """Declares a queue: which tasks (`@task(queue="gpu")`) and runs (`run(node, queue="reports")`) may go on at the
        same time, and how fast, counted over all engines that share the journal.

        - `concurrency`: how many have a place at a time.
        - `per_key`: how many of those that count under one key (`@task(queue="api", queue_key="{customer}")`).
        - `per_host`: how many on one host.
        - `rate`: how many may begin in a stretch of time: `"10/s"`, `"100/m"`, `"5/10s"`. After a pause as many as that
          may begin at once.
        - `max_pending`: how many runs may wait; one more is refused with `QueueFull`.

        What is not given does not matter. Declaring the same again changes nothing, so a program may do that whenever
        it starts, and what was changed meanwhile with `set_queue` stays; another declaration replaces everything.

            queue("gpu", concurrency=2)
            queue("billing", rate="100/m", per_key=1)
        """
        declared = Limits(**checked(check_name(name), dict(limits)))

        def change(before: Defined) -> Defined:
            if before.declared == declared:
                return before
            return Defined(msgspec.structs.replace(declared, paused=before.limits.paused), declared)

        return self._change_queue(name, change, new=True)

    def set_queue(self, name: str, **limits: Unpack[QueueLimits]) -> QueueInfo:
        """Changes limits of a queue while everything goes on, wherever; those that are not given stay, and None takes
        one away. Holders of a place are not stopped.

            set_queue("gpu", concurrency=4)
        """
        changes = checked(check_name(name), dict(limits))
        return self._change_queue(name, lambda before: _with(before, **changes), new=True)

    def pause_queue(self, name: str) -> QueueInfo:
        """Admits nothing to a queue until `resume_queue`. Holders of a place keep it."""
        return self._change_queue(name, lambda before: _with(before, paused=True), new=True)

    def resume_queue(self, name: str) -> QueueInfo:
        """Ends the pause of a queue. Raises `NoSuchQueue`."""
        return self._change_queue(name, lambda before: _with(before, paused=False))

    def get_queue(self, name: str) -> QueueInfo:
        """Information about a queue: its limits, the holders of places, and how many wait. Raises `NoSuchQueue`."""
        return self._info(self._queue_row(name))

    def list_queues(self) -> list[QueueInfo]:
        """Information about all queues, by name.

        for found in list_queues():
            print(found.name, len(found.places), found.waiting)
        """
        return [self._info(row) for row in self._queue_place().journal.list_standing("queue")]

    def delete_queue(self, name: str) -> None:
        """Forgets the limits of a queue. Tasks and runs that name it go on, and wait for nothing.

        Raises `NoSuchQueue`."""
        while not self._write_queue(DeleteQueue(name, self._queue_row(name).version)):
            pass

    def _queue_row(self, name: str) -> StandingRow:
        row = self._queue_place().journal.get_standing("queue", name)
        if row is None:
            raise NoSuchQueue(name)
        return row

    def _change_queue(self, name: str, change: Callable[[Defined], Defined], *, new: bool = False) -> QueueInfo:
        while True:
            row = self._queue_place().journal.get_standing("queue", name)
            if row is None and not new:
                raise NoSuchQueue(name)
            before = Defined(Limits()) if row is None else defined(row)
            after = change(before)
            if row is not None and after == before:
                return self._info(row)
            version, state = (0, _encode(State())) if row is None else (row.version, row.state)
            if self._write_queue(WriteQueue(name, version, state, definition=_encode(after))):
                return self._info(self._queue_row(name))

    def _info(self, row: StandingRow) -> QueueInfo:
        limits = defined(row).limits
        shares = shares_of(row, self._queue_place())
        return QueueInfo(
            row.id,
            limits.concurrency,
            limits.per_key,
            limits.per_host,
            None if limits.rate is None else limits.rate.text,
            limits.max_pending,
            limits.paused,
            sum([share.waiting for share in shares.values()]),
            [
                QueuePlace(slot.run, slot.node or None, slot.key, slot.since, engine)
                for engine, share in shares.items()
                for slot in share.slots
            ],
        )

    def _write_queue(self, request: OfStanding) -> bool:
        """Whether no other engine was quicker."""
        outcome = commit(self._queue_place().journal, [request])
        if isinstance(outcome.refusal, Failed):
            raise outcome.refusal.error
        if outcome.ok:
            self._queues_changed()
        return outcome.ok


def defined(row: StandingRow) -> Defined:
    return msgspec.msgpack.decode(row.definition, type=Defined)


def shares_of(row: StandingRow, home: Place) -> dict[str, Share]:
    """What engines have of a queue. One that is gone has nothing, although its places are taken from the journal only
    when they are needed."""
    from onceflow.engine import proof_of_death  # this module is imported with the engine's class

    shares = msgspec.msgpack.decode(row.state, type=State).shares
    return {engine: share for engine, share in shares.items() if not proof_of_death.is_gone(home, engine)}


def waiting_elsewhere(row: StandingRow, home: Place) -> int:
    """How many wait for a queue in other engines than this one, roughly."""
    return sum([share.waiting for engine, share in shares_of(row, home).items() if engine != home.engine])


def _with(before: Defined, **changes: object) -> Defined:
    return msgspec.structs.replace(before, limits=msgspec.structs.replace(before.limits, **changes))


def _encode(what: object) -> bytes:
    return msgspec.msgpack.encode(what)
