"""What optional features of a driver hear of. One that overrides a hook is called there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceflow.storage.journal import NEVER, Entry, Request

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History
    from onceflow.driver.saving import Save
    from onceflow.driver.work import Work


class Feature:
    """An optional feature of one driver, made when it is first needed. `past` is what the journal has of the run, and
    is kept up to date by those that are made of it."""

    def __init__(self, driver: Driver, past: History) -> None:
        self._driver = driver
        self._host = driver.host

    @classmethod
    def is_needed(cls, past: History) -> bool:
        """Whether a run that is loaded needs it from the beginning."""
        return False

    def begin(self) -> None:
        """The run goes on."""

    def supply(self, work: Work) -> bool:
        """An attempt is about to start. Returns whether it is done already, and need not start."""
        return False

    def finished(self, node: str) -> None:
        """An attempt has returned, and its output counts."""

    def returned_graph(self, node: str, until: float | None) -> None:
        """A node has returned a graph, which must be done at this moment, if there is one."""

    def holds_back(self, save: Save) -> bool:
        """The bytes of this part are written. Returns whether core is notified later that it is saved."""
        return False

    def saved(self, node: str, part: int) -> Entry | None:
        """A part of its output is being saved. Returns the entries that have to be written with it."""
        return None

    def dropped(self, nodes: Sequence[str]) -> None:
        """The work of these nodes no longer counts."""

    def drop(self, node: str, through: int) -> None:
        """The drop is durable, and leftovers of attempts up to this one can be forgotten."""

    def became_durable(self, batches: int) -> None:
        """This many batches are durable."""

    def look(self) -> bool:
        """Core has handled all events so far. Returns whether there are new ones."""
        return False

    def marks(self) -> Sequence[Request]:
        """The requests that go into the batch with the new entries."""
        return ()

    @property
    def due(self) -> float:
        """The next moment at which a deadline or wait is over."""
        return NEVER
