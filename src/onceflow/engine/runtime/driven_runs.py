"""The runs that are driven here: the driver of each, the callers that wait for it, and what workers report about it.

Belongs to the loop's thread, except where it says otherwise.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence, Set

from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report
from onceflow.core.run import attempt_name
from onceflow.data.objects import Object
from onceflow.driver import measurements
from onceflow.driver.actors import Instance
from onceflow.driver.driver import Driver
from onceflow.driver.work import Work
from onceflow.engine import proof_of_death
from onceflow.engine.handles import Completion, Kind
from onceflow.engine.queues.gate import Gate
from onceflow.engine.queues.tickets import Doorman
from onceflow.engine.runtime.counts import Counts
from onceflow.engine.runtime.executor import Crew
from onceflow.engine.runtime.live_info import Insight, Progress
from onceflow.engine.runtime.loop import Posting
from onceflow.errors import OnceflowError, RunInterrupted
from onceflow.storage.run_stores import Place
from onceflow.values import failures

logger = logging.getLogger(__name__)


class DrivenRuns:
    """`open_workers` is called once, before the first run begins. At most `max_running` runs go on at a time."""

    def __init__(
        self,
        home: Place,
        loop: Posting,
        now: Callable[[], float],
        max_running: int | None,
        open_workers: Callable[[DrivenRuns], Crew],
    ) -> None:
        self.home = home
        self.loop = loop
        self.now = now
        self.counts = Counts()
        self.workers: Crew | None = None
        """None before they are needed."""
        self.closed: OnceflowError | None = None
        """Why nothing can be submitted any more."""
        self.broken = False
        """Whether the journal, or the loop, has failed: an engine that is opened anew may do better."""
        self.max_running = max_running
        self._open_workers = open_workers
        self.clear()

    def clear(self) -> None:
        """Know of no run."""
        self.active: dict[str, tuple[Driver, Completion]] = {}
        """Run → its driver, until that has come to its end."""
        self.completions: dict[Driver, Completion] = {}
        self.claimed: set[Driver] = set()
        """Drivers of runs that existed, until their claim is durable: there may be commands for them."""
        self.elsewhere: dict[Driver, Callable[[Completion], None]] = {}
        """Drivers of runs that were woken → what is done for waiting callers if another engine turns out to drive
        it."""
        self.timeouts: dict[Driver, float] = {}
        """Drivers of runs that have run out of time → how many seconds they had."""
        self.doorman = Doorman(self._open_gate(), self.max_running, self._has_worker_for)
        """Places in queues."""

    def _open_gate(self) -> Gate:
        def is_gone(engine: str) -> bool:
            return proof_of_death.is_gone(self.home, engine)

        def failed(waiting: list[int], error: OnceflowError) -> None:
            for driver in self.doorman.of(waiting):
                driver.interrupt(error)

        return Gate(self.home, socket.gethostname(), self.loop, self.now, is_gone, failed)

    def start_workers(self) -> None:
        if self.workers is None and self.closed is None:
            self.workers = self._open_workers(self)

    # -- drivers -------------------------------------------------------------------------------------------------------

    def tell(self, driver: Driver, what: Callable[[], None]) -> None:
        """Whatever goes wrong in a driver is the end of that driver only."""
        try:
            what()
        except OnceflowError as error:
            driver.interrupt(error)
        except Exception as error:
            logger.exception("run %s cannot go on", driver.id)
            driver.interrupt(interrupted(driver.id, f"{type(error).__name__}: {error}", error))

    def with_driver(self, run: str, what: Callable[[Driver], None]) -> bool:
        """Whether it is driven here."""
        found = self.active.get(run)
        if found is not None:
            self.tell(found[0], lambda: what(found[0]))
        return found is not None

    def interrupt_all(self, why: Callable[[Driver], OnceflowError]) -> None:
        for driver, _ in list(self.active.values()):
            driver.interrupt(why(driver))

    # -- reports of workers --------------------------------------------------------------------------------------------

    def answered(self, driver: Driver, work: Work, report: Report) -> None:
        self.counts.answered[type(report), work.undo] += 1
        if self.doorman.holding:
            self.doorman.over(driver, work.attempt)
        completion = self.completions.get(driver)
        if completion is not None and completion.feeds:
            _tell_report(completion, work, report)
        self.tell(driver, lambda: _deliver(driver, work, report))

    def admit(self, driver: Driver, nodes: Sequence[str]) -> None:
        """Workers can take these."""
        others = [node for node in nodes if not self.doorman.admit(driver, node)]
        if others:
            self.tell(driver, lambda: driver.admit(others))

    def lost(self, objects: Set[Object]) -> None:
        """These objects are gone, for all their holders."""
        for driver, _ in list(self.active.values()):
            self.tell(driver, lambda driver=driver: driver.lost(objects))  # type: ignore[misc]

    def lost_actor(self, actor: Instance) -> None:
        for driver, _ in list(self.active.values()):
            self.tell(driver, lambda driver=driver: driver.lost_actor(actor))  # type: ignore[misc]

    def tell_progress(self, driver: Driver, work: Work, progress: Progress) -> None:
        completion = self.completions.get(driver)
        if completion is not None and completion.feeds:
            completion.tell("progress", work.node, attempt_name(work.attempt), str(progress), progress)

    def _has_worker_for(self, driver: Driver, node: str) -> bool:
        """Whether a node may start now, as far as that is up to the workers. Else `admit` is called when it may."""
        row = driver.run.rows.get(node)
        if row is None or row.effect == "none" or self.workers is None:
            return True
        return self.workers.ask(driver, node, row.node.call)

    # -- what can be known ---------------------------------------------------------------------------------------------

    def look_into(self, run: str) -> Insight | None:
        """None if it is not driven here."""
        driven = self.active.get(run)
        return None if driven is None else Insight(driven[0], self.workers, self.doorman, self.now())

    def title(self, run: str) -> str | None:
        """What a run is called where several are driven."""
        driven = self.active.get(run)
        return None if driven is None or len(self.active) == 1 else driven[1].name or run


def interrupted(run: str, reason: str, cause: BaseException | None = None) -> RunInterrupted:
    error = RunInterrupted(run, reason)
    error.__cause__ = cause
    return error


def _tell_report(completion: Completion, work: Work, report: Report) -> None:
    attempt = attempt_name(work.attempt)
    match report:
        case Finished():
            completion.tell("undone" if work.undo else "finished", work.node, attempt)
        case Raised(_, failure):
            kind: Kind = "undo failed" if work.undo else "failed"
            completion.tell(kind, work.node, attempt, failures.tell(failure))
        case Died() | MetLost() | Ended():
            completion.tell("lost", work.node, attempt)


def _deliver(driver: Driver, work: Work, report: Report) -> None:
    """Report to a driver the outcome of its work."""
    match report:
        case Finished(_, parts, started, ended, worker, graph, annotations, held, writes):
            size = sum([len(part) if isinstance(part, bytes) else part.size for part in parts])
            driver.measurements.add(work, measurements.FINISHED, started, ended, worker, size)
            driver.finished(work, parts, graph, annotations, held, writes)
        case MetLost(_, lost, started, ended, worker):
            driver.measurements.add(work, measurements.LOST, started, ended, worker, 0)
            driver.met_lost(work, lost)
        case Raised(_, failure, permanent, started, ended, worker, answer):
            driver.measurements.add(work, measurements.RAISED, started, ended, worker, 0)
            if report.here:
                driver.raised_here(work, failure)
            else:
                driver.raised(work, failure, permanent, answer)
        case Died(_, worker, status, blame):
            driver.measurements.add(work, measurements.LOST, 0.0, 0.0, worker, 0)
            driver.died(work, status, blame)
        case Ended(_, started):
            driver.measurements.add(work, measurements.STOPPED, 0.0, 0.0, 0, 0)
            driver.ended(work, started)
