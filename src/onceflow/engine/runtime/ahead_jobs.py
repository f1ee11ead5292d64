"""Jobs that run *ahead*: a driver foresees that it will ask for them (`driver.ahead`), and has not done so yet.

When it does, the job is there already, and its report perhaps comes next. What it never asks for is stopped, and not
reported; but a run has not ended before that has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onceflow.driver.driver import Driver
from onceflow.driver.work import Work


class Foresight:
    def __init__(self) -> None:
        self.foreseen: dict[Driver, dict[tuple[str, int], int]] = {}
        """For each driver, (node, attempt) → token of those that it may still ask for."""
        self.unasked: dict[Driver, set[int]] = {}
        """Tokens of all that it has not asked for and that have not ended."""
        self._drivers: dict[int, Driver] = {}
        """The same the other way round."""
        self._waiting: dict[Driver, Callable[[], None]] = {}

    def add(self, driver: Driver, jobs: Iterable[tuple[Work, int]]) -> None:
        """These jobs, each with its token, follow what the driver has just started. What was foreseen before is not
        asked for any more."""
        self.foreseen[driver] = {(work.node, work.attempt): token for work, token in jobs}
        for token in self.foreseen[driver].values():
            self.unasked.setdefault(driver, set()).add(token)
            self._drivers[token] = driver

    def take(self, driver: Driver, work: Work) -> int | None:
        """The token of the job that runs ahead and is asked for now."""
        foreseen = self.foreseen.get(driver)
        if not foreseen:
            return None
        token = foreseen.pop((work.node, work.attempt), None)
        if token is not None:
            self.ended(token)
        return token

    def whose(self, token: int) -> tuple[Driver, str, int] | None:
        """Driver, node and attempt of a job that may still be asked for."""
        driver = self._drivers.get(token)
        if driver is None:
            return None
        return next(((driver, *key) for key, other in self.foreseen.get(driver, {}).items() if other == token), None)

    def expects(self, driver: Driver, attempt: int) -> bool:
        """Whether an attempt with this number was foreseen and is not asked for."""
        foreseen = self.foreseen.get(driver)
        return foreseen is not None and any(number == attempt for _, number in foreseen)

    def give_up(self, driver: Driver) -> list[int]:
        """The driver will not ask for what was foreseen. Returns what is to be stopped."""
        return list(self.foreseen.pop(driver, {}).values())

    def ended(self, token: int) -> None:
        """A job that was not asked for has ended (or was asked for just now)."""
        driver = self._drivers.pop(token, None)
        if driver is None:
            return
        foreseen = self.foreseen.get(driver, {})
        for key in [key for key, other in foreseen.items() if other == token]:
            del foreseen[key]
        unasked = self.unasked[driver]
        unasked.discard(token)
        if not unasked:
            del self.unasked[driver]
            then = self._waiting.pop(driver, None)
            if then is not None:
                then()

    def when_free(self, driver: Driver, then: Callable[[], None]) -> None:
        """Calls `then` as soon as nothing runs ahead for this driver."""
        if driver in self.unasked:
            self._waiting[driver] = then
        else:
            then()

    def has_jobs_of(self, run: str) -> bool:
        """From any thread."""
        return any(driver.id == run for driver in list(self.unasked))

    def close(self) -> None:
        """All jobs have ended."""
        for token in list(self._drivers):
            self.ended(token)
