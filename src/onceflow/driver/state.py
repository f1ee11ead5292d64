"""The memory of a driver, and how its run stands."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from onceflow.core import events
from onceflow.core.run import Run
from onceflow.driver.features import Rare
from onceflow.driver.fiber_failures import Awaited
from onceflow.driver.guards import Guards
from onceflow.driver.history import History
from onceflow.driver.inputs import Inputs, Key
from onceflow.driver.measurements import Measurements
from onceflow.driver.outputs import Outputs, Part
from onceflow.driver.saving import Saving
from onceflow.driver.work import Host, Store, Work
from onceflow.errors import OnceflowError
from onceflow.storage.journal import Entry, MailboxEvent, Request

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.journaling import Held

Status = Literal["pending", "running", "waiting", "paused", "undoing", "undone", "succeeded", "failed", "cancelled"]
"""How a run that is driven stands, for people. `waiting`: nothing runs, something is due later."""


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a driver came to its end."""

    status: Status
    result: tuple[Part, ...] = ()
    """The parts of the run's output, if it succeeded; then what the refs in it refer to."""
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    failure: bytes | None = None
    """What the first of `failed` raised (`values.failures`), or the undo for which the run is paused."""
    timeout: float | None = None
    """How many seconds it had, if it was cancelled because it ran out of time."""
    parts: int = 1
    """How many of `result` are parts of the output."""
    ended_fibers: tuple[str, ...] = ()
    """Ids of fibers that have ended because it was cancelled, and cannot go on."""
    awaited: tuple[tuple[Awaited, Part], ...] = ()
    """If the first of `failed` is a segment of a fiber: what that had waited for, and what may be an error of it."""


