"""The hub of an engine with a home directory: a loop in a thread, worker processes, threads that write blobs, logs."""

from __future__ import annotations

import logging
import queue
import selectors
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onceflow.backends.local import capacity, output_receiver
from onceflow.backends.local.delegated_runs import Driven
from onceflow.backends.local.reports import Statistics as PoolStatistics
from onceflow.backends.local.worker_deadline import Leash
from onceflow.core.run import attempt_name
from onceflow.data.objects import Object
from onceflow.driver.driver import Driver
from onceflow.driver.work import Work
from onceflow.engine import proof_of_death
from onceflow.engine.handles import Completion, Latch, Redirected
from onceflow.engine.inspect.statistics import ObjectStatistics
from onceflow.engine.logs.engine_log import Recording
from onceflow.engine.logs.task_lines import level_number
from onceflow.engine.logs.task_output import Printing
from onceflow.engine.peers.server import Answering
from onceflow.engine.runtime.cluster import Cluster
from onceflow.engine.runtime.delegation import Delegating
from onceflow.engine.runtime.host import Adopted, Hub, interrupted
from onceflow.engine.runtime.internal_jobs import Kept, Replied
from onceflow.engine.runtime.loop import Loop
from onceflow.engine.runtime.object_budget import Keeping
from onceflow.engine.runtime.parking import SOON, Parking, Waking
from onceflow.engine.runtime.pool_executor import Workers
from onceflow.engine.runtime.remote_inputs import Fetching, Loaded
from onceflow.engine.settings import EngineSettings
from onceflow.errors import OnceflowError, RunInterrupted, StorageError
from onceflow.storage import logs
from onceflow.storage.blobs import Author
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.home import SPILL, Home
from onceflow.storage.journal import NEVER, Claim, Command, Failed, Outcome, Request, RunRow, SetStatus, Short, commit
from onceflow.values import sealed_bytes, trust
from onceflow.values.variables import Updates

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SHARE = 0.3
"""Of the memory there is, for large values that wait to be read."""

SAVERS = 4
"""Threads that write blobs, and check those that are to be read."""

AT_ONCE = 1000
"""Runs that are claimed in one commit."""

logger = logging.getLogger(__name__)


