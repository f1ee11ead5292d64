"""Requests of other threads to the engine's thread. Each is posted to its loop and handled there."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from onceflow.backends.local.reports import Statistics as PoolStatistics
from onceflow.core.model.commands import Command
from onceflow.core.run import Run
from onceflow.driver.driver import Driver
from onceflow.engine.handles import Completion, Listening, Redirected
from onceflow.engine.logs.engine_log import Recording
from onceflow.engine.peers.server import Answering
from onceflow.engine.run_commands.cancel import Cancelling
from onceflow.engine.run_commands.inbox import carry_out
from onceflow.engine.run_commands.reach import RunCommand
from onceflow.engine.runtime.driven_runs import DrivenRuns
from onceflow.engine.runtime.host import Host, Services
from onceflow.engine.runtime.live_info import Insight
from onceflow.engine.runtime.news import News
from onceflow.engine.runtime.object_budget import ObjectStatistics
from onceflow.engine.runtime.parked_runs import Parked, got_mail
from onceflow.engine.runtime.stores import Store
from onceflow.engine.runtime.turn import Turn
from onceflow.engine.submission import Submission
from onceflow.errors import EngineClosed, OnceflowError, RunInterrupted
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.journal import RunRow, Short

T = TypeVar("T")


class Loaded(NamedTuple):
    """A run that exists, about to be driven here."""

    driver: Driver
    decided: Sequence[Command]
    """What its run has decided already."""
    timeout: float | None
    """Seconds that it may take."""
    left: float | None
    """Those that are left."""


class Adoption(NamedTuple):
    """A run that exists and is to be driven here."""

    make: Callable[[Host], Loaded]
    completion: Completion
    elsewhere: Callable[[Completion], None] | None = None
    """What is done, instead of coming out, if another engine turns out to drive it."""


class Expect(Protocol):
    def __call__(self, run: str, name: str | None, feeds: Iterable[Listening] = ()) -> Completion:
        """For a caller that is going to wait for a run."""


class Hub:
    """Thread-safe. `expect` makes completions, and `serve` what answers other engines, if there can be any."""

    def __init__(
        self,
        runs: DrivenRuns,
        turn: Turn,
        host: Host,
        parked: Parked,
        services: Services,
        news: News,
        recording: Recording,
        expect: Expect = Completion,
        serve: Callable[[Hub], Answering] | None = None,
    ) -> None:
        self.runs = runs
        self.host = host
        self.parked = parked
        self.news = news
        """When another engine has rung, and when a run has ended here."""
        self.counts = runs.counts
        self.expect = expect
        self.now = runs.now
        self._home = runs.home
        self._loop = runs.loop
        self._turn = turn
        self._services = services
        self._recording = recording
        self.server = None if serve is None else serve(self)

    def warm_up(self) -> None:
        """Start the workers, if that has not happened yet."""
        if self.runs.workers is None:
            self._loop.post(self.runs.start_workers)

    def submit(self, submission: Submission, completion: Completion) -> None:
        """Drive a new run."""
        self._post(lambda: self._submit(submission, completion))

    def adopt(self, *adoptions: Adoption) -> None:
        """Drive runs that exist."""

        def adopt() -> None:
            for adoption in adoptions:
                self._adopt(adoption)

        self._post(adopt)

    def delegate(self, runs: Sequence[Short], send: Callable[[Sequence[Short]], None]) -> None:
        """Have workers go on with runs that were woken."""
        self._post(lambda: send(runs))

    def wait_for_room(self) -> None:
        """Returns when the workers are not too far behind: more runs would only wait, and take memory."""
        self._turn.wait_for_room()

    def look_at_queues(self) -> None:
        """Their limits may have changed."""
        self._loop.post(lambda: self.runs.doorman.gate.look())

    def look_for_mail(self, *runs: str) -> None:
        """Events were sent to runs. Concerns those that are driven, or parked, here."""
        self._loop.post(lambda: got_mail(self.runs, self.parked, runs))

    def waiting_runs(self, queue: str | None = None) -> int:
        """How many runs have yet to begin here: for lack of a place in this queue, or at all."""
        return self.runs.doorman.waiting_runs(queue)

    def find(self, run: str) -> Completion | None:
        """Of a run that is driven here."""
        found = self.runs.active.get(run)
        return None if found is None else found[1]

    def is_busy_with(self, run: str) -> bool:
        """Whether the run is driven here, or a worker has yet to end something of it."""
        runs = self.runs
        has_jobs = runs.workers is not None and runs.workers.has_jobs_of(run)
        return run in runs.active or has_jobs or self.parked.is_away(run)

    def is_parked(self, run: str) -> bool:
        """Whether it only waits, and is driven again here when it is time."""
        return self.parked.is_parked(run)

    def adopt_parked(self, rows: Sequence[RunRow]) -> None:
        """Runs that only wait, and that an engine has left, are driven again here when it is time."""
        self.parked.adopt(rows)

    def ask(self, question: Callable[[], T]) -> T:
        """What the loop's thread answers."""
        found: queue.SimpleQueue[T] = queue.SimpleQueue()
        if self.runs.closed is not None:
            raise self.runs.closed
        self._loop.post(lambda: found.put(question()))
        return found.get()

    def look_into(self, run: str) -> Insight | None:
        """None if it is not driven here. In the loop's thread (`ask`), as is what is asked of the answer."""
        return self.runs.look_into(run)

    def command(self, run: str, command: RunCommand) -> bool:
        """Carry out a command, if the run is driven here. Whether it is: perhaps it has just been parked."""
        return self.ask(lambda: carry_out(self.runs, run, command))

    def drain(self, run: str, reason: OnceflowError) -> None:
        """Let a run go, if it is driven here, as soon as what has an effect has ended."""
        self._loop.post(lambda: self._stop_driving(run, reason, lambda driver: driver.drain(reason)))

    def interrupt(self, run: str, reason: OnceflowError) -> None:
        """Let a run go at once, if it is driven here."""
        self._loop.post(lambda: self._stop_driving(run, reason, lambda driver: driver.interrupt(reason)))

    def pool_statistics(self) -> PoolStatistics | None:
        """Of worker processes, if there are any."""
        workers = self.runs.workers
        if workers is None:
            return None
        found: queue.SimpleQueue[PoolStatistics | None] = queue.SimpleQueue()
        self._loop.post(lambda: found.put(workers.statistics()))
        return found.get()

    def object_statistics(self) -> ObjectStatistics | None:
        """Of large values in memory, if there can be any."""
        return self._services.object_statistics()

    def blob_statistics(self) -> BlobStatistics | None:
        """Of files with values, if there are any."""
        return self._services.blob_statistics()

    @property
    def running(self) -> list[str]:
        """The ids of the runs that are driven here."""
        return list(self.runs.active)

    @property
    def broken(self) -> bool:
        """Whether the journal, or the loop, has failed: an engine that is opened anew may do better."""
        return self.runs.broken

    def limit_opening(self) -> None:
        """From now on, a run that cannot be opened in time because other programs keep the journal locked is
        refused."""
        self.host.limits_opening = True

    def wait_until_idle(self) -> None:
        """Returns when no run is driven here."""
        active = self.runs.active
        while active or self.parked.wait_until_back():
            for _, completion in list(active.values()):
                completion.wait()

    def close(self) -> None:
        """Let all runs go (they can be resumed), end all workers, and wait for that."""
        if self.runs.closed is None:
            self.runs.closed = EngineClosed("the engine was closed")
        self._loop.stop()

    def _post(self, action: Callable[[], None]) -> None:
        if self.runs.closed is not None:
            raise self.runs.closed
        if self.runs.workers is None:
            self._loop.post(self.runs.start_workers)
        self._loop.post(action)

    # -- in the loop's thread ------------------------------------------------------------------------------------------

    def _submit(self, submission: Submission, completion: Completion) -> None:
        settings = submission.settings
        driver = Driver(
            submission.run,
            Run(submission.graph, epoch=1, on_failure=settings.on_failure),
            self.host,
            Store(self._home, submission.run),
            opening=submission.opening,
            metadata=submission.metadata,
            queue=settings.queue,
            priority=settings.priority,
        )
        self._drive(driver, completion, driver.begin)
        if settings.timeout is not None:
            self._limit(driver, settings.timeout, settings.timeout)

    def _adopt(self, adoption: Adoption) -> None:
        make, completion, elsewhere = adoption
        runs, run = self.runs, completion.run
        is_away = self.parked.is_away(run)
        if is_away:  # look again when it is back
            self.parked.wake(run)
        if is_away or run in runs.active:
            if elsewhere is None:
                completion.end(None, Redirected())
            else:
                elsewhere(completion)
            return
        driver, decided, timeout, left = make(self.host)
        if elsewhere is not None:
            runs.elsewhere[driver] = elsewhere
        self._drive(driver, completion, lambda: driver.begin(decided))
        if driver in runs.completions:
            self._limit(driver, timeout, left)
            runs.claimed.add(driver)

    def _drive(self, driver: Driver, completion: Completion, begin: Callable[[], None]) -> None:
        runs, closed = self.runs, self.runs.closed
        driver.run.has_place = driver.launches.has_place
        epoch = driver.run.epoch
        if epoch == 1:
            self._recording.tell("run created", driver.id, detail=completion.name or "")
        else:
            self.parked.begun(driver, completion)
            self._recording.tell("run adopted", driver.id, detail=f"epoch {epoch}")
        if closed is not None:
            completion.end(None, RunInterrupted(driver.id, str(closed)) if isinstance(closed, EngineClosed) else closed)
            return
        runs.active[driver.id] = (driver, completion)
        runs.completions[driver] = completion
        if driver.queue is None and runs.max_running is None:  # as mostly
            runs.tell(driver, begin)
        elif not runs.doorman.lets_in(driver, lambda: runs.tell(driver, begin)):
            driver.waits_outside = True
            self.host.wake(driver)

    def _limit(self, driver: Driver, timeout: float | None, left: float | None) -> None:
        """Cancel a run when it has run out of time."""
        if timeout is None or left is None or driver.over:
            return
        driver.limit = self.now() + left

        def run_out() -> None:
            self.runs.timeouts[driver] = timeout
            carry_out(self.runs, driver.id, Cancelling(undo=driver.run.on_failure == "undo"))

        self.host.later(driver, max(0.0, left), run_out)

    def _stop_driving(self, run: str, reason: OnceflowError, how: Callable[[Driver], None]) -> None:
        self.runs.with_driver(run, how)
        self.parked.stop(run, reason)
