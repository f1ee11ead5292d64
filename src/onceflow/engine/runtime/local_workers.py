"""Worker processes for an engine with a home directory, with shared memory, a porter, and threads
that write and check blobs.

Belongs to the loop's thread, except where it says otherwise.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from onceflow.backends.local import capacity
from onceflow.backends.local.worker_deadline import Leash
from onceflow.data.objects import Object
from onceflow.driver.driver import Driver
from onceflow.driver.work import Work
from onceflow.engine import proof_of_death
from onceflow.engine.logs.task_lines import level_number
from onceflow.engine.runtime.cluster import Cluster
from onceflow.engine.runtime.driven_runs import DrivenRuns, interrupted
from onceflow.engine.runtime.internal_jobs import Errands, Kept, Replied
from onceflow.engine.runtime.object_budget import Keeping, ObjectStatistics
from onceflow.engine.runtime.pool_executor import Workers
from onceflow.engine.runtime.remote_inputs import Fetching, Loaded
from onceflow.engine.settings import EngineSettings
from onceflow.errors import OnceflowError, StorageError
from onceflow.storage.blobs import Author
from onceflow.storage.blobs import Statistics as BlobStatistics
from onceflow.storage.home import SPILL, Home
from onceflow.values import sealed_bytes, trust
from onceflow.values.variables import Updates

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from onceflow.engine.logs.engine_log import Recording
    from onceflow.engine.logs.task_output import Printing
    from onceflow.engine.runtime.loop import Loop

SHARE = 0.3
"""Of the memory there is, for large values that wait to be read."""

SAVERS = 4
"""Threads that write blobs, and check those that are to be read."""

logger = logging.getLogger(__name__)


class LocalWorkers:
    """Implements `host.Services`. The processes are started by `open`."""

    def __init__(
        self,
        home: Home,
        settings: EngineSettings,
        loop: Loop,
        recording: Recording,
    ) -> None:
        self._home = home
        self._settings = settings
        self._loop = loop
        self._recording = recording
        self._savers: ThreadPoolExecutor | None = None
        self._leash: Leash | None = None
        self._runs: DrivenRuns | None = None
        self.processes: Workers | None = None
        self.keeping: Keeping | None = None

    def open(self, runs: DrivenRuns, printing: Printing | None) -> Workers:
        """They report to these drivers what they have done."""
        sealed_bytes.use(self._home.path)  # functions that go by value may refer to secrets
        folder = proof_of_death.prepare(self._home.path, self._home.engine)
        self._hold_lease(folder)
        self._runs = runs
        workers = self.processes = Workers(
            folder,
            self._settings.workers,
            preload=self._settings.preload,
            environment=self._environment(),
            loop=self._loop,
            open_blob=self._home.blobs.open,
            open_checked=self._home.blobs.open_checked,
            fetching=self._open_fetching,
            answer=runs.answered,
            admit=runs.admit,
            tell_progress=runs.tell_progress,
            lost=runs.lost,
            lost_actor=runs.lost_actor,
            printing=printing,
            log_level=level_number(self._settings.log_level),
            recording=self._recording,
            cluster=self._find_cluster(),
        )
        self.keeping = Keeping(
            workers,
            self._loop.selector,
            blobs=self._home.blobs.target,
            spill=self._home.path / SPILL,
            budget=self._settings.object_memory or int(capacity.memory() * SHARE),
            patience=self._settings.object_patience,
        )
        return workers

    def _open_fetching(self, workers: Workers) -> Fetching:
        def start(driver: Driver, work: Work) -> None:
            self._tell(driver, lambda: workers.start(driver, work, fetched=True))

        return Fetching(self._home.blobs.is_near, self._load_blob, start, self._check_moved, workers.lose)

    def _find_cluster(self) -> Cluster | None:
        """Where attempts run, if that is not this host alone."""
        settings, attendance = self._settings, self._home.attendance
        if settings.backend == "local":
            return None

        def until() -> float | None:
            if attendance is None or attendance.stop_at is None:
                return None
            return time.monotonic() + attendance.stop_at - time.clock_gettime(time.CLOCK_BOOTTIME)

        return Cluster(settings.backend, settings.object_memory, settings.lease, until)

    def _environment(self) -> dict[str, str]:
        """A task that looks at runs finds them."""
        environment = {"ONCEFLOW_HOME": str(self._home.path)}
        if self._settings.journal is not None:
            environment["ONCEFLOW_JOURNAL"] = self._settings.journal
        if self._settings.trusted_owners:
            environment[trust.VARIABLE] = " ".join([str(owner) for owner in self._settings.trusted_owners])
        return environment

    def _hold_lease(self, folder: Path) -> None:
        """If others on other hosts may take over, workers run no longer than they believe that this engine lives."""
        attendance = self._home.attendance
        if attendance is None:
            return
        self._leash = Leash(folder)
        attendance.renewed = self._leash.lengthen
        if attendance.stop_at is not None:
            self._leash.lengthen(attendance.stop_at)

    def halt(self) -> None:
        """Workers start nothing more, whatever was asked for. From any thread."""
        if self.processes is not None:
            self.processes.halt()

    def close_memory(self) -> None:
        if self.keeping is not None:
            self.keeping.close()

    def close(self) -> None:
        """When the workers have ended."""
        if self._leash is not None:
            self._leash.close()
        if self.processes is not None:
            proof_of_death.forget(self._home.path, self._home.engine)
        if self._savers is not None:
            self._savers.shutdown()

    def errands(self) -> Errands | None:
        return None if self.processes is None else self.processes.errands

    def object_statistics(self) -> ObjectStatistics | None:
        return None if self.keeping is None else self.keeping.statistics()

    def blob_statistics(self) -> BlobStatistics:
        return self._home.blobs.statistics()

    # -- what drivers ask for ------------------------------------------------------------------------------------------

    def checkpoint(self, driver: Driver, node: str, live: bytes, then: Kept) -> None:
        assert self.processes is not None
        most_deaths = driver.run.rows[node].node.call.settings.worker_deaths or self._settings.worker_deaths
        self.processes.errands.checkpoint(
            node, live, most_deaths, lambda kept, failure: self._tell(driver, lambda: then(kept, failure))
        )

    def update(self, driver: Driver, updates: Updates, then: Replied) -> None:
        assert self.processes is not None
        self.processes.errands.update(
            updates,
            self._settings.worker_deaths,
            lambda parts, failure: self._tell(driver, lambda: then(parts, failure)),
        )

    def changed_variables(self, driver: Driver) -> None:
        if self.processes is not None:
            self.processes.pool.count_change()

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None:
        if isinstance(value, Object) and value.place is None:

            def published(problem: OSError | None) -> None:
                if problem is not None:
                    driver.interrupt(interrupted(driver.id, f"an output cannot be saved: {problem}", problem))
                elif value.lost:
                    self._tell(driver, lambda: then(None))
                else:
                    self.save(driver, name, value, then)

            assert self.processes is not None
            self.processes.publish(value, published)
            return
        author = Author(driver.id, driver.run.epoch, self._home.engine)
        self._home.blobs.announce()
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
                self._home.blobs.note_written(object.size)
                self._tell(driver, lambda: then(result))

        assert self.keeping is not None
        self.keeping.save(object, author, name, saved)

    def _write(
        self, driver: Driver, author: Author, name: str, value: bytes, then: Callable[[str | None], None]
    ) -> None:
        """In a saver's thread."""
        try:
            reference = self._home.blobs.write(author, name, [value])
        except OnceflowError as error:
            failure = error
            self._loop.post(lambda: driver.interrupt(failure))
        except Exception as error:
            problem = interrupted(driver.id, f"{type(error).__name__}: {error}", error)
            self._loop.post(lambda: driver.interrupt(problem))
        else:
            self._loop.post(lambda: self._tell(driver, lambda: then(reference)))

    def _tell(self, driver: Driver, what: Callable[[], None]) -> None:
        assert self._runs is not None
        self._runs.tell(driver, what)

    # -- what attempts wait for ----------------------------------------------------------------------------------------

    def _load_blob(self, reference: str, then: Loaded) -> None:
        assert self.keeping is not None
        if self._home.blobs.is_near(reference):
            self._threads().submit(self._check_blob, reference, then)
        else:
            self.keeping.load(reference, then)

    def _check_blob(self, reference: str, then: Loaded) -> None:
        """In a saver's thread."""
        try:
            file = self._home.blobs.open_checked(reference)
        except StorageError as error:
            failure = error
            self._loop.post(lambda: then(failure))
            return

        def checked() -> None:
            assert self.processes is not None
            with file:
                found = self.processes.add_file(file)
            then(found)

        self._loop.post(checked)

    def _check_moved(self, object: Object, then: Callable[[bool], None]) -> None:
        """Whether an object is whole that was moved to disk."""

        def check() -> None:
            is_whole = object.is_whole()
            if not is_whole:
                logger.error(
                    "a large value of %d bytes that was moved to disk is damaged, and is made anew", object.size
                )
            self._loop.post(lambda: then(is_whole))

        self._threads().submit(check)

    def _threads(self) -> ThreadPoolExecutor:
        if self._savers is None:
            from concurrent.futures import ThreadPoolExecutor  # seldom needed: large values that come from disk

            self._savers = ThreadPoolExecutor(SAVERS, "onceflow saver")
        return self._savers
