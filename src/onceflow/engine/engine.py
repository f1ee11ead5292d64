"""The engine as users see it. Every method may be called from any thread."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onceflow.core.state import OnFailure
from onceflow.engine import outcomes, proof_of_death, settings
from onceflow.engine.attaching import MOST_RUNS, Attaching
from onceflow.engine.display.refresh import Displaying
from onceflow.engine.handles import Completion, Feed, Redirected, RunHandle
from onceflow.engine.inspect.api import Inspecting
from onceflow.engine.inspect.engines import EngineInfo, list_engines
from onceflow.engine.inspect.journal_view import Reading
from onceflow.engine.inspect.live import LiveRuns
from onceflow.engine.inspect.measurements import Past
from onceflow.engine.inspect.run_info import Listing
from onceflow.engine.logs.task_lines import Level
from onceflow.engine.queues.management import Queueing, defined, waiting_elsewhere
from onceflow.engine.queues.pending import count_submitted
from onceflow.engine.run_commands import rerun
from onceflow.engine.run_commands.cancel import GRACE, Cancelling, ask_to_cancel, cancel
from onceflow.engine.run_commands.limit import Limiting, limit
from onceflow.engine.run_commands.pause import ask_to_pause, pause
from onceflow.engine.run_commands.reach import Reach
from onceflow.engine.run_commands.send_event import Letter, Mail
from onceflow.engine.run_commands.set_result import supply
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.runtime.garbage import Collecting
from onceflow.engine.runtime.local_runtime import LocalRuntime
from onceflow.engine.schedules.clock import Clockwork, Winding
from onceflow.engine.schedules.management import EngineRuns, Manager, Scheduling
from onceflow.engine.serving import RUNS_PER_WORKER, Serving, drain
from onceflow.engine.settings import Output
from onceflow.engine.statuses import ACTIVE, Status
from onceflow.engine.submission import Submission, left_to_others, new_id, prepare
from onceflow.engine.waking import Waker
from onceflow.errors import (
    EngineClosed,
    InsideTask,
    InvalidOption,
    NameTaken,
    OnceflowError,
    QueueFull,
    RunActive,
    RunInterrupted,
)
from onceflow.storage import failures
from onceflow.storage import logs as stored_logs
from onceflow.storage.home import Home
from onceflow.storage.journal import DamagedRun, DeleteRun, Durability, Failed, Fenced, RunRow, Taken, commit
from onceflow.storage.run_stores import Place
from onceflow.values import sealed_bytes
from onceflow.values.context import is_in_fiber, running

if TYPE_CHECKING:
    pass

R = TypeVar("R")
T = TypeVar("T")

MOST_OPENING = 500
"""Runs of `run_many` that are submitted and not yet durable."""

logger = logging.getLogger(__name__)


class Engine(Inspecting, Scheduling, Queueing):
    """Runs graphs, and keeps what it knows about them in a home directory.

    `home` is that directory (default `./.onceflow`), `blobs` the URL of a place for large values instead of it
    (`"s3://bucket/prefix"`, `gs:`, `az:`, `file:`), `workers` the number of worker processes (default: one per core),
    `durability` what a save survives (`"power"`, or the faster `"process"`), `preload` names modules that workers
    import early, and `recover=True` goes on with all interrupted runs at once.
    `output` says what becomes of what tasks print and log: `"show"` stores it and shows it with the task in front,
    `"store"` only stores it, `"inherit"` leaves the terminal to the workers. `log_level` is the level of `logging` from
    which on records count (`"INFO"`), `log_limit` the bytes that a run's log may have, and `event_log=False` keeps no
    log of what the engine does. `object_memory` is how many bytes of memory large values may take while they wait to be
    read, and `object_patience` how many seconds they may wait there before they are moved to disk.
    With `schedules=False` it fires no schedules, and leaves that to others that share the home directory.
    A task fails when `worker_deaths` workers have died in a row while they ran it (10), unless it has that option
    itself.
    It drives at most `max_running` runs at a time; others wait, the highest priority first. When `max_pending` of them
    wait, one more is refused with `QueueFull`.
    When other programs keep the journal locked (one that was stopped with Ctrl-Z in the middle of a commit), runs wait
    as long as it takes, and a line in the log names the program; what else waits for an answer (`send_event`, `cancel`,
    `delete` and so on) raises `StorageBusy` after `lock_timeout` seconds (default: 30).
    With `progress=True` it is shown on stderr how runs get on while somebody waits for them: a live display on a
    terminal, a line every few seconds elsewhere.
    `journal` is the URL of a PostgreSQL database that has the journal instead of a file in the home directory, so that
    engines on several hosts share runs; `lease` is how many seconds those wait before they take this engine for dead.
    `backend` is where tasks run: `"local"`, on this host; or a Ray cluster: `"host:port"`, `"auto"` for the one that
    runs here, `"ray"` for that which `RAY_ADDRESS` names, else one that is started here; `"ray://host:port"` from a
    machine that is no part of it.
    The home directory must belong to this user, and no other user may be able to write or exchange it, because what
    lies there is unpickled: else `StorageNotTrusted` is raised. `trusted_owners` names users, by name or id, whose
    folders are trusted all the same, such as the owner of a volume that is mounted into a container; in a home
    directory that belongs to one of them, the engine makes a folder of its own.
    What is not given comes from `ONCEFLOW_HOME`, `ONCEFLOW_WORKERS` and so on, then from `[tool.onceflow]` in
    pyproject.toml. Any number of engines, in any number of processes, may share a home directory.

    A context manager: at the end of its block it waits for the runs that it drives, then closes. If the block is left
    by an exception it does not wait; what was going on is then *interrupted* and can be resumed.

        with Engine(home="state", workers=4) as engine:
            print(engine.run(trip.bind("ann", "Rome"), name="trip-17"))
    """

    _clockwork: Winding | None = None
    """What fires schedules, if this engine does."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        blobs: str | None = None,
        workers: int | None = None,
        durability: Durability | None = None,
        preload: Sequence[str] | None = None,
        recover: bool | None = None,
        output: Output | None = None,
        log_level: Level | None = None,
        log_limit: int | None = None,
        event_log: bool | None = None,
        object_memory: int | str | None = None,
        object_patience: float | None = None,
        progress: bool | None = None,
        journal: str | None = None,
        lease: float | None = None,
        schedules: bool | None = None,
        backend: str | None = None,
        worker_deaths: int | None = None,
        max_running: int | None = None,
        max_pending: int | None = None,
        lock_timeout: float | None = None,
        trusted_owners: Sequence[int | str] | None = None,
    ) -> None:
        self.settings = settings.find(
            home=home,
            blobs=blobs,
            workers=workers,
            durability=durability,
            preload=preload,
            recover=recover,
            output=output,
            log_level=log_level,
            log_limit=log_limit,
            event_log=event_log,
            object_memory=object_memory,
            object_patience=object_patience,
            progress=progress,
            journal=journal,
            lease=lease,
            schedules=schedules,
            backend=backend,
            worker_deaths=worker_deaths,
            max_running=max_running,
            max_pending=max_pending,
            lock_timeout=lock_timeout,
            trusted_owners=trusted_owners,
        )
        home_directory = Home(
            self.settings.home,
            durability=self.settings.durability,
            journal=self.settings.journal,
            lease=self.settings.lease,
            blobs=self.settings.blobs,
            lock_timeout=self.settings.lock_timeout,
            trusted_owners=self.settings.trusted_owners,
        )
        proof_of_death.remove_dead(home_directory.path, home_directory.engines)
        waker = Waker(home_directory, self._wait_for)
        runtime = LocalRuntime(
            home_directory, self.settings, wake=waker.wake, on_bell=self._poke_clockwork, source=LiveRuns
        )
        self._open(home_directory, runtime.hub, Collecting(home_directory))
        if self.settings.recover:
            self._recover()
        if self.settings.schedules:
            clockwork = Clockwork(self._home.journal, self._runs_of_schedules)
            self._clockwork = clockwork
            clockwork.start()

    def _open(self, home: Place, hub: Hub, collecting: Collecting | None) -> None:
        self._home = home
        self._hub = hub
        self._collecting = collecting
        self._reading = Reading(self._home)
        sealed_bytes.know(home.path, self.settings.trusted_owners)
        self._attaching = Attaching(self._home, self._hub, self._reading)
        self._reach = Reach(self._home, self._hub, self._attaching)
        self._mail = Mail(self._home, self._reach)
        self._live = LiveRuns(hub)
        self._listing = Listing(self._home, self._attaching)
        self._unheard = {}
        self._lock = threading.Lock()
        self._closed = False
        self._serving: Serving | None = None
        self._adopters: set[threading.Thread] = set()
        """Threads that are about to hand over runs that are to be driven here."""
        self._process = os.getpid()
        self._runs_of_schedules = EngineRuns(self)
        self._schedules = Manager(home, self._runs_of_schedules, self._schedules_changed)
        self._past = Past(self._home, self.settings.workers, self._hub.now)
        self._display: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        """Entered while somebody waits for a run."""
        if self.settings.progress:
            self._display = Displaying(self, lambda: self.active)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(
        self,
        node: R,
        *,
        name: str | None = None,
        on_failure: OnFailure = "keep",
        timeout: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
    ) -> R:
        """Runs the graph that leads to this node, and returns its result. See `onceflow.run`."""
        self._check_usable()
        self._hub.warm_up()
        submission = self._prepare(node, name, on_failure, timeout, metadata, queue, priority)
        result: R = self._result(submission, self._begin(submission))
        return result

    def run_async(
        self,
        node: R,
        *,
        name: str | None = None,
        on_failure: OnFailure = "keep",
        timeout: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
    ) -> RunHandle[R]:
        """Like `run`, but returns as soon as the run is durable: from then on it can be resumed whatever happens."""
        self._check_usable()
        self._hub.warm_up()
        return self._start(self._prepare(node, name, on_failure, timeout, metadata, queue, priority))

    def _start(self, submission: Submission) -> RunHandle[Any]:
        feed = Feed()
        completion = self._begin(submission, feed)
        completion.wait_until_accepted()
        while isinstance(completion.error, Redirected):
            completion = self._join(submission, feed)
            completion.wait_until_accepted()
        return self._handle(completion, feed)

    def submit(
        self,
        node: R,
        *,
        name: str | None = None,
        on_failure: OnFailure = "keep",
        timeout: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        queue: str | None = None,
        priority: int = 0,
    ) -> RunHandle[R]:
        """Leaves a run to an engine that serves. See `onceflow.submit`."""
        self._check_usable()
        submission = self._prepare(node, name, on_failure, timeout, metadata, queue, priority)
        most = self.settings.max_pending
        if most is not None and self._home.journal.owners(["pending"]).get(None, 0) >= most:
            raise QueueFull(None, most)
        self._refuse_if_queue_is_full(submission.settings.queue)
        outcome = commit(self._home.journal, left_to_others(submission))
        run = submission.run
        match outcome.refusal:
            case Failed(error):
                raise error
            case Taken(row):
                if row.digest != submission.graph.digest:
                    raise NameTaken(str(submission.name), row.id)
                run = row.id
        self._home.engines.ring_all()
        feed = Feed()
        completion = self._hub.expect(run, name, [feed])
        completion.accept()

        def wait_for() -> None:
            try:
                self._attaching.wait_for(run, completion)
            except Exception as error:  # whatever it is, somebody waits
                completion.end(None, _as_ours(error, run))

        return RunHandle(self, completion, feed, lambda: self._aside(wait_for, f"onceflow wait {run}", adopts=False))

    def serve(self, *, capacity: int | None = None) -> None:
        """From now on, takes runs that nobody drives: those that were submitted, and those whose engine is dead. Does
        not wait. At most `capacity` of them at a time (default: 16 for each worker).

            with Engine(journal="postgresql://…") as engine:
                engine.serve()
                threading.Event().wait()
        """
        self._check_usable()
        if capacity is not None:
            settings.check(workers=capacity)
        with self._lock:
            if self._serving is None:
                self._hub.warm_up()
                workers = self.settings.workers or len(os.sched_getaffinity(0))
                capacity = capacity or self.settings.max_running or workers * RUNS_PER_WORKER
                if isinstance(self._home, Home):
                    self._home.introduce(capacity)
                self._serving = Serving(self._home, self._hub, self._attaching, capacity)

    def drain(self, *, grace: float = 30.0) -> None:
        """Takes no more runs, fires none, and lets go of those that it drives, so that others go on with them: tasks
        with an effect have `grace` seconds to end. Returns when nothing runs here any more. Close the engine then."""
        self._check_open()
        self._stop_firing()
        if self._serving is not None:
            self._serving.stop()
        drain(self._hub, grace)

    def list_engines(self) -> list[EngineInfo]:
        """The engines that share this journal. See `onceflow.list_engines`."""
        self._check_open()
        return list_engines(self._home)

    def run_many(
        self,
        nodes: Iterable[R],
        *,
        names: Iterable[str] | None = None,
        on_failure: OnFailure = "keep",
        timeout: float | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        queue: str | None = None,
        priority: int = 0,
        return_exceptions: bool = False,
    ) -> list[R]:
        """Runs many graphs at once, and returns their results in order. See `onceflow.run_many`."""
        given = list(nodes)
        named: list[str | None] = [None] * len(given) if names is None else list(names)
        if len(named) != len(given):
            raise InvalidOption("names", f"there are {len(named)} names for {len(given)} graphs", kind="setting")
        if names is not None and len(set(named)) != len(named):
            raise InvalidOption("names", "each run needs a name of its own", kind="setting")
        told = [metadata] * len(given) if metadata is None or isinstance(metadata, Mapping) else list(metadata)
        if len(told) != len(given):
            raise InvalidOption("metadata", f"there are {len(told)} for {len(given)} graphs", kind="setting")
        self._check_usable()
        self._hub.warm_up()
        begun: list[tuple[Submission | None, Completion] | Exception] = []
        for node, name, about in zip(given, named, told, strict=True):
            self._wait_for_room(begun)
            try:
                submission = self._prepare(node, name, on_failure, timeout, about, queue, priority)
                # Without a name it is certain to be a new run, and need not be remembered: there may be many.
                begun.append((None if name is None else submission, self._begin(submission)))
            except Exception as error:  # what is no graph, or not a safe one, is no concern of the others
                begun.append(error)
        with self._display:
            return self._results(begun, return_exceptions)

    def resume(self, run: str) -> Any:
        """Goes on with a run, by id or name, and returns its result. See `onceflow.resume`."""
        self._check_usable()
        row = self._listing.row(run)
        completion = self._hub.expect(row.id, row.name)
        self._attach(row, completion, in_background=False)
        self.wait(completion)
        return completion.value(self.map_blob)

    def resume_async(self, run: str) -> RunHandle[Any]:
        """Like `resume`, but does not wait."""
        self._check_usable()
        return self._resume_in_background(self._listing.row(run))

    def _recover(self) -> None:
        """Goes on with every interrupted run. Those that only wait are loaded when it is time: there may be many."""
        left: list[RunRow] = []
        for owner in self._home.journal.owners(sorted(ACTIVE)):
            if owner is not None and not self._home.engines.is_alive(owner):
                self._attaching.adopt_parked(owner)
                left += self._home.journal.owned(owner, sorted(ACTIVE), MOST_RUNS)
        self._resume_all([row for row in left if self._listing.status(row) == "interrupted"])

    def resume_all(self) -> list[RunHandle[Any]]:
        """Goes on with every interrupted run. Returns a handle for each, oldest first."""
        self._check_usable()
        return self._resume_all(self._listing.interrupted())

    def send_event(self, run: str, key: str, payload: object = None, *, id: str | None = None) -> None:
        """Sends an event to a run, by id or name. See `onceflow.send_event`."""
        self._check_open()
        self._mail.send([Letter(self._listing.row(run), key, payload, id)])

    def send_events(self, events: Iterable[tuple[str, str, Any]], *, ids: Iterable[str] | None = None) -> None:
        """Sends many events at once. See `onceflow.send_events`."""
        self._check_open()
        sent = list(events)
        named: list[str | None] = [None] * len(sent) if ids is None else list(ids)
        if len(named) != len(sent):
            raise InvalidOption("ids", f"there are {len(named)} ids for {len(sent)} events", kind="setting")
        rows = self._listing.rows({run for run, _, _ in sent})
        pairs = zip(sent, named, strict=True)
        self._mail.send([Letter(rows[run], key, payload, id) for (run, key, payload), id in pairs])

    def _resume_all(self, rows: Sequence[RunRow]) -> list[RunHandle[Any]]:
        feeds = [(row, Feed()) for row in rows]
        begun = [(row, self._hub.expect(row.id, row.name, [feed]), feed) for row, feed in feeds]
        if begun:
            self._hub.warm_up()
            rows_and_completions = [(row, completion) for row, completion, _ in begun]
            self._aside(lambda: self._attach_all(rows_and_completions), "onceflow resume all", adopts=True)
        return [self._handle(completion, feed) for _, completion, feed in begun]

    def rerun(
        self,
        run: str,
        *,
        from_task: str | Sequence[str] = (),
        node: object | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs a run again from a task on, as a new run, and returns its result. See `onceflow.rerun`."""
        handle = self.rerun_async(run, from_task=from_task, node=node, name=name, metadata=metadata)
        handle.wait()
        return handle.result()

    def rerun_async(
        self,
        run: str,
        *,
        from_task: str | Sequence[str] = (),
        node: object | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunHandle[Any]:
        """Like `rerun`, but returns as soon as the new run is durable."""
        self._check_usable()
        tasks = [from_task] if isinstance(from_task, str) else list(from_task)
        made = rerun.create(
            self._listing.row(run), tasks, node, name=name, metadata=metadata, home=self._home, id=self._new_id
        )
        return self.resume_async(made)

    def cancel(self, run: str, *, undo: bool = False, grace: float = GRACE) -> Status:
        """Stops a run, wherever it is driven, and returns how it ended. See `onceflow.cancel`."""
        self._check_usable()
        how = Cancelling(undo, grace)
        return cancel(self._listing.row(run), how, self._reach, self._hub, self._attaching)

    def ask_to_cancel(self, runs: Iterable[str], *, undo: bool = False, grace: float = GRACE) -> None:
        """Begins to cancel runs, all at once, and does not wait. Call it before you cancel several one after another:
        else a run may start a task on the worker that the one before it has left."""
        self._check_usable()
        ask_to_cancel(self._listing.rows(runs).values(), Cancelling(undo, grace), self._reach)

    def pause(self, run: str) -> Status:
        """Lets a run rest, wherever it is driven, and returns how it stands then. See `onceflow.pause`."""
        self._check_usable()
        row = self._listing.row(run)
        status = pause(row, self._reach)
        self._hub.look_for_mail(row.id)  # whoever waits here for a run that was parked is told
        return status

    def ask_to_pause(self, runs: Iterable[str]) -> None:
        """Begins to pause runs, all at once, and does not wait. See `ask_to_cancel`."""
        self._check_usable()
        ask_to_pause(self._listing.rows(runs).values(), self._reach)

    def set_result(self, run: str, task: str, value: object) -> None:
        """Gives the result of a failed task, by id or name of its run. See `onceflow.set_result`."""
        self._check_usable()
        supply(self._listing.row(run), task, value, self._home, self._reading, self._reach)

    def limit(self, run: str, loop: str, spawn_limit: int) -> None:
        """Says how many chunks of a loop may be in flight, wherever the run is driven. See `onceflow.limit`."""
        self._check_usable()
        limit(self._listing.row(run), Limiting(loop, spawn_limit), self._reach)

    def get_output(self, run: str, task: str | None = None) -> Any:
        """The saved output of a run, or of one of its tasks. See `onceflow.get_output`."""
        self._check_open()
        row = self._listing.row(run)
        ending = self._reading.output(row.id, task)
        return outcomes.value_of(ending, row.id, row.name, self.map_blob)

    def delete(self, run: str) -> None:
        """Forgets a run with everything it saved. See `onceflow.delete`."""
        self._check_open()
        row = self._listing.row(run)
        if not self._attaching.can_be_driven(row) or self._attaching.rests_here(row):
            raise RunActive(row.id, "it cannot be deleted before it has ended")
        outcome = commit(self._home.journal, [DeleteRun(row.id, row.epoch)])
        match outcome.refusal:
            case Failed(error):
                raise error
            case Fenced():
                raise RunActive(row.id, "somebody has just resumed it")
        self._home.blobs.delete_run(row.id)
        log = stored_logs.of_run(self._home.path, row.id)
        with failures.told(log):
            stored_logs.delete(log)

    def damaged_runs(self) -> list[DamagedRun]:
        """The runs that lists leave out, because their own rows in the journal are damaged."""
        self._check_open()
        return self._home.journal.damaged_runs()

    # -- the engine itself ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all workers and lets go of the home directory. Runs that are going on are interrupted and can be
        resumed. Closing twice is harmless."""
        with self._lock:
            if not self._closed and self._process == os.getpid():
                self._closed = True
                if self._serving is not None:
                    self._serving.stop()
                self._stop_firing()
                self._hub.close()
                if self._collecting is not None:
                    self._collecting.close()
                self._home.close()
                if self._serving is not None and isinstance(self._home, Home):
                    self._home.call_others()

    @property
    def id(self) -> str:
        """What tells it from other engines that share its journal."""
        return self._home.engine

    @property
    def active(self) -> list[str]:
        """The ids of the runs that this engine drives now."""
        return self._hub.running

    @property
    def broken(self) -> bool:
        """Whether it has met an error after which it starts nothing more, and can only be closed."""
        return self._hub.broken

    def limit_opening(self) -> None:
        """For commands, which end at some time: a run that is to be driven here is refused with `StorageBusy` if other
        programs keep the journal locked for `lock_timeout` seconds. Nothing of it has happened then."""
        self._hub.limit_opening()

    def map_blob(self, reference: str) -> memoryview:
        """For handles."""
        return self._home.blobs.map(reference)

    def wait(self, completion: Completion) -> None:
        """For handles. Ctrl-C stops the run and keeps what it has: what has an effect may finish. A second one does not
        wait. A run that another engine drives goes on; it is only waited for no longer."""
        with self._display:
            self._wait(completion)

    def show_progress(self) -> contextlib.AbstractContextManager[None]:
        """For handles. What is entered by whoever waits without `wait`."""
        return self._display

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._stop_firing()
            for adopter in list(self._adopters):
                adopter.join()
            with self._display:
                self._hub.wait_until_idle()
        self.close()

    def __repr__(self) -> str:
        return f"<onceflow engine at {self.settings.home}{', closed' if self._closed else ''}>"

    # -- how -----------------------------------------------------------------------------------------------------------

    def _wait(self, completion: Completion) -> None:
        try:
            completion.wait()
        except KeyboardInterrupt:
            if self._reach.is_driven_elsewhere(completion.run):  # nothing of it runs here
                raise
            reason = RunInterrupted(completion.run, "it was stopped from the keyboard")
            self._hub.drain(completion.run, reason)
            logger.warning(
                "stopping run %s: tasks with an effect may finish; press Ctrl-C again to stop them at once",
                completion.name or completion.run,
            )
            try:
                completion.wait()
            finally:
                self._hub.interrupt(completion.run, reason)
                completion.wait()
            raise

    def _wait_for(self, run: str, completion: Completion) -> None:
        """Returns when the run has come to rest, whoever drives it."""
        self._attaching.wait_for(run, completion)

    def _wait_for_room(self, begun: Sequence[tuple[Submission | None, Completion] | Exception]) -> None:
        """Before another one is submitted: what only waits takes memory, and the garbage collector's time."""
        if len(begun) >= MOST_OPENING:
            earlier = begun[-MOST_OPENING]
            if not isinstance(earlier, Exception):
                earlier[1].wait_until_accepted()
        self._hub.wait_for_room()

    def _result(self, submission: Submission | None, completion: Completion) -> Any:
        self.wait(completion)
        while submission is not None and isinstance(completion.error, Redirected):
            completion = self._join(submission)
            self.wait(completion)
        return completion.value(self.map_blob)

    def _results(
        self, begun: list[tuple[Submission | None, Completion] | Exception], return_exceptions: bool
    ) -> list[Any]:
        results: list[Any] = []
        failure: Exception | None = None
        for one in begun:
            try:
                if isinstance(one, Exception):
                    raise one
                results.append(self._result(*one))
            except Exception as error:
                failure = failure or error
                results.append(error)
        if failure is not None and not return_exceptions:
            raise failure
        return results

    def _resume_in_background(self, row: RunRow) -> RunHandle[Any]:
        feed = Feed()
        completion = self._hub.expect(row.id, row.name, [feed])
        self._attach(row, completion, in_background=True)
        return self._handle(completion, feed)

    def _prepare(
        self,
        node: object,
        name: str | None,
        on_failure: OnFailure,
        timeout: float | None,
        metadata: Mapping[str, Any] | None,
        queue: str | None = None,
        priority: int = 0,
    ) -> Submission:
        with sealed_bytes.using(self._home.path):
            return prepare(
                node,
                name=name,
                on_failure=on_failure,
                timeout=timeout,
                metadata=metadata,
                home=self._home,
                id=self._new_id,
                queue=queue,
                priority=priority,
            )

    def _new_id(self) -> str:
        return new_id()

    def _begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        """Hands a new run over, unless its name is known to be taken."""
        completion = self._hub.expect(submission.run, submission.name, () if feed is None else (feed,))
        if submission.name is not None and self._home.journal.find_name(submission.name) is not None:
            completion.end(None, Redirected())
        else:
            self._refuse_if_full(submission)
            self._hub.submit(submission, completion)
        return completion

    def _refuse_if_full(self, submission: Submission) -> None:
        """Raises `QueueFull` if too many runs wait already."""
        most = self.settings.max_pending
        if most is not None and self._hub.waiting_runs() >= most:
            raise QueueFull(None, most)
        self._refuse_if_queue_is_full(submission.settings.queue)

    def _refuse_if_queue_is_full(self, queue: str | None) -> None:
        row = None if queue is None else self._home.journal.get_standing("queue", queue)
        limit = None if row is None else defined(row).limits.max_pending
        if queue is None or row is None or limit is None:
            return
        waiting = self._hub.waiting_runs(queue) + waiting_elsewhere(row, self._home)
        if waiting >= limit or waiting + count_submitted(self._home, queue, limit - waiting) >= limit:
            raise QueueFull(queue, limit)

    def _join(self, submission: Submission, feed: Feed | None = None) -> Completion:
        """The run that has the name already. Raises `NameTaken` if that is another graph's."""
        assert submission.name is not None
        row = self._home.journal.find_name(submission.name)
        if row is None:  # it was deleted meanwhile
            return self._begin(submission, feed)
        if row.digest != submission.graph.digest:
            raise NameTaken(submission.name, row.id)
        completion = self._hub.expect(row.id, row.name, () if feed is None else (feed,))
        completion.accept()
        self._attach(row, completion, submission, in_background=feed is not None)
        return completion

    def _attach(
        self, row: RunRow, completion: Completion, again: Submission | None = None, *, in_background: bool
    ) -> None:
        self._hub.warm_up()
        if not in_background:
            self._attaching.attach(row.id, completion, again)
            return

        def attach() -> None:
            try:
                self._attaching.attach(row.id, completion, again)
            except Exception as error:  # whatever it is, somebody waits
                completion.end(None, _as_ours(error, row.id))

        self._aside(attach, f"onceflow attach {row.id}", adopts=self._attaching.can_be_driven(row))

    def _attach_all(self, begun: list[tuple[RunRow, Completion]]) -> None:
        """One after the other, which takes little time each; whom another engine drives is waited for elsewhere."""
        for row, completion in begun:
            try:
                now = self._home.journal.get_run(row.id)
                waits = now is not None and not self._attaching.can_be_driven(now)
                self._attach(row, completion, in_background=waits)
            except Exception as error:
                completion.end(None, _as_ours(error, row.id))

    def _aside(self, work: Callable[[], None], name: str, *, adopts: bool) -> None:
        """Have something done while the caller goes on. `adopts`: it hands over runs that are to be driven here."""

        def do() -> None:
            try:
                work()
            finally:
                self._adopters.discard(thread)

        thread = threading.Thread(target=do, name=name, daemon=True)
        if adopts:
            self._adopters.add(thread)
        thread.start()

    def _handle(self, completion: Completion, feed: Feed) -> RunHandle[Any]:
        return RunHandle(self, completion, feed)

    # -- schedules -----------------------------------------------------------------------------------------------------

    def _manage(self) -> Manager:
        self._check_open()
        return self._schedules

    def _start_missing(self, found: RunRow | Submission) -> RunHandle[Any]:
        self._check_usable()
        if isinstance(found, RunRow):
            return self._resume_in_background(found)
        return self._start(found)

    def _queue_place(self) -> Place:
        self._check_open()
        return self._home

    def _queues_changed(self) -> None:
        self._home.engines.ring_all()
        self._hub.look_at_queues()

    def _schedules_changed(self) -> None:
        self._poke_clockwork()
        self._home.engines.ring_all()

    def _poke_clockwork(self) -> None:
        """There may be new schedules."""
        if self._clockwork is not None:
            self._clockwork.poke()

    def _stop_firing(self) -> None:
        if self._clockwork is not None:
            self._clockwork.stop()

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise EngineClosed("the engine belongs to the process that this one was forked from; open one of your own")
        if self._closed:
            raise EngineClosed(f"the engine at {self.settings.home} was closed")

    def _check_usable(self) -> None:
        """Whether runs may be started here."""
        self._check_open()
        refuse_inside_task()


def _as_ours(error: Exception, run: str) -> OnceflowError:
    if isinstance(error, OnceflowError):
        return error
    ours = RunInterrupted(run, f"{type(error).__name__}: {error}")
    ours.__cause__ = error
    return ours


def refuse_inside_task() -> None:
    context = running.get()
    if context is not None:
        raise InsideTask(context["task"], is_fiber=is_in_fiber())
