"""Requests of a driver, and the interfaces that it sends them to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from onceflow.data.objects import Object
from onceflow.driver.actors import Use
from onceflow.driver.outputs import Part
from onceflow.storage.journal import MailboxEvent, Request
from onceflow.values.variables import Updates

if TYPE_CHECKING:
    from onceflow.driver.children import Outcome
    from onceflow.driver.driver import Driver


class GivenRefs(msgspec.Struct, frozen=True, gc=False):
    """The refs that an attempt is given, in its inputs or as inputs."""

    ids: list[str]
    """The node that made them: equal refs that came different ways have equal ids."""
    sources: list[tuple[str, int]]
    """Where they come from: (node, part)."""
    contents: list[Part]
    """What they refer to."""
    inner: dict[int, list[int]]
    """Place of a ref to an output that holds refs → the same for the refs in that."""
    tables: dict[int, list[int]]
    """Place among `Work.inputs` → for each number of a ref in it, its place here, or -1. An empty input stands for the
    first of them itself."""
    actors: dict[int, Use] = {}
    """Places of those that are actors → how the attempt uses them."""


class Work(msgspec.Struct, frozen=True, gc=False):
    """An attempt of a node, or the undo of one, with all it needs."""

    node: str
    task: str
    """Its name."""
    attempt: int
    call: Any
    """`core.model.graph.Node.call`: what is called. Opaque to the driver but for its slots and its retry policy."""
    inputs: list[Part]
    """For each slot what it reads."""
    parts: int
    key: str
    """The idempotency key for outside systems."""
    spans: Sequence[int] = ()
    """How many of `inputs` belong to each slot: an output of several parts that is read as a whole has several. Empty
    if each slot has one."""
    refs: GivenRefs | None = None
    undo: bool = False
    has_output: bool = False
    """For an undo: whether what comes after the inputs of all slots is the output that is taken back. It is not there
    if no attempt finished, or if it has been forgotten."""
    failures: int = 0
    """How often it has raised before."""
    tried: str = ""
    """For a chunk or an item of a loop: how often the graphs around it have been tried again."""
    again: bool = False
    """Whether an earlier attempt has finished, and others have seen its output."""
    keep: bool = False
    """Whether snapshots are to be taken of the actors that it returns."""
    guard: Any = None
    """What is asked if it raises for the last time (`authoring.handler_guards`), if there is anything to ask."""
    failed: Mapping[int, int] = {}
    """How often what the guard answers for has failed before."""
    inside: str = ""
    """For a segment of a fiber: what the ids of nodes in a graph that it returns begin with."""
    cancelled: bool = False
    """For a segment of a fiber: whether the run is to be cancelled."""
    deadline: float | None = None
    """For the first segment of a fiber: when the time of what is around it is over, in seconds since 1970."""
    failure: bytes | None = None
    """What it counts as having raised, though not where it runs: only the guard is asked."""
    alone: bool = False
    """A worker died while it ran there: it does not share a worker's time with others, so that one is to blame."""


class Ahead(msgspec.Struct, frozen=True, gc=False):
    """Work that will be started when what comes before it has returned, if nothing else happens (see `ahead`)."""

    work: Work
    fed: list[tuple[int, int]]
    """(slot, part of the output before it): inputs that are not there yet."""


class Host(Protocol):
    """What surrounds the drivers of one process. All its answers come later, never from inside these calls."""

    @property
    def worker_deaths(self) -> int:
        """Workers that may die in a row while they run one task, if the task does not say: the last of them fails
        it."""

    def start(self, driver: Driver, work: Work) -> None:
        """Answered by `Driver.finished`, `raised`, `died` or `ended`."""

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        """These will be started behind what was just started, one after the other, if nothing else happens."""

    def ask(self, driver: Driver, node: str) -> bool:
        """A node wants to start, and has to be admitted (`core.rules.starting`). Whether it is admitted at once; else
        it is answered by `Driver.admitted` or `Driver.admit`."""

    def unused(self, driver: Driver, node: str, attempt: int) -> None:
        """A node that was admitted will not be started with this attempt; 0 if there is none."""

    def forgo(self, driver: Driver, node: str) -> None:
        """A node that asked, and was not admitted, does not wait for that any more."""

    def stop(self, driver: Driver, attempt: int) -> None:
        """End an attempt that was started. Answered by `Driver.ended`, or by another answer that was quicker."""

    def withdraw(self, driver: Driver, attempt: int) -> None:
        """If an attempt has not started, it shall not: answered by `Driver.ended`, with `started=False`. Else it goes
        on, and is answered as ever."""

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None:
        """Write a blob, then call `then` with its reference, or with None if the object was lost before. If it cannot
        be written, `Driver.interrupt`."""

    def checkpoint(
        self, driver: Driver, node: str, live: bytes, then: Callable[[bytes | Object | None, bytes | None], None]
    ) -> None:
        """Ask a ref of a user's what has to be saved of it (`values.refs`), then call `then` with its kept form,
        or with what it raised; with neither, if what it refers to is gone."""

    def update(
        self, driver: Driver, updates: Updates, then: Callable[[Sequence[bytes | Object], bytes | None], None]
    ) -> None:
        """Have functions of users say what becomes of task variables (`values.variables`), then call `then` with what
        `variables.apply` gives, or with what kept it from that."""

    def changed_variables(self, driver: Driver) -> None:
        """Other values of its task variables are durable now. What is started after this sees them."""

    def mailbox(self, driver: Driver, key: str) -> list[MailboxEvent]:
        """The events under this key that were sent to its run and that no task has taken."""

    def park(self, driver: Driver, due: float) -> None:
        """Its run waits for events, or until this moment, and all of it is durable: it may be let go (`Driver.rest`)
        and loaded again when it is time."""

    def wake(self, driver: Driver) -> None:
        """Call `Driver.flush` soon."""

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        """Answered by `Driver.committed`, in the order of the calls, or by `Driver.interrupt`."""

    def later(self, driver: Driver, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` after this time, unless the driver has come to its end."""

    def chance(self) -> float:
        """Between 0 and 1."""

    def now(self) -> float:
        """Seconds since 1970, as people see them: the clock may be set meanwhile."""

    def ended(self, driver: Driver) -> None:
        """There is nothing more to do: the run is over, or waits for a user (`Driver.ending` says how), and all of
        that is durable; or the driver was interrupted."""


class Store(Protocol):
    """Where the saved values of a run are."""

    def delete(self, reference: str) -> None:
        """A blob that no longer counts."""

    def values(self, parts: set[tuple[str, int]]) -> dict[tuple[str, int], Part]:
        """What the journal has of these parts (node, part), each as it was saved last."""

    def outcomes(self) -> dict[str, Outcome]:
        """What the journal has of children."""
