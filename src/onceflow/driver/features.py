"""The optional features of a driver: waits, retries, timeouts, task variables, outcomes that are given by others, and
cancelling fibers.

Each is a file of its own, and hears of what happens through hooks (`hooks`). It is made when the journal has something
of it, or when something asks for it: there may be thousands of runs, most of them short, and without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from onceflow.driver.children import Outcomes
from onceflow.driver.deadlines import Expiring
from onceflow.driver.fiber_cancellation import Cancelling
from onceflow.driver.given_outcomes import Answering
from onceflow.driver.history import History
from onceflow.driver.hooks import Feature
from onceflow.driver.retries import Delays
from onceflow.driver.timeouts import Limits
from onceflow.driver.variables import Variables
from onceflow.driver.waits import Waits
from onceflow.storage.journal import NEVER, Entry, Request

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.saving import Save
    from onceflow.driver.work import Work

KINDS: tuple[type[Feature], ...] = (Variables, Waits, Expiring, Cancelling, Outcomes, Limits, Delays, Answering)
"""In the order in which their hooks are called."""

F = TypeVar("F", bound=Feature)


class Features:
    """Of one driver. `past` is what the journal has of its run."""

    __slots__ = ("_driver", "_made", "_past", "_used")

    def __init__(self, driver: Driver, past: History) -> None:
        self._driver = driver
        self._past = past
        self._made: dict[type[Feature], Feature] = {}
        self._used: list[Feature] = []
        """The same, in their order."""
        for kind in KINDS:
            if kind.is_needed(past):
                self.get(kind)

    def get(self, kind: type[F]) -> F:
        """Makes it when it is first asked for."""
        found = self._made.get(kind)
        if found is None:
            found = self._made[kind] = kind(self._driver, self._past)
            self._used = [self._made[kind] for kind in KINDS if kind in self._made]
        assert isinstance(found, kind)
        return found

    # -- those that others ask for something ---------------------------------------------------------------------------

    @property
    def answering(self) -> Answering:
        return self.get(Answering)

    @property
    def cancelling(self) -> Cancelling:
        return self.get(Cancelling)

    @property
    def delays(self) -> Delays:
        return self.get(Delays)

    @property
    def limits(self) -> Limits:
        return self.get(Limits)

    @property
    def outcomes(self) -> Outcomes:
        return self.get(Outcomes)

    @property
    def variables(self) -> Variables:
        return self.get(Variables)

    @property
    def waits(self) -> Waits:
        return self.get(Waits)

    @property
    def is_cancelling(self) -> bool:
        """Whether fibers have been notified that the run is to be cancelled."""
        return Cancelling in self._made and self.cancelling.asked is not None

    @property
    def has_waits(self) -> bool:
        """Whether a node waits for an event or a moment."""
        return Waits in self._made and len(self.waits) > 0

    @property
    def has_delays(self) -> bool:
        """Whether an attempt is tried again later."""
        return Delays in self._made and len(self.delays) > 0

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for row in self._driver.run.rows.values():
            if row.nested is not None and row.node.call is not None:
                self.returned_graph(row.id, row.node.call.settings.until)
        for feature in self._used:
            feature.begin()

    def supply(self, work: Work) -> bool:
        return any(feature.supply(work) for feature in self._used)

    def finished(self, node: str) -> None:
        for feature in self._used:
            feature.finished(node)

    def returned_graph(self, node: str, until: float | None) -> None:
        if until is not None:
            self.get(Expiring)
        for feature in self._used:
            feature.returned_graph(node, until)

    def holds_back(self, save: Save) -> bool:
        return any(feature.holds_back(save) for feature in self._used)

    def saved(self, node: str, part: int) -> list[Entry]:
        return [entry for feature in self._used if (entry := feature.saved(node, part)) is not None]

    def dropped(self, nodes: Sequence[str]) -> None:
        for feature in self._used:
            feature.dropped(nodes)
        for node in nodes:
            self._past.dropped(node)

    def drop(self, node: str, through: int) -> None:
        for feature in self._used:
            feature.drop(node, through)

    def became_durable(self, batches: int) -> None:
        for feature in self._used:
            feature.became_durable(batches)

    def look(self) -> bool:
        return any(feature.look() for feature in self._used)

    def marks(self) -> list[Request]:
        return [mark for feature in self._used for mark in feature.marks()]

    @property
    def due(self) -> float:
        return min([feature.due for feature in self._used], default=NEVER)
