"""The runtime of an engine with a home directory: a loop in a thread, with everything that belongs to it.

This is where the parts are put together. Each is made with all it needs; those that need each other are given a method
of this one, which is called when both are there.
"""

from __future__ import annotations

import random
import selectors
import time
from collections.abc import Callable, Sequence

from onceflow.backends.local import output_receiver
from onceflow.backends.local.delegated_runs import Driven
from onceflow.core.run import attempt_name
from onceflow.engine.logs.engine_log import Recording
from onceflow.engine.logs.task_output import Printing
from onceflow.engine.peers.server import Answering, Source
from onceflow.engine.run_commands.inbox import Inbox
from onceflow.engine.runtime.driven_runs import DrivenRuns
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.runtime.host import Host
from onceflow.engine.runtime.local_workers import LocalWorkers
from onceflow.engine.runtime.loop import Loop
from onceflow.engine.runtime.news import News
from onceflow.engine.runtime.parked_runs import ParkedRuns
from onceflow.engine.runtime.parking import Waking
from onceflow.engine.runtime.pool_executor import Workers
from onceflow.engine.runtime.turn import Turn
from onceflow.engine.settings import EngineSettings
from onceflow.errors import OnceflowError, StorageError
from onceflow.storage import logs
from onceflow.storage.home import Home

Wake = Callable[[Hub, ParkedRuns, Sequence[Waking]], None]
"""Has runs that were parked driven again. Called in a thread of its own."""


class LocalRuntime:
    """Started on creation. `wake` has parked runs driven again, `on_bell` is called in the loop's thread when another
    engine has said that there may be something in the journal, and `source` makes what answers the questions of
    others."""

    def __init__(
        self,
        home: Home,
        settings: EngineSettings,
        *,
        wake: Wake,
        on_bell: Callable[[], None],
        source: Callable[[Hub], Source],
    ) -> None:
        if settings.backend != "local":
            from onceflow.backends.ray import cluster  # only this needs Ray

            cluster.prepare(settings.backend)
        self._home = home
        self._wake = wake
        self._on_bell = on_bell
        self._news = News()
        self._recording = Recording(
            logs.of_engines(home.path),
            home.engine,
            settings.log_limit,
            events=settings.event_log,
            is_alive=home.engines.is_alive,
        )
        self._loop = loop = Loop(f"onceflow engine {home.path}")
        self._workers = LocalWorkers(home, settings, loop, self._recording)
        self._runs = runs = DrivenRuns(home, loop, time.time, settings.max_running, self._open_workers)
        self._printing: Printing | None = None
        if settings.output != "inherit":
            self._printing = Printing(
                logs.of_runs(home.path),
                settings.log_limit,
                show=settings.output == "show",
                title=runs.title,
                unowned=self._recording.keep,
            )
        self._parked = ParkedRuns(
            home,
            runs,
            self._load_parked,
            self._look_for_commands,
            self._workers.errands,
            self._accept_driven,
            may_delegate=settings.backend == "local" and settings.max_running is None,
        )
        self._inbox = Inbox(runs, self._parked.wake, self._recording)
        self._turn = Turn(runs, self._parked, self._inbox.look, self._recording, self._printing, self._workers)
        host = Host(
            runs,
            self._turn,
            self._workers,
            self._parked,
            worker_deaths=settings.worker_deaths,
            chance=random.Random(),
            news=self._news,
            recording=self._recording,
            printing=self._printing,
        )
        self.hub = Hub(
            runs,
            self._turn,
            host,
            self._parked,
            self._workers,
            self._news,
            self._recording,
            serve=lambda hub: Answering(home.listener, loop, source(hub)),
        )
        loop.selector.register(home.bell, selectors.EVENT_READ, self._heard_bell)
        home.journal.when_failed(self._journal_failed)
        if home.attendance is not None:
            home.attendance.lost = lambda: loop.post(self._lose_lease)
        loop.start(self._turn.take, self._ended)

    def _open_workers(self, runs: DrivenRuns) -> Workers:
        return self._workers.open(runs, self._printing)

    def _load_parked(self, runs: Sequence[Waking]) -> None:
        """In the waker's thread."""
        self._wake(self.hub, self._parked, runs)

    def _look_for_commands(self) -> None:
        self._inbox.look()

    def _heard_bell(self) -> None:
        self._home.bell.hush()
        self._inbox.look()
        self._runs.doorman.gate.look()
        self._news.ring()
        self._parked.look_for_mail()
        self._on_bell()

    def _accept_driven(self, driven: Driven) -> None:
        """What a worker has done with a run is durable."""
        runs, recording, printing = self._runs, self._recording, self._printing
        runs.counts.delegate(len(driven.attempts))
        recording.tell("run delegated", driven.run, detail=driven.status)
        if printing is not None and driven.printed:
            for place, output in driven.printed:
                node, attempt = driven.attempts[place]
                printing.add(output_receiver.printed(output), driven.run, node, attempt_name(attempt))
            printing.end(driven.printed[0][1].token)
            printing.turn()
            printing.ended(driven.run)
        if driven.due is None:
            runs.counts.ended[driven.status] += 1
            recording.tell("run ended", driven.run, detail=driven.status)
            self._news.ring()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _journal_failed(self, error: OnceflowError) -> None:
        """The journal writes nothing more: no run starts anything from now on. What workers have not started they must
        not start while the loop is still busy with something else. Then the engine ends as a whole. Called by the
        thread that commits."""
        self._runs.broken = True
        self._workers.halt()
        self._loop.post(lambda: self._end_with(error))

    def _end_with(self, error: OnceflowError) -> None:
        if self._runs.closed is None:
            self._recording.tell("storage trouble", detail=str(error))
            raise error

    def _lose_lease(self) -> None:
        raise StorageError(
            str(self._home.path), "the journal could not be reached for so long that this engine's lease has ended"
        )

    def _ended(self, failure: BaseException | None) -> None:
        """The loop is over."""
        self._parked.delegating.close()
        self._turn.end(failure)
        self._workers.close_memory()
        if self._printing is not None:
            self._printing.close()
        self._parked.close()
        if failure is not None:
            self._recording.tell("engine failed", detail=f"{type(failure).__name__}: {failure}")
        self._recording.close()
        self._workers.close()
        if self.hub.server is not None:
            self.hub.server.close()
