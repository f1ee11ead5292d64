"""The drivers of one engine, and what surrounds them: journal, blobs, workers, timers.

Everything here happens in the loop's thread, except where it says otherwise. In each turn of the loop the answers of
the journal are told to the drivers first, because they let durable commands go; then each driver that has collected
something hands it to the journal; then the pool sends what was started.
"""

from __future__ import annotations

import logging
import queue
import random
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple, TypeVar

import msgspec

from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report
from onceflow.backends.local.reports import Statistics as PoolStatistics
from onceflow.core.model.commands import Command
from onceflow.core.run import Run, attempt_name
from onceflow.data.objects import Object
from onceflow.driver import children, history
from onceflow.driver.actors import Instance
from onceflow.driver.driver import Driver
from onceflow.driver.outputs import Part
from onceflow.driver.work import Ahead, Work
from onceflow.engine import proof_of_death
from onceflow.engine.handles import Completion, Kind, Latch, Listening, Redirected
from onceflow.engine.inspect import overview, task_info
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.statistics import Counts, ObjectStatistics
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.queues.gate import Gate
from onceflow.engine.queues.tickets import Doorman
from onceflow.engine.run_commands.cancel import CANCEL, Cancelling
from onceflow.engine.run_commands.limit import LIMIT, Limiting
from onceflow.engine.run_commands.pause import PAUSE
from onceflow.engine.runtime import executor
from onceflow.engine.runtime.internal_jobs import Kept, Replied
from onceflow.engine.runtime.live_info import Insight, Progress
from onceflow.engine.runtime.loop import Posting
from onceflow.engine.settings import WORKER_DEATHS
from onceflow.engine.submission import Submission
from onceflow.errors import EngineClosed, NoSuchRun, OnceflowError, RunInterrupted, StorageError
from onceflow.storage import journal
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.journal import (
    Failed,
    Fenced,
    ForgetCommands,
    MailboxEvent,
    Missing,
    Outcome,
    Outdated,
    Request,
    RunRow,
    SetStatus,
    Taken,
)
from onceflow.storage.run_stores import Place
from onceflow.values import failures
from onceflow.values.variables import Updates

PATIENCE = 0.25
"""Seconds for which the journal need not know that a run was woken, if nothing waits for that."""

