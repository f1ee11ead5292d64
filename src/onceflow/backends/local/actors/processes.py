"""The processes of actors, as the pool sees them: workers that were forked for one job, and get no other.

Such a worker does not count among those of the pool. Its job is given to it when it is there; it is reported as any
other job is, when the worker has died or was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Died, Ended, Report
from onceflow.backends.local.workers import Worker


class Hosts:
    """`spawn` asks for a process that listens at this descriptor, `report` is called with jobs that never began."""

    def __init__(
        self, dispatcher: Dispatcher, spawn: Callable[[str, int], None], report: Callable[[Report], None]
    ) -> None:
        self._dispatcher = dispatcher
        self._spawn = spawn
        self._report = report
        self._waiting: dict[str, Job] = {}
        """Name of the actor → its job, until its process is there."""

    def start(self, name: str, job: Job, listener: int) -> None:
        self._waiting[name] = job
        self._spawn(name, listener)

    def born(self, worker: Worker) -> None:
        job = self._waiting.pop(worker.host, None)
        if job is None:
            worker.kill()  # it was stopped before it began
        elif not self._dispatcher.give_alone(worker, job, time.monotonic()):
            worker.kill()
            self._report(Died((job.token,), worker.pid, None))

    def stop(self, token: int) -> bool:
        """Whether it was a job whose process is not there yet."""
        for name, job in self._waiting.items():
            if job.token == token:
                del self._waiting[name]
                self._report(Ended(token, started=False))
                return True
        return False

    def lose(self) -> None:
        """No process that was asked for will come."""
        waiting, self._waiting = self._waiting, {}
        for job in waiting.values():
            self._report(Died((job.token,), 0, None))