class DriverState:
    """What every part of a driver can see.

    `opening` are the requests that go before everything else in its first batch; `past` is what the journal has of a
    run that exists, and `outputs`, `carried` and `mail` what was loaded with it. `woken`: the run was parked, by the
    same host.
    """

    __slots__ = (
        "__weakref__",
        "_admitted",
        "_asking",
        "_busy",
        "_committed",
        "_deaths",
        "_drained",
        "_entering",
        "_entries",
        "_events",
        "_guards",
        "_held",
        "_host",
        "_in_flight",
        "_inputs",
        "_latest",
        "_misses",
        "_opening",
        "_outputs",
        "_parked",
        "_pausing",
        "_private",
        "_rare",
        "_saving",
        "_store",
        "_submitted",
        "_woken",
        "_written",
        "annotations",
        "changes",
        "ending",
        "finished_attempts",
        "id",
        "interruption",
        "limit",
        "measurements",
        "metadata",
        "priority",
        "queue",
        "raised_last",
        "run",
        "waits_outside",
    )

    def __init__(
        self,
        id: str,
        run: Run,
        host: Host,
        store: Store,
        *,
        opening: Sequence[Request] = (),
        past: History | None = None,
        outputs: Outputs | None = None,
        carried: dict[str, dict[Key, bytes]] | None = None,
        mail: Sequence[MailboxEvent] = (),
        woken: bool = False,
        metadata: str | None = None,
        status: str = "running",
        queue: str | None = None,
        priority: int = 0,
    ) -> None:
        self.id = id
        self.run = run
        self.ending: Ending | None = None
        """How it ended, once it has."""
        self.interruption: OnceflowError | None = None
        """Why it was given up before its end."""
        self.measurements = Measurements()
        """Of attempts that came to an end. They ride on the next batch."""
        self.changes = 0
        """Grows whenever something may have changed. Who looks again and again need not look closely if it has not."""
        self.finished_attempts = 0
        self.limit: float | None = None
        """When the run has run out of time, in seconds since 1970, if it has a limit."""
        self._host = host
        self._store = store
        self._opening: Sequence[Request] = opening
        self._woken = woken
        self._outputs = outputs or Outputs()
        self._inputs = Inputs(self._outputs, store, run.rows, carried)
        self._saving = Saving(self._whole, host, store, self._outputs, self._inputs, {} if past is None else past.blobs)
        self._rare = None if past is None else Rare(self._whole, host, store, self._outputs, self._saving, past, mail)
        """None as long as the run has no use for it."""
        self.raised_last = {} if past is None else past.failures
        """Node → what it raised last."""
        self.annotations = {} if past is None else past.annotations
        """Node → what it told about itself (`values.metadata`), if it has finished. Of tasks of returned graphs, which
        may be many, no longer than their output is in memory; the journal has it with what is saved."""
        self.metadata = metadata
        """Of the run (`values.metadata`), for those who carry out its attempts."""
        self._deaths: dict[tuple[str, bool], int] = {}
        """(node, whether it is about its undo) → workers that died while they ran that, since it last came to an
        end, and for which it is the only suspect."""
        self._misses: dict[tuple[str, bool], int] = {}
        """Likewise, how often it has missed what its refs refer to."""
        self._written: tuple[str, float | None] = (status, None)
        """The status that the journal has, and when the run is due."""

        self._events: deque[events.Event] = deque()
        self._busy = False
        self._entries: list[Entry] = []
        self._submitted = 0
        """Batches handed to the journal."""
        self._committed = 0
        """Batches that are durable."""
        self._held: deque[Held] = deque()
        self._in_flight: dict[int, Work] = {}
        """Attempt → what was started and has not been answered."""
        self._latest: Work | None = None
        """What was started last, if it has no effect and nothing was foreseen behind it."""
        self._private: dict[int, None] = {}
        """Attempts whose outputs are for undos only."""
        self._parked: str | None = None
        """The node whose undo keeps failing, once that is durable."""
        self._guards: Guards | None = None
        self._drained: OnceflowError | None = None
        """Nothing more starts, and this is why."""
        self._pausing = False
        """Nothing more starts, because somebody wants the run to rest."""
        self.queue = queue
        """The queue in which the run as a whole has a place."""
        self.priority = priority
        """Who goes first when there is too little of something."""
        self.waits_outside = False
        """The run has not begun: it waits until it may."""
        self._asking: dict[str, None] = {}
        """Nodes that want to be admitted."""
        self._entering: dict[str, None] = {}
        """Nodes that were admitted, until the run has answered to that."""
        self._admitted: dict[int, str] = {}
        """Attempts that were admitted and have yet to be started → the node."""

    @property
    def _whole(self) -> Driver:
        """The same, as others know it."""
        return self  # type: ignore[return-value]  # without a call of `cast`: it is asked for with every command

    @property
    def rare(self) -> Rare:
        """What most runs have no use for."""
        if self._rare is None:
            self._rare = Rare(self._whole, self._host, self._store, self._outputs, self._saving, History())
        return self._rare

    @property
    def over(self) -> bool:
        return self.ending is not None or self.interruption is not None

    @property
    def is_opening(self) -> bool:
        """Whether its first batch is not yet durable: perhaps the run is not its to drive."""
        return self._committed == 0

    @property
    def is_committed(self) -> bool:
        """Whether everything that was appended is durable."""
        return self._committed == self._submitted and not self._entries and not self._opening

    @property
    def was_woken(self) -> bool:
        """Whether the run was parked before, by the same host."""
        return self._woken

    @property
    def is_patient(self) -> bool:
        """Whether nothing waits until its first batch is durable, and there will be more for it."""
        return self._woken and bool(self._opening and self._in_flight) and not self._held

    @property
    def _is_cancelling(self) -> bool:
        return self._rare is not None and self._rare.is_cancelling

    @property
    def _rests(self) -> bool:
        """Whether somebody wanted that, and nothing is under way any more."""
        return self._pausing and self.run.final is None and not (self._in_flight or self._saving.under_way)

    @property
    def status(self) -> Status:
        if self._rests:
            return "paused"
        if self.waits_outside:
            return "pending"
        match self.run.status:
            case "parked":
                return "paused"
            case "running" | "stopping":
                if self._rare is None or self._in_flight or self._held:
                    return "running"
                return "waiting" if self._rare.has_delays or self._rare.has_waits else "running"
            case status:
                return status

    @property
    def due(self) -> float | None:
        """When the run goes on, unless an event comes first, if it need not be in memory until then."""
        if self._rare is None or not self._rare.has_waits or self._drained is not None or self._pausing:
            return None
        if self._in_flight or self._held or self._saving.under_way or self._events or self._asking:
            return None
        if self._rare.has_delays or self._rare.is_cancelling or self.run.status != "running":
            return None
        due = self._rare.due
        return due if self.limit is None else min(due, self.limit)

    @property
    def variables(self) -> Mapping[str, bytes]:
        """The task variables that are committed, packed."""
        return {} if self._rare is None else self._rare.variables.committed
