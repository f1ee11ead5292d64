"""The environment of the drivers of one engine: journal, workers, queues, timers. Implements `driver.work.Host`.

Belongs to the loop's thread, except where it says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from onceflow.core.run import attempt_name
from onceflow.data.objects import Object
from onceflow.driver.driver import Driver
from onceflow.driver.work import Ahead, Work
from onceflow.engine.handles import Completion, Redirected
from onceflow.engine.runtime.internal_jobs import Kept, Replied
from onceflow.errors import RunInterrupted
from onceflow.storage import journal
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.journal import Failed, MailboxEvent, Outcome, Request
from onceflow.values.variables import Updates

if TYPE_CHECKING:
    from onceflow.engine.logs.engine_log import Recording
    from onceflow.engine.logs.task_output import Printing
    from onceflow.engine.runtime.driven_runs import DrivenRuns
    from onceflow.engine.runtime.news import News
    from onceflow.engine.runtime.object_budget import ObjectStatistics
    from onceflow.engine.runtime.parked_runs import Parked
    from onceflow.engine.runtime.turn import Turn


class Services(Protocol):
    """What takes code of users, or a disk, besides attempts. As `driver.work.Host` says of these methods."""

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None: ...

    def checkpoint(self, driver: Driver, node: str, live: bytes, then: Kept) -> None: ...

    def update(self, driver: Driver, updates: Updates, then: Replied) -> None: ...

    def changed_variables(self, driver: Driver) -> None: ...

    def object_statistics(self) -> ObjectStatistics | None:
        """Of large values in memory, if there can be any."""

    def blob_statistics(self) -> BlobStatistics | None:
        """Of files with values, if there are any."""


class Host:
    """`worker_deaths` is how often workers may die of one task, and `chance` where chance comes from."""

    def __init__(
        self,
        runs: DrivenRuns,
        turn: Turn,
        services: Services,
        parked: Parked,
        *,
        worker_deaths: int,
        chance: random.Random,
        news: News,
        recording: Recording,
        printing: Printing | None = None,
    ) -> None:
        self._runs = runs
        self._turn = turn
        self._parked = parked
        self._journal = runs.home.journal
        self._news = news
        self._recording = recording
        self._printing = printing
        self.worker_deaths = worker_deaths
        self.limits_opening = False
        """Whether a run that cannot be opened within `lock_timeout` seconds, because other programs keep the journal
        locked, is refused: what is durable of a run waits as long as it takes."""
        self.now = runs.now
        self.chance = chance.random
        self.save = services.save
        self.checkpoint = services.checkpoint
        self.update = services.update
        self.changed_variables = services.changed_variables

    # -- attempts ------------------------------------------------------------------------------------------------------

    def start(self, driver: Driver, work: Work) -> None:
        runs = self._runs
        completion = runs.completions[driver]
        if completion.feeds:
            completion.tell("undoing" if work.undo else "started", work.node, attempt_name(work.attempt))
        runs.counts.started[work.undo] += 1
        if runs.doorman.holding:
            runs.doorman.launched(driver, work.attempt)
        assert runs.workers is not None
        runs.workers.start(driver, work)

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        assert self._runs.workers is not None
        self._runs.workers.foresee(driver, work, ahead)

    def ask(self, driver: Driver, node: str) -> bool:
        """A node in a queue needs a place there first; then, like all nodes with an effect, a worker."""
        asking = driver.run.rows[node].node
        if asking.admission is not None:
            self._runs.doorman.ask(driver, node)
            return False
        return self._runs.workers is None or self._runs.workers.ask(driver, node, asking.call)

    def unused(self, driver: Driver, node: str, attempt: int) -> None:
        self._runs.doorman.over(driver, attempt)
        if self._runs.workers is not None:
            self._runs.workers.unused(driver, node)

    def forgo(self, driver: Driver, node: str) -> None:
        self._runs.doorman.forgo(driver, node)
        if self._runs.workers is not None:
            self._runs.workers.unused(driver, node)

    def stop(self, driver: Driver, attempt: int) -> None:
        if self._runs.workers is not None:
            self._runs.workers.stop(driver, attempt)

    def withdraw(self, driver: Driver, attempt: int) -> None:
        if self._runs.workers is not None:
            self._runs.workers.withdraw(driver, attempt)

    # -- the journal ---------------------------------------------------------------------------------------------------

    def wake(self, driver: Driver) -> None:
        self._turn.dirty[driver] = None

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        if len(self._runs.active) == 1 and not driver.launches.in_flight:
            outcome = self._journal.commit_at_once(requests)  # meanwhile there is nothing else to do here
            if outcome is not None:
                self._turn.answers.append((driver, requests, outcome))
                return

        submitted = _Submitted(self, driver, requests)
        self._journal.submit(requests, submitted.answer)
        if self.limits_opening and driver.is_opening:
            self.later(driver, self._journal.lock_timeout, submitted.withdraw)

    def withdraw_commit(self, submitted: _Submitted) -> None:
        """The journal has been locked for too long: takes back what waits for it, or tries that again later."""
        busy = self._journal.withdraw(submitted.answer)
        if submitted.answered:
            return
        if busy is None:
            self.later(submitted.driver, journal.AGAIN, submitted.withdraw)
        else:
            submitted.answer(Outcome((Failed(busy),) * len(submitted.requests), ok=False))

    def take_answer(self, submitted: _Submitted, outcome: Outcome) -> None:
        """The journal has answered, in a thread of its own."""
        self._turn.answers.append((submitted.driver, submitted.requests, outcome))
        self._runs.loop.post(_nothing)

    def mailbox(self, driver: Driver, key: str) -> list[MailboxEvent]:
        return self._journal.mailbox(driver.id, key)

    # -- time ----------------------------------------------------------------------------------------------------------

    def later(self, driver: Driver, seconds: float, then: Callable[[], None]) -> None:
        self._runs.loop.later(seconds, lambda: None if driver.over else self._runs.tell(driver, then))

    def park(self, driver: Driver, due: float) -> None:
        if self._parked.takes(due):
            completion = self._let_go(driver)
            driver.rest()
            if self._runs.workers is not None:
                self._runs.workers.forget(driver, _nothing)
            self._parked.park(driver.id, due, completion)

    # -- the end -------------------------------------------------------------------------------------------------------

    def ended(self, driver: Driver) -> None:
        runs, ending, interruption = self._runs, driver.ending, driver.interruption
        is_elsewhere = isinstance(interruption, Redirected)  # it has never been driven here
        if self._printing is not None and driver.id in self._printing.runs:
            self._printing.ended(driver.id)
        if not is_elsewhere:
            runs.counts.ended["interrupted" if ending is None else ending.status] += 1
            how = f"interrupted: {_reason(interruption)}" if ending is None else ending.status
            self._recording.tell("run ended", driver.id, detail=how)
        completion = self._let_go(driver)
        elsewhere = runs.elsewhere.pop(driver, None) if runs.elsewhere else None
        timeout = runs.timeouts.pop(driver, None) if runs.timeouts else None
        if timeout is not None and ending is not None and ending.status == "cancelled":
            ending = msgspec.structs.replace(ending, timeout=timeout)

        def come_out() -> None:
            if is_elsewhere and elsewhere is not None:
                elsewhere(completion)
            else:
                completion.end(ending, interruption)

        if runs.workers is None:
            come_out()
        else:
            runs.workers.forget(driver, come_out)
        self._news.ring()
        if self._parked.unclaimed:
            self._parked.ended(driver, is_elsewhere=is_elsewhere)

    def _let_go(self, driver: Driver) -> Completion:
        """Drive it no longer."""
        runs, turn = self._runs, self._turn
        del runs.active[driver.id]
        turn.dirty.pop(driver, None)
        turn.patient.pop(driver, None)
        runs.claimed.discard(driver)
        if runs.doorman.is_used:
            runs.doorman.forget(driver)
        return runs.completions.pop(driver)


class _Submitted:
    """What a driver has handed to the journal. (No closures that refer to themselves: of many short runs, the garbage
    collector would have to find each.)"""

    __slots__ = ("_host", "answered", "driver", "requests")

    def __init__(self, host: Host, driver: Driver, requests: Sequence[Request]) -> None:
        self._host = host
        self.driver = driver
        self.requests = requests
        self.answered = False

    def answer(self, outcome: Outcome) -> None:
        self.answered = True
        self._host.take_answer(self, outcome)

    def withdraw(self) -> None:
        if not self.answered:
            self._host.withdraw_commit(self)


def _reason(interruption: object) -> object:
    return interruption.reason if isinstance(interruption, RunInterrupted) else interruption


def _nothing() -> None:
    """Posted to wake the loop; and nothing waits for the end of a run that rests."""