MOST_WAITING = 256
"""Attempts that wait for a worker or run when whoever submits many runs has to wait. Until there are half as many."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Adopted(NamedTuple):
    """A run that exists, about to be driven here."""

    driver: Driver
    decided: Sequence[Command]
    """What its run has decided already."""
    timeout: float | None
    """Seconds that it may take."""
    left: float | None
    """Those that are left."""


class Hub(ABC):
    """Implements `driver.work.Host`. Subclasses say where everything happens: in which loop and by which workers."""

    def __init__(self, home: Place, max_running: int | None = None, worker_deaths: int = WORKER_DEATHS) -> None:
        self._home = home
        self._max_running = max_running
        self.worker_deaths = worker_deaths
        self._random = random.Random()
        self._forget()
        self._waiting_for_room: list[Latch] = []
        self._workers: executor.Crew | None = None
        self._closed: OnceflowError | None = None
        """Why nothing can be submitted any more."""
        self.counts = Counts()
        self.watchers: list[Callable[[], None]] = []
        """Called when somebody has called this engine, and when a run has ended here. From the loop's thread."""
        self.broken = False
        """Whether the journal, or the loop, has failed: an engine that is opened anew may do better."""
        self.limits_opening = False
        """Whether a run that cannot be opened within `lock_timeout` seconds, because other programs keep the journal
        locked, is refused: what is durable of a run waits as long as it takes."""
        self.on_bell: Callable[[], None] = _nothing
        """Called in the loop's thread when another engine has said that there may be something in the journal."""
        self._loop = self._open_loop()
        home.journal.when_failed(self._journal_failed)

    def _forget(self) -> None:
        """Know of no run."""
        self._active: dict[str, tuple[Driver, Completion]] = {}
        """Run → its driver, until that has come to its end."""
        self._completions: dict[Driver, Completion] = {}
        self._answers: deque[tuple[Driver, Sequence[Request], Outcome]] = deque()
        self._dirty: dict[Driver, None] = {}
        """Drivers that have something for the journal."""
        self._patient: dict[Driver, None] = {}
        """Those that may have more for it soon."""
        self._timed_out: dict[Driver, float] = {}
        """Drivers of runs that have run out of time → how many seconds they had."""
        self._claimed: set[Driver] = set()
        """Drivers of runs that existed, until their claim is durable: there may be commands for them."""
        self._doorman = Doorman(self._open_gate(), self._max_running, self._has_worker_for)
        """Places in queues."""
        self._counted: dict[Driver, overview.Counted] = {}
        """What was found when somebody last asked how its run gets on."""

    def _open_gate(self) -> Gate:
        def failed(waiting: list[int], error: OnceflowError) -> None:
            for driver in self._doorman.of(waiting):
                driver.interrupt(error)

        return Gate(self._home, socket.gethostname(), lambda: self._loop, self.now, self._is_gone, failed)

    def _is_gone(self, engine: str) -> bool:
        return proof_of_death.is_gone(self._home, engine)

    @abstractmethod
    def _open_loop(self) -> Posting:
        """A loop that calls `_turn` and `_ended`."""

    @abstractmethod
    def _journal_failed(self, error: OnceflowError) -> None:
        """The journal writes nothing more: no run starts anything from now on. Called by the thread that commits."""

    @abstractmethod
    def _open_workers(self) -> executor.Crew:
        """Workers that tell `_answered`."""

    # -- from any thread -----------------------------------------------------------------------------------------------

    def expect(self, run: str, name: str | None, feeds: Iterable[Listening] = ()) -> Completion:
        """For somebody who is going to wait for a run."""
        return Completion(run, name, feeds)

    def warm_up(self) -> None:
        """Start the workers, if that has not happened yet."""
        if self._workers is None:
            self._loop.post(self._start_workers)

    def submit(self, submission: Submission, completion: Completion) -> None:
        """Drive a new run."""
        self._post(lambda: self._submit(submission, completion))

    def wait_for_room(self) -> None:
        """Returns when the workers are not too far behind: more runs would only wait, and take memory."""
        if self._workers is not None and self._workers.backlog > MOST_WAITING and self._closed is None:
            room = Latch()
            self._loop.post(lambda: room.open() if self._closed is not None else self._waiting_for_room.append(room))
            room.wait()

    def adopt(self, *runs: tuple[Callable[[Hub], Adopted], Completion]) -> None:
        """Drive runs that exist."""

        def adopt() -> None:
            for make, completion in runs:
                self._adopt(make, completion)

        self._post(adopt)

    def look_at_queues(self) -> None:
        """Their limits may have changed."""
        self._loop.post(lambda: self._doorman.gate.look())

    def waiting_runs(self, queue: str | None = None) -> int:
        """How many runs have yet to begin here: for lack of a place in this queue, or at all."""
        return self._doorman.waiting_runs(queue)

    def find(self, run: str) -> Completion | None:
        """Of a run that is driven here."""
        found = self._active.get(run)
        return None if found is None else found[1]

    def is_busy_with(self, run: str) -> bool:
        """Whether the run is driven here, or a worker has yet to end something of it."""
        return run in self._active or (self._workers is not None and self._workers.has_jobs_of(run))

    def describe(self, run: str) -> list[TaskInfo] | None:
        """The tasks of a run that is driven here; None for any other."""
        return self._ask(lambda: self.describe_now(run))

    def survey(self, run: str) -> Overview | None:
        """How a run that is driven here gets on; None for any other."""
        return self._ask(lambda: self.survey_now(run))

    def _ask(self, question: Callable[[], T]) -> T:
        """What the loop's thread answers."""
        found: queue.SimpleQueue[T] = queue.SimpleQueue()
        if self._closed is not None:
            raise self._closed
        self._loop.post(lambda: found.put(question()))
        return found.get()

    def cancel(self, run: str, cancel: Cancelling) -> bool:
        """Cancel a run, if it is driven here. Whether it is: perhaps it has just been parked."""
        return self._ask(lambda: self._cancel(run, cancel))

    def pause(self, run: str) -> bool:
        """Let a run rest, if it is driven here, as soon as what runs has ended. Whether it is."""
        return self._ask(lambda: self._with_driver(run, Driver.pause))

    def limit(self, run: str, how: Limiting) -> bool:
        """Limit a loop of a run, if it is driven here. Whether it is."""
        return self._ask(lambda: self._with_driver(run, how.carry_out))

    def drain(self, run: str, reason: OnceflowError) -> None:
        """Let a run go, if it is driven here, as soon as what has an effect has ended."""
        self._loop.post(lambda: self._stop_driving(run, reason, lambda driver: driver.drain(reason)))

    def interrupt(self, run: str, reason: OnceflowError) -> None:
        """Let a run go at once, if it is driven here."""
        self._loop.post(lambda: self._stop_driving(run, reason, lambda driver: driver.interrupt(reason)))

    def pool_statistics(self) -> PoolStatistics | None:
        """Of worker processes, if there are any."""
        return None

    def object_statistics(self) -> ObjectStatistics | None:
        """Of large values in memory, if there can be any."""
        return None

    def blob_statistics(self) -> BlobStatistics | None:
        """Of files with values, if there are any."""
        return None

    @property
    def running(self) -> list[str]:
        """The ids of the runs that are driven here."""
        return list(self._active)

    def wait_until_idle(self) -> None:
        """Returns when no run is driven here."""
        while self._active:
            for _, completion in list(self._active.values()):
                completion.wait()

    def close(self) -> None:
        """Let all runs go (they can be resumed), end all workers, and wait for that."""
        if self._closed is None:
            self._closed = EngineClosed("the engine was closed")
        self._loop.stop()

    def _post(self, action: Callable[[], None]) -> None:
        if self._closed is not None:
            raise self._closed
        if self._workers is None:
            self._loop.post(self._start_workers)
        self._loop.post(action)

    # -- what the loop does --------------------------------------------------------------------------------------------

    def _tell_watchers(self) -> None:
        for watcher in self.watchers:
            watcher()

    def _turn(self) -> float | None:
        while self._answers or self._dirty or self._doorman.gate.busy:
            self._doorman.gate.turn()
            while self._answers:
                self._take_answers()
            self._flush()
        timeout = None if self._workers is None else self._workers.turn()
        if self._waiting_for_room and (self._workers is None or self._workers.backlog <= MOST_WAITING // 2):
            self._let_in()
        return 0 if self._dirty or self._answers or self._doorman.gate.busy else timeout

    def _take_answers(self) -> None:
        """A run that was woken for a command is told of it before it has a chance to rest again."""
        answers = [self._answers.popleft() for _ in range(len(self._answers))]
        if self._claimed and any(outcome.ok and driver in self._claimed for driver, _, outcome in answers):
            self._look_for_commands()
        for driver, requests, outcome in answers:
            if outcome.ok:
                if driver in self._claimed and not driver.was_woken:  # until now events were told to another engine
                    self._tell(driver, driver.look_for_mail)
                self._completions_accept(driver, requests)
                self._tell(driver, driver.committed)
            else:
                self._refused(driver, outcome)

    def _let_in(self) -> None:
        rooms, self._waiting_for_room = self._waiting_for_room, []
        for room in rooms:
            room.open()

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for driver in dirty:
            if driver.is_patient:
                if not self._patient:
                    self._loop.later(PATIENCE, self._flush_patient)
                self._patient[driver] = None
            else:
                self._patient.pop(driver, None)
                self._tell(driver, driver.flush)

    def _flush_patient(self) -> None:
        patient, self._patient = self._patient, {}
        for driver in patient:
            self._tell(driver, driver.flush)

    def _tell(self, driver: Driver, what: Callable[[], None]) -> None:
        """Whatever goes wrong in a driver is the end of that driver only."""
        try:
            what()
        except OnceflowError as error:
            driver.interrupt(error)
        except Exception as error:
            logger.exception("run %s cannot go on", driver.id)
            driver.interrupt(interrupted(driver.id, f"{type(error).__name__}: {error}", error))

    def _submit(self, submission: Submission, completion: Completion) -> None:
        run = Run(submission.graph, epoch=1, on_failure=submission.settings.on_failure)
        store = Store(self._home, submission.run)
        driver = Driver(submission.run, run, self, store, opening=submission.opening, metadata=submission.metadata)
        run.has_place = driver.has_place
        driver.queue, driver.priority = submission.settings.queue, submission.settings.priority
        self._drive(driver, completion, driver.begin)
        self._limit(driver, submission.settings.timeout, submission.settings.timeout)

    def _adopt(self, make: Callable[[Hub], Adopted], completion: Completion) -> None:
        if completion.run in self._active:
            completion.end(None, Redirected())
            return
        driver, decided, timeout, left = make(self)
        driver.run.has_place = driver.has_place
        self._drive(driver, completion, lambda: driver.begin(decided))
        if driver in self._completions:
            self._limit(driver, timeout, left)
            self._claimed.add(driver)

    def _limit(self, driver: Driver, timeout: float | None, left: float | None) -> None:
        """Cancel a run when it has run out of time."""
        if timeout is None or left is None or driver.over:
            return
        driver.limit = self.now() + left

        def run_out() -> None:
            self._timed_out[driver] = timeout
            self._cancel(driver.id, Cancelling(undo=driver.run.on_failure == "undo"))

        self.later(driver, max(0.0, left), run_out)

    def _drive(self, driver: Driver, completion: Completion, begin: Callable[[], None]) -> None:
        if self._closed is not None:
            closed = self._closed
            completion.end(None, RunInterrupted(driver.id, str(closed)) if isinstance(closed, EngineClosed) else closed)
            return
        self._active[driver.id] = (driver, completion)
        self._completions[driver] = completion
        if not self._doorman.lets_in(driver, lambda: self._tell(driver, begin)):
            driver.waits_outside = True
            self._dirty[driver] = None

    def _start_workers(self) -> None:
        if self._workers is None and self._closed is None:
            self._workers = self._open_workers()

    def _answered(self, driver: Driver, work: Work, report: Report) -> None:
        self.counts.answer(work, report)
        if self._doorman.holding:
            self._doorman.over(driver, work.attempt)
        completion = self._completions.get(driver)
        if completion is not None and completion.feeds:
            _tell_report(completion, work, report)
        self._tell(driver, lambda: executor.deliver(driver, work, report))

    def _lost_actor(self, actor: Instance) -> None:
        for driver, _ in list(self._active.values()):
            self._tell(driver, lambda driver=driver: driver.lost_actor(actor))  # type: ignore[misc]

    def _lost(self, objects: Set[Object]) -> None:
        """These are no more, whoever holds them."""
        for driver, _ in list(self._active.values()):
            self._tell(driver, lambda driver=driver: driver.lost(objects))  # type: ignore[misc]

    def _tell_progress(self, driver: Driver, work: Work, progress: Progress) -> None:
        completion = self._completions.get(driver)
        if completion is not None and completion.feeds:
            completion.tell("progress", work.node, attempt_name(work.attempt), str(progress), progress)

    def _with_driver(self, run: str, what: Callable[[Driver], None]) -> bool:
        """Whether it is driven here."""
        found = self._active.get(run)
        if found is not None:
            self._tell(found[0], lambda: what(found[0]))
        return found is not None

    def _stop_driving(self, run: str, reason: OnceflowError, how: Callable[[Driver], None]) -> None:
        self._with_driver(run, how)

    def _cancel(self, run: str, cancel: Cancelling) -> bool:
        self._with_driver(run, self._doorman.let_in)
        return self._with_driver(run, lambda driver: driver.cancel(cancel.undo, cancel.grace))

    def _look_for_commands(self) -> None:
        """Carry out what others left in the journal for runs that are driven here."""
        try:
            found = self._home.journal.commands(self._home.engine)
        except StorageError as error:
            logger.error("commands cannot be read: %s", error)
            return
        for command in found:
            self._wake(command.run, here=True)
            if command.run in self._active:
                self._carry_out(command)
                self.counts.commands += 1
                self._home.journal.submit([ForgetCommands(command.run, (command.number,))], _ignore)

    def _carry_out(self, command: journal.Command) -> None:
        driver = self._active[command.run][0]
        if command.kind == CANCEL:
            how = msgspec.msgpack.decode(command.body, type=Cancelling)
            if how.epoch is None or _is_meant(driver, how.epoch):
                self._cancel(command.run, how)
        elif command.kind == PAUSE:
            if _is_meant(driver, msgspec.msgpack.decode(command.body)):
                self._with_driver(command.run, Driver.pause)
        elif command.kind == LIMIT:
            self._with_driver(command.run, msgspec.msgpack.decode(command.body, type=Limiting).carry_out)
        else:
            logger.warning("run %s was sent %r, which this onceflow does not know", command.run, command.kind)

    def _completions_accept(self, driver: Driver, requests: Sequence[Request]) -> None:
        completion = self._completions.get(driver)
        self._claimed.discard(driver)
        if completion is not None:
            completion.accept()
            if completion.feeds:
                for request in requests:
                    if isinstance(request, SetStatus):
                        completion.tell("status", detail=request.status)

    def _refused(self, driver: Driver, outcome: Outcome) -> None:
        match outcome.refusal:
            case Failed(error):
                driver.interrupt(error)
            case Taken() | Fenced() | Outdated() if driver.is_opening:
                driver.interrupt(Redirected())
            case Missing():
                driver.interrupt(NoSuchRun(driver.id))
            case _:
                driver.interrupt(interrupted(driver.id, "another engine has taken it over"))

    def _ended(self, failure: BaseException | None) -> None:
        """The loop is over."""
        reason = "the engine was closed"
        if failure is not None:
            reason = f"the engine failed: {type(failure).__name__}: {failure}"
            logger.error(reason, exc_info=None if isinstance(failure, OnceflowError) else failure)
            self.broken = True
        if self._closed is None or failure is not None:
            self._closed = EngineClosed(reason)
            self._closed.__cause__ = failure
            if isinstance(failure, OnceflowError):  # it says best what to do
                self._closed = failure
        if failure is None:
            self._flush()
        self._let_in()
        for driver, _ in list(self._active.values()):
            why = failure if isinstance(failure, OnceflowError) else interrupted(driver.id, reason, failure)
            driver.interrupt(why)
        if self._workers is not None:
            self._workers.close()

    # -- what others ask, in the loop's thread (answering.Source) ------------------------------------------------------

    def describe_now(self, run: str) -> list[TaskInfo] | None:
        driven = self._active.get(run)
        if driven is None:
            return None
        driver = driven[0]
        insight = Insight(driver, self._workers, self._doorman, self.now())
        tasks = task_info.outline(driver.run)
        return task_info.describe(driver.run, tasks, driver.raised_last, driver.annotations, insight)

    def survey_now(self, run: str) -> Overview | None:
        driven = self._active.get(run)
        if driven is None:
            return None
        driver = driven[0]
        counted = self._counted.get(driver)
        if counted is None or counted.changes != driver.changes:
            counted = self._counted[driver] = overview.count(driver)
        return overview.survey(driver, counted, self._workers, self._doorman, self.now())

    def add_listener(self, run: str, listener: Listening, ended: Callable[[], None]) -> bool:
        driven = self._active.get(run)
        if driven is None:
            return False
        driven[1].listen(listener)
        driven[1].when_done(ended)
        return True

    def remove_listener(self, run: str, listener: Listening) -> None:
        driven = self._active.get(run)
        if driven is not None:
            driven[1].ignore(listener)

    # -- what drivers ask for (driver.work.Host) -----------------------------------------------------------------------

    def start(self, driver: Driver, work: Work) -> None:
        completion = self._completions[driver]
        if completion.feeds:
            completion.tell("undoing" if work.undo else "started", work.node, attempt_name(work.attempt))
        self.counts.start(work)
        if self._doorman.holding:
            self._doorman.launched(driver, work.attempt)
        assert self._workers is not None
        self._workers.start(driver, work)

    def ask(self, driver: Driver, node: str) -> bool:
        """What is in a queue needs a place there first; then, like all that has an effect, a worker."""
        asking = driver.run.rows[node].node
        if asking.admission is not None:
            self._doorman.ask(driver, node)
            return False
        return self._workers is None or self._workers.ask(driver, node, asking.call)

    def _has_worker_for(self, driver: Driver, node: str) -> bool:
        """Whether a node may start now, as far as that is up to the workers. Else `_admit` is called when it may."""
        row = driver.run.rows.get(node)
        if row is None or row.effect == "none" or self._workers is None:
            return True
        return self._workers.ask(driver, node, row.node.call)

    def _admit(self, driver: Driver, nodes: Sequence[str]) -> None:
        """Workers can take these."""
        others = [node for node in nodes if not self._doorman.admit(driver, node)]
        if others:
            self._tell(driver, lambda: driver.admit(others))

    def unused(self, driver: Driver, node: str, attempt: int) -> None:
        self._doorman.over(driver, attempt)
        if self._workers is not None:
            self._workers.unused(driver, node)

    def forgo(self, driver: Driver, node: str) -> None:
        self._doorman.forgo(driver, node)
        if self._workers is not None:
            self._workers.unused(driver, node)

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        assert self._workers is not None
        self._workers.foresee(driver, work, ahead)

    def stop(self, driver: Driver, attempt: int) -> None:
        if self._workers is not None:
            self._workers.stop(driver, attempt)

    def withdraw(self, driver: Driver, attempt: int) -> None:
        if self._workers is not None:
            self._workers.withdraw(driver, attempt)

    @abstractmethod
    def checkpoint(self, driver: Driver, node: str, live: bytes, then: Kept) -> None: ...

    @abstractmethod
    def update(self, driver: Driver, updates: Updates, then: Replied) -> None: ...

    def mailbox(self, driver: Driver, key: str) -> list[MailboxEvent]:
        return self._home.journal.mailbox(driver.id, key)

    @abstractmethod
    def park(self, driver: Driver, due: float) -> None: ...

    @abstractmethod
    def changed_variables(self, driver: Driver) -> None: ...

    @abstractmethod
    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None: ...

    def wake(self, driver: Driver) -> None:
        self._dirty[driver] = None

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        if len(self._active) == 1 and (self._workers is None or self._workers.idle):
            outcome = self._home.journal.commit_at_once(requests)  # meanwhile there is nothing else to do here
            if outcome is not None:
                self._answers.append((driver, requests, outcome))
                return

        submitted = _Submitted(self, driver, requests)
        self._home.journal.submit(requests, submitted.answer)
        if self.limits_opening and driver.is_opening:
            self.later(driver, self._home.journal.lock_timeout, submitted.withdraw)

    def withdraw_commit(self, submitted: _Submitted) -> None:
        """The journal has been locked for too long: takes back what waits for it, or tries that again later."""
        busy = self._home.journal.withdraw(submitted.answer)
        if submitted.answered:
            return
        if busy is None:
            self.later(submitted.driver, journal.AGAIN, submitted.withdraw)
        else:
            submitted.answer(Outcome((Failed(busy),) * len(submitted.requests), ok=False))

    def take_answer(self, submitted: _Submitted, outcome: Outcome) -> None:
        """The journal has answered, in a thread of its own."""
        self._answers.append((submitted.driver, submitted.requests, outcome))
        self._loop.post(_nothing)

    def later(self, driver: Driver, seconds: float, then: Callable[[], None]) -> None:
        self._loop.later(seconds, lambda: None if driver.over else self._tell(driver, then))

    def chance(self) -> float:
        return self._random.random()

    def now(self) -> float:
        return time.time()

    def look_for_mail(self, *runs: str) -> None:
        """Events were sent to runs. Concerns those that are driven, or parked, here."""
        self._loop.post(lambda: self._got_mail(runs))

    def _got_mail(self, runs: Iterable[str]) -> None:
        for run in runs:
            self._wake(run)
            self._with_driver(run, Driver.look_for_mail)

    @abstractmethod
    def _wake(self, run: str, *, here: bool = False) -> None:
        """Have a run driven again that is parked here. With `here`, by nobody else."""

    @abstractmethod
    def is_parked(self, run: str) -> bool:
        """Whether it only waits, and is driven again here when it is time. From any thread."""

    @abstractmethod
    def adopt_parked(self, rows: Sequence[RunRow]) -> None:
        """Runs that only wait, and that an engine has left, are driven again here when it is time."""

    def _let_go(self, driver: Driver) -> Completion:
        """Drive it no longer."""
        completion = self._completions.pop(driver)
        del self._active[driver.id]
        self._dirty.pop(driver, None)
        self._patient.pop(driver, None)
        self._counted.pop(driver, None)
        self._doorman.forget(driver)
        self._claimed.discard(driver)
        return completion

    def ended(self, driver: Driver) -> None:
        completion = self._let_go(driver)
        ending, timeout = driver.ending, self._timed_out.pop(driver, None)
        if timeout is not None and ending is not None and ending.status == "cancelled":
            ending = msgspec.structs.replace(ending, timeout=timeout)
        if not isinstance(driver.interruption, Redirected):  # else it has never been driven here
            self.counts.ended["interrupted" if ending is None else ending.status] += 1
        if self._workers is None:
            completion.end(ending, driver.interruption)
        else:
            self._workers.forget(driver, lambda: completion.end(ending, driver.interruption))
        self._tell_watchers()


class _Submitted:
    """What a driver has handed to the journal. (No closures that refer to themselves: of many short runs, the garbage
    collector would have to find each.)"""

    __slots__ = ("_hub", "answered", "driver", "requests")

    def __init__(self, hub: Hub, driver: Driver, requests: Sequence[Request]) -> None:
        self._hub = hub
        self.driver = driver
        self.requests = requests
        self.answered = False

    def answer(self, outcome: Outcome) -> None:
        self.answered = True
        self._hub.take_answer(self, outcome)

    def withdraw(self) -> None:
        if not self.answered:
            self._hub.withdraw_commit(self)


class Store:
    """Implements `driver.work.Store` for one run."""

    def __init__(self, home: Place, run: str) -> None:
        self._home = home
        self._run = run

    def read(self, reference: str) -> bytes:
        """A blob."""
        return self._home.blobs.read(reference)

    def delete(self, reference: str) -> None:
        self._home.blobs.discard(reference)

    def values(self, parts: set[tuple[str, int]]) -> dict[tuple[str, int], Part]:
        with self._home.journal.load(self._run) as loaded:
            return history.find_values(loaded.entries, parts)

    def outcomes(self) -> dict[str, children.Outcome]:
        with self._home.journal.load(self._run) as loaded:
            return history.find_outcomes(loaded.entries)


def _is_meant(driver: Driver, epoch: int) -> bool:
    """Whether a command is that somebody left when its run had this epoch. A run that was parked is woken for it, which
    is another epoch and the same life: what was left for an earlier life is forgotten by then."""
    return epoch == driver.run.epoch or driver.was_woken


def _ignore(outcome: Outcome) -> None:
    """A command that is not forgotten is carried out again, which changes nothing."""


def _nothing() -> None:
    """Posted to wake the loop."""


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
