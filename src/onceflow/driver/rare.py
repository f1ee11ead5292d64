"""What most runs have no use for: waits, delays, limits, task variables, what handlers and people have answered, and
cancelling.

All of it is made when something of it is needed first: there may be thousands of runs, most of them short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceflow.driver.answering import Answering
from onceflow.driver.cancelling import Cancelling
from onceflow.driver.delays import Delays
from onceflow.driver.expiring import Expiring
from onceflow.driver.history import History
from onceflow.driver.limits import Limits
from onceflow.driver.outcomes import Outcomes
from onceflow.driver.outputs import Outputs
from onceflow.driver.saving import Saving
from onceflow.driver.variables import Variables
from onceflow.driver.waiting import Waits
from onceflow.driver.work import Host, Store
from onceflow.storage.journal import MailboxEvent

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Rare:
    """Of one driver. `past` is what the journal has of its run."""

    __slots__ = ("answering", "cancelling", "delays", "limits", "outcomes", "variables", "waits")

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
        self.outcomes = Outcomes(store)
        self.variables = Variables(driver, host, saving, past.variables)
        self.cancelling = Cancelling(driver, host, past.cancelling)
        self.limits = Limits(driver, host, past.since)
        self.delays = Delays(driver, host, past.due, past.delays)
        self.answering = Answering(driver, outputs, past.supplied)
        self.waits = Waits(
            driver, host, past.deadlines, past.taken, mail, Expiring(driver, self.answering), self.outcomes
        )