class LocalHub(Hub):
    """Started on creation, in a thread of its own."""

    def __init__(self, home: Home, settings: EngineSettings) -> None:
        self._directory = home
        self._settings = settings
        self._savers: ThreadPoolExecutor | None = None
        self._recording = Recording(
            logs.of_engines(home.path),
            home.engine,
            settings.log_limit,
            events=settings.event_log,
            is_alive=home.engines.is_alive,
        )
        self._printing: Printing | None = None
        if settings.output != "inherit":
            self._printing = Printing(
                logs.of_runs(home.path),
                settings.log_limit,
                show=settings.output == "show",
                title=self._title,
                unowned=self._recording.keep,
            )
        self._unparked: dict[Driver, Completion | None] = {}
        """Drivers of runs that were parked here, until their claim is durable, and who waited for the run."""
        self._processes: Workers | None = None
        self._keeping: Keeping | None = None
        self._leash: Leash | None = None
        if settings.backend != "local":
            from onceflow.backends.ray import cluster  # nobody else needs Ray

            cluster.prepare(settings.backend)
        super().__init__(home, settings.max_running, settings.worker_deaths)
        if home.attendance is not None:
            home.attendance.lost = lambda: self._threaded.post(self._lose_lease)
        self._threaded.start()

    def _open_loop(self) -> Loop:
        self._threaded = Loop(f"onceflow engine {self._directory.path}", turn=self._turn, ended=self._ended)
        self._threaded.selector.register(self._directory.bell, selectors.EVENT_READ, self._heard_bell)
        self.parking = Parking(self._threaded, self.now)
        self._delegating = Delegating(
            self._home.engine, self._home.journal, self._threaded, self.parking, self._accept_driven
        )
        self._newest_mail = 0
        """The number of the newest event that was seen."""
        self._answering = Answering(self._directory.listener, self._threaded, self)
        return self._threaded

    def _journal_failed(self, error: OnceflowError) -> None:
        """What workers have not started they must not start while the loop is still busy with something else. Then the
        engine ends as a whole."""
        self.broken = True
        if self._processes is not None:
            self._processes.halt()
        self._threaded.post(lambda: self._end_with(error))

    def _end_with(self, error: OnceflowError) -> None:
        if self._closed is None:
            self._recording.tell("storage trouble", detail=str(error))
            raise error

    def _open_workers(self) -> Workers:
        sealed_bytes.use(self._directory.path)  # functions that go by value may refer to secrets
        folder = proof_of_death.prepare(self._directory.path, self._directory.engine)
        self._hold_lease(folder)
        self._processes = Workers(
            folder,
            self._settings.workers,
            preload=self._settings.preload,
            environment=self._environment(),
            loop=self._threaded,
            open_blob=self._directory.blobs.open,
            open_checked=self._directory.blobs.open_checked,
            answer=self._answered,
            admit=self._admit,
            tell_progress=self._tell_progress,
            lost=self._lost,
            lost_actor=self._lost_actor,
            printing=self._printing,
            log_level=level_number(self._settings.log_level),
            recording=self._recording,
            cluster=self._find_cluster(),
        )
        budget = self._settings.object_memory or int(capacity.memory() * SHARE)
        self._keeping = Keeping(
            self._processes,
            self._threaded.selector,
            blobs=self._directory.blobs.target,
            spill=self._directory.path / SPILL,
            budget=budget,
            patience=self._settings.object_patience,
        )
        self._processes.fetch_with(
            Fetching(
                self._directory.blobs.is_near,
                self._load_blob,
                lambda driver, work: self._tell(driver, lambda: self._start_fetched(driver, work)),
                self._check_moved,
                self._processes.lose,
            )
        )
        return self._processes

    def _find_cluster(self) -> Cluster | None:
        """Where attempts run, if that is not this host alone."""
        settings, attendance = self._settings, self._directory.attendance
        if settings.backend == "local":
            return None

        def until() -> float | None:
            if attendance is None or attendance.stop_at is None:
                return None
            return time.monotonic() + attendance.stop_at - time.clock_gettime(time.CLOCK_BOOTTIME)

        return Cluster(settings.backend, settings.object_memory, settings.lease, until)

    def _start_fetched(self, driver: Driver, work: Work) -> None:
        assert self._processes is not None
        self._processes.start(driver, work, fetched=True)

    def _load_blob(self, reference: str, then: Loaded) -> None:
        assert self._keeping is not None
        if self._directory.blobs.is_near(reference):
            self._threads().submit(self._check_blob, reference, then)
        else:
            self._keeping.load(reference, then)

    def _check_blob(self, reference: str, then: Loaded) -> None:
        """In a saver's thread."""
        try:
            file = self._directory.blobs.open_checked(reference)
        except StorageError as error:
            failure = error
            self._threaded.post(lambda: then(failure))
            return

        def checked() -> None:
            assert self._processes is not None
            with file:
                found = self._processes.add_file(file)
            then(found)

        self._threaded.post(checked)

    def _check_moved(self, object: Object, then: Callable[[bool], None]) -> None:
        """Whether an object is whole that was moved to disk."""

        def check() -> None:
            is_whole = object.is_whole()
            if not is_whole:
                logger.error(
                    "a large value of %d bytes that was moved to disk is damaged, and is made anew", object.size
                )
            self._threaded.post(lambda: then(is_whole))

        self._threads().submit(check)

    def _threads(self) -> ThreadPoolExecutor:
        if self._savers is None:
            from concurrent.futures import ThreadPoolExecutor  # seldom needed: large values that come from disk

            self._savers = ThreadPoolExecutor(SAVERS, "onceflow saver")
        return self._savers

    def _environment(self) -> dict[str, str]:
        """A task that looks at runs finds them."""
        environment = {"ONCEFLOW_HOME": str(self._directory.path)}
        if self._settings.journal is not None:
            environment["ONCEFLOW_JOURNAL"] = self._settings.journal
        if self._settings.trusted_owners:
            environment[trust.VARIABLE] = " ".join([str(owner) for owner in self._settings.trusted_owners])
        return environment

    def _hold_lease(self, folder: Path) -> None:
        """If others on other hosts may take over, workers run no longer than they believe that this engine lives."""
        attendance = self._directory.attendance
        if attendance is None:
            return
        self._leash = Leash(folder)
        attendance.renewed = self._leash.lengthen
        if attendance.stop_at is not None:
            self._leash.lengthen(attendance.stop_at)

    def _lose_lease(self) -> None:
        raise StorageError(
            str(self._directory.path), "the journal could not be reached for so long that this engine's lease has ended"
        )

    def pool_statistics(self) -> PoolStatistics | None:
        if self._processes is None:
            return None
        found: queue.SimpleQueue[PoolStatistics] = queue.SimpleQueue()
        processes = self._processes
        self._threaded.post(lambda: found.put(processes.statistics()))
        return found.get()

    def object_statistics(self) -> ObjectStatistics | None:
        return None if self._keeping is None else self._keeping.statistics()

    def blob_statistics(self) -> BlobStatistics:
        return self._directory.blobs.statistics()

    def _heard_bell(self) -> None:
        self._directory.bell.hush()
        self._look_for_commands()
        self._doorman.gate.look()
        self._tell_watchers()
        self._look_for_mail()
        self.on_bell()

    def _look_for_mail(self, *, everywhere: bool = False) -> None:
        """Others may have sent events to runs that are driven, or parked, here. Some runs may have come here with their
        mail, long after it was sent: then it is looked for everywhere."""
        try:
            found = self._home.journal.runs_with_mail(self._home.engine, 0 if everywhere else self._newest_mail)
        except StorageError as error:
            logger.error("mailboxes cannot be read: %s", error)
            return
        self._newest_mail = max(self._newest_mail, *found.values(), 0)
        self._got_mail(found)

    def park(self, driver: Driver, due: float) -> None:
        if due - self.now() <= SOON or self.parking.load is None:
            return
        completion = self._let_go(driver)
        driver.rest()
        if self._workers is not None:
            self._workers.forget(driver, _nothing)
        self.parking.park(driver.id, due, completion)

    def _stop_driving(self, run: str, reason: OnceflowError, how: Callable[[Driver], None]) -> None:
        super()._stop_driving(run, reason, how)
        if run in self.parking and (completion := self.parking.take(run)) is not None:
            completion.end(None, reason)

    def _wake(self, run: str, *, here: bool = False) -> None:
        self.parking.wake(run, here=here)

    def may_delegate(self, short: Short) -> bool:
        """Whether workers may go on with a run that was woken. From any thread."""
        is_free = self._settings.backend == "local" and self._max_running is None
        return is_free and self._delegating.suits(short)

    def delegate(self, runs: Sequence[Short]) -> None:
        """Have workers go on with runs that were woken. From any thread."""

        def send() -> None:
            if self._processes is not None and self._closed is None:
                self._delegating.send(self._still_woken(runs), self._processes.errands)

        self._post(send)

    def _still_woken(self, runs: Sequence[Short]) -> list[Short]:
        """Without those that somebody goes on with here, or has gone on with since they were loaded."""
        found: dict[str, Short] = {}
        for short in runs:
            run = short.run.id
            if run in self.parking or run in self._delegating:
                self.parking.wake(run)
            elif run not in self._active and self.parking.was_woken(run):
                found[run] = short
        return list(found.values())

    def _adopt(self, make: Callable[[Hub], Adopted], completion: Completion) -> None:
        if completion.run in self._delegating:  # look again when it is back
            self.parking.wake(completion.run)
            completion.end(None, Redirected())
        else:
            super()._adopt(make, completion)

    def wake_later(self, run: Waking, error: StorageError) -> None:
        """A run was woken, and could not be loaded. From any thread."""
        self._threaded.post(lambda: self.parking.wake_later([run], error))

    def not_driven(self, run: str) -> None:
        """A run was woken, and is not driven here after all. From any thread."""
        self._threaded.post(lambda: self.parking.forget(run))

    def wait_until_idle(self) -> None:
        super().wait_until_idle()
        while self._delegating:
            back = Latch()
            self._threaded.post(lambda back=back: self._delegating.when_back(back.open))  # type: ignore[misc]
            back.wait()
            super().wait_until_idle()

    def is_busy_with(self, run: str) -> bool:
        return super().is_busy_with(run) or run in self._delegating

    def _accept_driven(self, driven: Driven) -> None:
        self.counts.delegate(len(driven.attempts))
        self._recording.tell("run delegated", driven.run, detail=driven.status)
        if self._printing is not None and driven.printed:
            for place, output in driven.printed:
                node, attempt = driven.attempts[place]
                self._printing.add(output_receiver.printed(output), driven.run, node, attempt_name(attempt))
            self._printing.end(driven.printed[0][1].token)
            self._printing.turn()
            self._printing.ended(driven.run)
        if driven.due is None:
            self.counts.ended[driven.status] += 1
            self._recording.tell("run ended", driven.run, detail=driven.status)
            self._tell_watchers()

    def is_parked(self, run: str) -> bool:
        return run in self.parking

    def adopt_parked(self, rows: Sequence[RunRow]) -> None:
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            claims = [Claim(row.id, self._home.engine, row.epoch) for row in some]
            claimed = commit(self._home.journal, claims, limited=False)
            if not claimed.ok:  # somebody else was quicker with one of them
                pairs = zip(some, claims, strict=True)
                some = [row for row, claim in pairs if commit(self._home.journal, [claim], limited=False).ok]
            dues = [(row.id, NEVER if row.due is None else row.due) for row in some]
            self._loop.post(lambda dues=dues: self._park_claimed(dues))  # type: ignore[misc]
        self._loop.post(lambda: self._look_for_mail(everywhere=True))
        self._loop.post(self._look_for_commands)  # their engine may have died before it carried them out

    def _park_claimed(self, dues: Sequence[tuple[str, float]]) -> None:
        """Runs were claimed that only wait. One that was resumed here since then stays with its driver, or as that has
        parked it. If its driver has yet to claim it, and is refused, the run is looked at again (`ended`)."""
        free: list[tuple[str, float]] = []
        for run, due in dues:
            driven = self._active.get(run)
            if driven is not None:
                if driven[0] in self._claimed:
                    self._unparked.setdefault(driven[0], None)
            elif run not in self.parking and run not in self._delegating and not self.parking.was_woken(run):
                free.append((run, due))
        self.parking.park_all(free)

    def _title(self, run: str) -> str | None:
        """What a run is called where several are driven."""
        driven = self._active.get(run)
        return None if driven is None or len(self._active) == 1 else driven[1].name or run

    def _turn(self) -> float | None:
        if self._printing is not None:
            self._printing.turn()  # before anybody learns that a run has ended
        timeout = super()._turn()
        if self._keeping is not None:
            soon = self._keeping.turn()
            timeout = soon if timeout is None or (soon is not None and soon < timeout) else timeout
        if self._printing is not None:
            self._printing.turn()
        soon = self._recording.turn()
        return timeout if soon is None or (timeout is not None and timeout < soon) else soon

    def _ended(self, failure: BaseException | None) -> None:
        self._delegating.close()
        super()._ended(failure)
        if self._keeping is not None:
            self._keeping.close()
        if self._printing is not None:
            self._printing.close()
        self.parking.close(self._closed)
        if failure is not None:
            self._recording.tell("engine failed", detail=f"{type(failure).__name__}: {failure}")
        self._recording.close()
        if self._leash is not None:
            self._leash.close()
        if self._workers is not None:
            proof_of_death.forget(self._directory.path, self._directory.engine)
        if self._savers is not None:
            self._savers.shutdown()
        self._answering.close()

    def checkpoint(self, driver: Driver, node: str, live: bytes, then: Kept) -> None:
        assert self._processes is not None
        errands = self._processes.errands
        most_deaths = driver.run.rows[node].node.call.settings.worker_deaths or self.worker_deaths
        errands.checkpoint(
            node, live, most_deaths, lambda kept, failure: self._tell(driver, lambda: then(kept, failure))
        )

    def update(self, driver: Driver, updates: Updates, then: Replied) -> None:
        assert self._processes is not None
        errands = self._processes.errands
        errands.update(
            updates, self.worker_deaths, lambda parts, failure: self._tell(driver, lambda: then(parts, failure))
        )

    def changed_variables(self, driver: Driver) -> None:
        if self._processes is not None:
            self._processes.pool.count_change()

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None:
        if isinstance(value, Object) and value.place is None:

            def published(problem: OSError | None) -> None:
                if problem is not None:
                    driver.interrupt(interrupted(driver.id, f"an output cannot be saved: {problem}", problem))
                elif value.lost:
                    self._tell(driver, lambda: then(None))
                else:
                    self.save(driver, name, value, then)

            assert self._processes is not None
            self._processes.publish(value, published)
            return
        author = Author(driver.id, driver.run.epoch, self._directory.engine)
        self._directory.blobs.announce()
        if isinstance(value, Object):
            self._save_object(driver, author, name, value, then)
            return
        self._threads().submit(self._write, driver, author, name, value, then)

    def _save_object(
        self, driver: Driver, author: Author, name: str, object: Object, then: Callable[[str | None], None]
    ) -> None:
        def saved(result: str | StorageError) -> None:
            if isinstance(result, StorageError):
                driver.interrupt(result)
            else:
                self._directory.blobs.note_written(object.size)
                self._tell(driver, lambda: then(result))

        assert self._keeping is not None
        self._keeping.save(object, author, name, saved)

    def _write(
        self, driver: Driver, author: Author, name: str, value: bytes, then: Callable[[str | None], None]
    ) -> None:
        """In a saver's thread."""
        try:
            reference = self._directory.blobs.write(author, name, [value])
        except OnceflowError as error:
            failure = error
            self._threaded.post(lambda: driver.interrupt(failure))
        except Exception as error:
            problem = interrupted(driver.id, f"{type(error).__name__}: {error}", error)
            self._threaded.post(lambda: driver.interrupt(problem))
        else:
            self._threaded.post(lambda: self._tell(driver, lambda: then(reference)))

    # -- what is told to the log of the engine, too --------------------------------------------------------------------

    def _drive(self, driver: Driver, completion: Completion, begin: Callable[[], None]) -> None:
        was_parked = driver.id in self.parking or self.parking.was_woken(driver.id)  # if so, that wake is used up here
        waiting = self.parking.take(driver.id)
        if was_parked:
            self._unparked[driver] = waiting
        if waiting is not None and waiting is not completion:
            waiting.follow(completion)
        epoch = driver.run.epoch
        if epoch == 1:
            self._recording.tell("run created", driver.id, detail=completion.name or "")
        else:
            self._recording.tell("run adopted", driver.id, detail=f"epoch {epoch}")
        super()._drive(driver, completion, begin)

    def _completions_accept(self, driver: Driver, requests: Sequence[Request]) -> None:
        self._unparked.pop(driver, None)
        if self._recording.on:
            if driver in self._claimed:
                self._recording.tell("run claimed", driver.id, detail=f"epoch {driver.run.epoch}")
            for request in requests:
                if isinstance(request, SetStatus):
                    self._recording.tell("status", driver.id, detail=request.status)
        super()._completions_accept(driver, requests)

    def _refused(self, driver: Driver, outcome: Outcome) -> None:
        if isinstance(outcome.refusal, Failed):
            self._recording.tell("storage trouble", driver.id, detail=str(outcome.refusal.error))
        super()._refused(driver, outcome)

    def _carry_out(self, command: Command) -> None:
        self._recording.tell("command", command.run, detail=command.kind)
        super()._carry_out(command)

    def ended(self, driver: Driver) -> None:
        if self._printing is not None:
            self._printing.ended(driver.id)
        if not isinstance(driver.interruption, Redirected):
            why = driver.interruption
            how = f"interrupted: {why.reason if isinstance(why, RunInterrupted) else why}"
            self._recording.tell("run ended", driver.id, detail=how if driver.ending is None else driver.ending.status)
        super().ended(driver)
        was_parked, waiting = driver in self._unparked, self._unparked.pop(driver, None)
        if was_parked and isinstance(driver.interruption, Redirected):  # it was loaded before it was parked: look again
            self.parking.park(driver.id, NEVER, waiting)
            self.parking.wake(driver.id)


def _nothing() -> None:
    """Nobody waits for that."""
