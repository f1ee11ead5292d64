"""What most runs have no use for: waits, delays, limits, task variables, what handlers and people have answered, and
cancelling.

Each is made when it is needed first: there may be thousands of runs, most of them short. What the driver asks about
again and again is asked here, because most often there is nobody to ask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceflow.driver.children import Outcomes
from onceflow.driver.deadlines import Expiring
from onceflow.driver.fiber_cancellation import Cancelling
from onceflow.driver.given_outcomes import Answering
from onceflow.driver.history import History
from onceflow.driver.outputs import Outputs
from onceflow.driver.retries import Delays
from onceflow.driver.saving import Save, Saving
from onceflow.driver.timeouts import Limits
from onceflow.driver.variables import Variables
from onceflow.driver.waits import Waits
from onceflow.driver.work import Host, Store, Work
from onceflow.storage.journal import NEVER, Entry, MailboxEvent, Request

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Rare:
    """Of one driver. `past` is what the journal has of its run, and is kept up to date by those that are made of it."""

    __slots__ = (
        "_answering",
        "_cancelling",
        "_delays",
        "_driver",
        "_expiring",
        "_host",
        "_limits",
        "_mail",
        "_outcomes",
        "_outputs",
        "_past",
        "_saving",
        "_store",
        "_variables",
        "_waits",
    )

    def __init__(
        self,
        driver: Driver,
        host: Host,
        store: Store,
        outputs: Outputs,
        saving: Saving,
        past: History,
        mail: Sequence[MailboxEvent] = (),
    ) -> None:
        self._driver = driver
        self._host = host
        self._store = store
        self._outputs = outputs
        self._saving = saving
        self._past = past
        self._mail = mail
        self._answering: Answering | None = None
        self._cancelling: Cancelling | None = None
        self._delays: Delays | None = None
        self._expiring: Expiring | None = None
        self._limits: Limits | None = None
        self._outcomes: Outcomes | None = None
        self._variables: Variables | None = None
        self._waits: Waits | None = None

    @property
    def answering(self) -> Answering:
        if self._answering is None:
            self._answering = Answering(self._driver, self._outputs, self._past.supplied)
        return self._answering

    @property
    def cancelling(self) -> Cancelling:
        if self._cancelling is None:
            self._cancelling = Cancelling(self._driver, self._host, self._past)
        return self._cancelling

    @property
    def delays(self) -> Delays:
        if self._delays is None:
            self._delays = Delays(self._driver, self._host, self._past.due, self._past.delays)
        return self._delays

    @property
    def expiring(self) -> Expiring:
        if self._expiring is None:
            self._expiring = Expiring(self._driver, self._host, self.answering)
        return self._expiring

    @property
    def limits(self) -> Limits:
        if self._limits is None:
            self._limits = Limits(self._driver, self._host, self._past.since)
        return self._limits

    @property
    def outcomes(self) -> Outcomes:
        if self._outcomes is None:
            self._outcomes = Outcomes(self._store)
        return self._outcomes

    @property
    def variables(self) -> Variables:
        if self._variables is None:
            self._variables = Variables(self._driver, self._host, self._saving, self._past.variables)
        return self._variables

    @property
    def waits(self) -> Waits:
        if self._waits is None:
            past = self._past
            self._waits = Waits(self._driver, self._host, past.deadlines, past.taken, self._mail)
        return self._waits

    # -- what the driver asks about again and again --------------------------------------------------------------------

    @property
    def is_cancelling(self) -> bool:
        """Whether fibers have been told that the run is to be cancelled."""
        asked = self._past.cancelling if self._cancelling is None else self._cancelling.asked
        return asked is not None

    @property
    def has_waits(self) -> bool:
        """Whether something waits for an event or a moment."""
        return self._waits is not None and len(self._waits) > 0

    @property
    def has_delays(self) -> bool:
        """Whether something is tried again later."""
        return self._delays is not None and len(self._delays) > 0

    def begin(self) -> None:
        """The run goes on."""
        for row in self._driver.run.rows.values():
            if row.nested is not None and row.node.call is not None:
                self.returned_graph(row.id, row.node.call.settings.until)
        if self.is_cancelling:
            self.cancelling.begin()

    def supply(self, work: Work) -> bool:
        """Whether what is about to start is done with what somebody gave."""
        return bool(self._past.supplied) and self.answering.supply(work)

    def dropped(self, nodes: Sequence[str]) -> None:
        """What these have done counts no more."""
        self.waits.dropped(nodes)
        self.outcomes.dropped(nodes)
        self.cancelling.dropped(nodes)
        if self._expiring is not None:
            self._expiring.dropped(nodes)
        for node in nodes:
            self.limits.forget(node)
            self._past.dropped(node)

    def returned_graph(self, node: str, until: float | None) -> None:
        """It has returned a graph, which must be done at this moment, if there is one."""
        if until is not None and until < math.inf:
            self.expiring.watch(node, until)

    @property
    def due(self) -> float:
        """The next moment at which something is over."""
        due = NEVER if self._waits is None else self._waits.due
        return due if self._expiring is None else min(due, self._expiring.due)

    def saved(self, node: str, part: int) -> Entry | None:
        """A part of its output is being saved. What has to be written down with that."""
        self._past.saved_supplied(node, part)
        return None if self._waits is None else self._waits.saved(node)

    def holds_back(self, save: Save) -> bool:
        """Whether core is told later that this is saved."""
        return self._variables is not None and self._variables.holds_back(save)

    def look(self) -> bool:
        """To be called when core has answered to everything it was told. Whether there is something to tell it."""
        return (
            (self._variables is not None and self._variables.go_on())
            or (self._waits is not None and (self._waits.look_for_unused() or self._waits.look_for_children()))
            or (self._expiring is not None and self._expiring.look())
            or (self.is_cancelling and self.cancelling.look())
        )

    def became_durable(self, batches: int) -> None:
        """So many batches are durable."""
        if self._variables is not None:
            self._variables.became_durable(batches)
        if self._waits is not None:
            self._waits.became_durable()

    def marks(self) -> list[Request]:
        """What goes into the batch with the entries that were made meanwhile."""
        return [] if self._waits is None else self._waits.marks()
