"""A host that does nothing by itself: tests decide what is committed, returns, raises or dies, and when."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from onceflow import RetryPolicy, task
from onceflow.authoring.graph_builder import build_graph
from onceflow.core.run import Run
from onceflow.data.objects import Object, Shelf
from onceflow.data.places import Place
from onceflow.driver.children import Outcome
from onceflow.driver.driver import Driver
from onceflow.driver.history import find_outcomes
from onceflow.driver.work import Ahead, Work
from onceflow.errors import OnceflowError
from onceflow.storage.journal import AppendEntries, Entry, MailboxEvent, Request, SetStatus
from onceflow.values.failures import Blame


class FakeHost:
    """Implements `Host` and `Store`."""

    def __init__(self) -> None:
        self.started: list[Work] = []
        self.stopped: list[int] = []
        self.ahead: list[Ahead] = []
        self.foreseen: list[str] = []
        """What was foreseen last, and the nodes of it."""
        self.batches: list[Sequence[Request]] = []
        self.committed = 0
        self.saves: list[tuple[str, bytes, Callable[[str | None], None]]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.blobs: dict[str, bytes] = {}
        self.deleted: list[str] = []
        self.mail: list[MailboxEvent] = []
        self.over = False
        self.clock = 1000.0
        self._dirty: list[Driver] = []

    # Host

    def start(self, driver: Driver, work: Work) -> None:
        self.started.append(work)

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        self.ahead = ahead
        self.foreseen = [foreseen.work.node for foreseen in ahead]

    def stop(self, driver: Driver, attempt: int) -> None:
        self.stopped.append(attempt)

    def withdraw(self, driver: Driver, attempt: int) -> None:
        """It has started, and goes on."""

    def save(self, driver: Driver, name: str, value: bytes, then: Callable[[str | None], None]) -> None:
        self.saves.append((name, value, then))

    def wake(self, driver: Driver) -> None:
        self._dirty.append(driver)

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        self.batches.append(requests)

    def mailbox(self, driver: Driver, key: str) -> list[MailboxEvent]:
        return [event for event in self.mail if event.key == key]

    def park(self, driver: Driver, due: float) -> None:
        pass

    def later(self, driver: Driver, seconds: float, then: Callable[[], None]) -> None:
        self.timers.append((seconds, then))

    worker_deaths = 3

    def chance(self) -> float:
        return 0.5

    def now(self) -> float:
        return self.clock

    def ended(self, driver: Driver) -> None:
        self.over = True

    # Store

    def read(self, reference: str) -> bytes:
        return self.blobs[reference]

    def delete(self, reference: str) -> None:
        self.deleted.append(reference)

    def values(self, parts: set[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        from onceflow.driver.history import find_values

        return find_values(iter(self.entries(self.committed)), parts, self.read)

    def outcomes(self) -> dict[str, Outcome]:
        return find_outcomes(self.entries(self.committed))

    # What tests do

    def flush(self) -> None:
        while self._dirty:
            self._dirty.pop(0).flush()

    def entries(self, batches: int | None = None) -> list[Entry]:
        """Everything that was handed to the journal, or only what is committed."""
        return [
            entry
            for batch in self.batches[:batches]
            for request in batch
            if isinstance(request, AppendEntries)
            for entry in request.entries
        ]

    def statuses(self) -> list[str]:
        return [request.status for batch in self.batches for request in batch if isinstance(request, SetStatus)]

    def running(self, node: str) -> Work:
        return next(work for work in reversed(self.started) if work.node == node)


def large() -> Object:
    """A value in shared memory, as far as a driver is concerned."""
    return Object(Shelf(), Place(1, 0, 1_000_000))


class Drive:
    """A driver of the graph that leads to a node."""

    def __init__(self, node: Any, *, opening: Sequence[Request] = (), on_failure: Any = "keep", epoch: int = 1) -> None:
        self.host = FakeHost()
        self.run = Run(build_graph(node), on_failure=on_failure, epoch=epoch)
        self.driver = Driver("r", self.run, self.host, self.host, opening=opening)
        self.driver.begin()
        self.host.flush()

    def commit(self) -> None:
        """The journal answers the next batch."""
        assert self.host.committed < len(self.host.batches), "nothing to commit"
        self.host.committed += 1
        self.driver.committed()
        self.host.flush()

    def finish(self, node: str, *values: object) -> None:
        work = self.host.running(node)
        self.driver.finished(work, [pickle.dumps(value) for value in values], False)
        self.host.flush()

    def finish_with(self, node: str, *parts: bytes | Object) -> None:
        self.driver.finished(self.host.running(node), parts, False)
        self.host.flush()

    def lose(self, *objects: Object) -> None:
        self.driver.lost(set(objects))
        self.host.flush()

    def undo(self, node: str) -> None:
        self.driver.finished(self.host.running(node), [], False)
        self.host.flush()

    def fail(self, node: str, failure: bytes = b"failure", permanent: bool = False) -> None:
        self.driver.raised(self.host.running(node), failure, permanent)
        self.host.flush()

    def die(self, node: str, blame: Blame = "certain") -> None:
        self.driver.died(self.host.running(node), -9, blame)
        self.host.flush()

    def end(self, node: str) -> None:
        self.driver.ended(self.host.running(node))
        self.host.flush()

    def save(self, reference: str) -> None:
        """The next blob is written."""
        _, value, then = self.host.saves.pop(0)
        self.host.blobs[reference] = value
        then(reference)
        self.host.flush()

    def forget_save(self) -> None:
        """What the next blob was to hold is no more."""
        _, _, then = self.host.saves.pop(0)
        then(None)
        self.host.flush()

    def interrupt(self, error: OnceflowError) -> None:
        self.driver.interrupt(error)

    @property
    def started(self) -> list[str]:
        return [work.node for work in self.host.started]

    @property
    def kinds(self) -> list[str]:
        return [f"{entry.kind} {entry.node}".strip() for entry in self.host.entries()]


@task.pure
def pure(*values: Any) -> Any: ...


@task.pure(num_returns=2)
def pair(*values: Any) -> Any: ...


@task
def effect(*values: Any) -> Any: ...


@task(can_rollback=True)
def loose(*values: Any) -> Any: ...


def take_back(*, output: Any, key: str) -> None: ...


@task(rollback=take_back, retry=RetryPolicy(1, delay=3, jitter=0))
def undoable(*values: Any) -> Any: ...


def commit(drive: Drive) -> None:
    drive.host.flush()
    while drive.host.committed < len(drive.host.batches):
        drive.commit()
