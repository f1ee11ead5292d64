"""Interface of what carries out attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from onceflow.authoring.calls import Call
from onceflow.backends.local.reports import Statistics
from onceflow.driver.driver import Driver
from onceflow.driver.work import Ahead, Work
from onceflow.engine.runtime.live_info import Look


class Crew(Protocol):
    """Interface of what carries out attempts."""

    def ask(self, driver: Driver, node: str, call: Call) -> bool:
        """A node with an effect wants to start. Whether it may do so at once; else the opener of the crew is notified
        when it may. From then on a place is kept for it, until it is started, or `unused`."""

    def unused(self, driver: Driver, node: str) -> None:
        """It does not start, or does not want to any more. Unknown ones are ignored."""

    def why(self, driver: Driver, node: str) -> str:
        """What a node that asked waits for, for users; empty if it does not wait."""

    def start(self, driver: Driver, work: Work) -> None: ...

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        """These are likely to be started behind what was just started. It need not care."""

    def stop(self, driver: Driver, attempt: int) -> None: ...

    def withdraw(self, driver: Driver, attempt: int) -> None:
        """Hand it back if it has not started (`Ended`); else let it go on."""

    def look(self, driver: Driver, attempt: int) -> Look | None:
        """At an attempt that was started and has not been answered."""

    def running(self, driver: Driver) -> list[Work]:
        """What is carried out now of this driver's."""

    @property
    def backlog(self) -> int:
        """How many have been started and not answered. From any thread."""

    def has_jobs_of(self, run: str) -> bool:
        """Whether something of this run has yet to end. From any thread."""

    def forget(self, driver: Driver, then: Callable[[], None]) -> None:
        """The driver has come to its end. Calls `then` when nothing runs any more that it only foresaw."""

    def statistics(self) -> Statistics | None:
        """Of worker processes, if there are any."""

    def turn(self) -> float | None:
        """Called in every turn of the loop. Says when it wants to be called again at the latest."""

    def close(self) -> None: ...
