"""The engine as users see it. Every method may be called from any thread."""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from onceflow.engine import settings
from onceflow.engine.handles import Feed, RunHandle
from onceflow.engine.inspect.api import Inspecting
from onceflow.engine.options import EngineOptions, check_known
from onceflow.engine.queues.management import Queueing
from onceflow.engine.run_commands.api import Commanding
from onceflow.engine.run_graphs import Running, as_ours
from onceflow.engine.schedules.management import EngineRuns, Manager, Scheduling
from onceflow.engine.statuses import ACTIVE
from onceflow.engine.submission import left_to_others
from onceflow.errors import NameTaken, QueueFull
from onceflow.storage.journal import Failed, RunRow, Taken, commit
from onceflow.values import sealed_bytes

if TYPE_CHECKING:
    from onceflow.engine.handles import Completion
    from onceflow.engine.options import RunOptions
    from onceflow.engine.runtime.facade import Hub
    from onceflow.engine.runtime.garbage import Collecting
    from onceflow.engine.schedules.clock import Winding
    from onceflow.engine.serving import Serving
    from onceflow.engine.submission import Submission
    from onceflow.storage.run_stores import Place

R = TypeVar("R")


class Engine(Running, Commanding, Inspecting, Scheduling, Queueing):
    """Runs graphs, and keeps their state in a home directory.

    - `home`: that directory (default: `./.onceflow`). It must belong to this user, and no other user may be able to
      write or exchange it, because its contents are unpickled: else `StorageNotTrusted` is raised.
    - `trusted_owners`: users, by name or id, whose folders are trusted all the same, such as the owner of a volume that
      is mounted into a container; in a home directory that belongs to one of them, the engine makes a folder of its
      own.
    - `blobs`: the URL of a place for large values instead of the home directory (`"s3://bucket/prefix"`, `gs:`, `az:`,
      `file:`).
    - `journal`: the URL of a PostgreSQL database that has the journal instead of a file in the home directory, so that
      engines on several hosts share runs. `lease` is how many seconds those wait before they consider this engine dead.
    - `backend`: where tasks run: `"local"`, on this host; or a Ray cluster: `"host:port"`, `"auto"` for the one that
      runs here, `"ray"` for that which `RAY_ADDRESS` names, else one that is started here; `"ray://host:port"` from a
      machine that is no part of it.
    - `workers`: the number of worker processes (default: one per core). `preload` names modules that workers import
      early.
    - `worker_deaths`: a task fails when so many workers have died in a row while they ran it (10), unless it has that
      option itself.
    - `durability`: the failures that a save survives (`"power"`, or the faster `"process"`).
    - `recover=True`: resumes all interrupted runs at once.
    - `max_running`: the engine drives at most so many runs at a time; others wait, the highest priority first. When
      `max_pending` runs wait, the next one is refused with `QueueFull`.
    - `schedules=False`: the engine fires no schedules, and leaves that to other engines of the home directory.
    - `output`: how the output of tasks is handled: `"show"` stores it and shows it with the task in front, `"store"`
      only stores it, `"inherit"` leaves the terminal to the workers. `log_level` is the lowest level of `logging` that
      is kept (`"INFO"`), `log_limit` the maximum size of a run's log in bytes.
    - `event_log=False`: keeps no log of what the engine does.
    - `progress=True`: the progress of runs is shown on stderr while a caller waits for them: a live display on a
      terminal, a line every few seconds elsewhere.
    - `object_memory`: the memory budget in bytes for large values that wait to be read. `object_patience` is how many
      seconds they may wait there before they are spilled to disk.
    - `lock_timeout`: when other programs keep the journal locked (one that was stopped with Ctrl-Z in the middle of a
      commit), runs wait as long as it takes, and a line in the log names the program; other calls (`send_event`,
      `cancel`, `delete` and so on) raise `StorageBusy` after so many seconds (default: 30).

    Settings that are not given come from `ONCEFLOW_HOME`, `ONCEFLOW_WORKERS` and so on, then from `[tool.onceflow]` in
    pyproject.toml. Any number of engines, in any number of processes, may share a home directory.

    A context manager: at the end of its block it waits for the runs that it drives, then closes. If the block is left
    by an exception it does not wait; runs in progress are then *interrupted* and can be resumed.

        with Engine(home="state", workers=4) as engine:
            print(engine.run(trip.bind("ann", "Rome"), name="trip-17"))
    """

    _clockwork: Winding | None = None
    """What fires schedules, if this engine does."""

    def __init__(self, home: str | os.PathLike[str] | None = None, **options: Unpack[EngineOptions]) -> None:
        # What drives runs is imported when an engine is opened: workers import modules that only name this class.
        from onceflow.engine import proof_of_death
        from onceflow.engine.inspect.live import LiveRuns
        from onceflow.engine.runtime.garbage import Collecting
        from onceflow.engine.runtime.local_runtime import LocalRuntime
        from onceflow.engine.schedules.clock import Clockwork
        from onceflow.engine.waking import Waker
        from onceflow.storage.home import Home

        check_known(options, EngineOptions, "Engine")
        self.settings = settings.find(home=home, **options)
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
        from onceflow.engine.attaching import Attaching
        from onceflow.engine.display.refresh import Displaying
        from onceflow.engine.inspect.journal_view import Reading
        from onceflow.engine.inspect.live import LiveRuns
        from onceflow.engine.inspect.measurements import Past
        from onceflow.engine.inspect.run_info import Listing
        from onceflow.engine.run_commands.reach import Reach
        from onceflow.engine.run_commands.send_event import Mail

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
        """Entered while a caller waits for a run."""
        if self.settings.progress:
            self._display = Displaying(self, lambda: self.active)

    def _recover(self) -> None:
        """Continues every interrupted run. Runs that only wait are loaded when they are due: there may be many."""
        from onceflow.engine.attaching import MOST_RUNS

        left: list[RunRow] = []
        for owner in self._home.journal.owners(sorted(ACTIVE)):
            if owner is not None and not self._home.engines.is_alive(owner):
                self._attaching.adopt_parked(owner)
                left += self._home.journal.owned(owner, sorted(ACTIVE), MOST_RUNS)
        self._resume_all([row for row in left if self._listing.status(row) == "interrupted"])

    def submit(self, node: R, **options: Unpack[RunOptions]) -> RunHandle[R]:
        """Leaves a run to an engine that serves. See `onceflow.runs.submit`."""
        self._check_usable()
        submission = self._prepare(node, options)
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
        completion = self._hub.expect(run, submission.name, [feed])
        completion.accept()

        def wait_for() -> None:
            try:
                self._attaching.wait_for(run, completion)
            except Exception as error:  # whatever it is, a caller waits
                completion.end(None, as_ours(error, run))

        return RunHandle(self, completion, feed, lambda: self._aside(wait_for, f"onceflow wait {run}", adopts=False))

    def serve(self, *, capacity: int | None = None) -> None:
        """From now on, takes runs without a driver: those that were submitted, and those whose engine is dead. Does
        not wait. At most `capacity` of them at a time (default: 16 for each worker).

            with Engine(journal="postgresql://…") as engine:
                engine.serve()
                threading.Event().wait()
        """
        from onceflow.engine.serving import RUNS_PER_WORKER, Serving
        from onceflow.storage.home import Home

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
        """Takes and fires no more runs, and releases those that it drives, so that other engines continue them: tasks
        with an effect have `grace` seconds to end. Returns when nothing runs here any more. Close the engine then."""
        from onceflow.engine.serving import drain

        self._check_open()
        self._stop_firing()
        if self._serving is not None:
            self._serving.stop()
        drain(self._hub, grace)

    def close(self) -> None:
        """Ends all workers and releases the home directory. Runs in progress are interrupted and can be resumed.
        Closing twice is harmless."""
        from onceflow.storage.home import Home

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
        """Distinguishes it from other engines that share its journal."""
        return self._home.engine

    @property
    def active(self) -> list[str]:
        """The ids of the runs that this engine drives now."""
        return self._hub.running

    @property
    def broken(self) -> bool:
        """Whether it has met an error after which it starts nothing more, and can only be closed."""
        return self._hub.broken

    def _handle(self, completion: Completion, feed: Feed) -> RunHandle[Any]:
        return RunHandle(self, completion, feed)

    def limit_opening(self) -> None:
        """For commands, which end at some time: a run that is to be driven here is refused with `StorageBusy` if other
        programs keep the journal locked for `lock_timeout` seconds. Nothing of it has happened then."""
        self._hub.limit_opening()

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

    # -- schedules and queues ------------------------------------------------------------------------------------------

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
