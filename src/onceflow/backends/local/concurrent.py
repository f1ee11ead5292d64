"""Jobs that share a worker: async ones on an event loop in a thread of its own, and those that ask for threads.

They start at once; how many a worker gets is the pool's business. Neither kind waits for the worker's main thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from onceflow.backends.local.job_runner import (
    Functions,
    arguments_of,
    failed,
    finished,
    function_of,
    without_input,
)
from onceflow.backends.local.messages import Job, Outcome
from onceflow.backends.local.objects import Objects
from onceflow.backends.local.refs import JobRefs
from onceflow.backends.local.stop_injection import OtherThreads, stopped
from onceflow.data.places import Missing
from onceflow.values.context import job_token, running

if TYPE_CHECKING:
    import asyncio


class Shared:
    """`end` is called for each job whose user code has ended, then `tell` sends the outcomes; from any thread."""

    def __init__(
        self,
        known: Functions,
        objects: Objects,
        end: Callable[[int], None],
        tell: Callable[[list[Outcome]], None],
    ) -> None:
        self._known = known
        self._objects = objects
        self._end = end
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[Outcome]] = {}
        """Token → task. Only the loop's thread touches it."""
        self._cancelled: set[int] = set()
        """Tokens of those that were asked to stop."""
        self._ended: list[Outcome] = []
        """Outcomes of this turn of the loop, to be sent together."""
        self._threads = OtherThreads(known, objects)
        self._alone: tuple[int, threading.Event] | None = None
        """The token of the job that the lane waits for, and what notifies it that the outcome was sent."""

    def start(self, job: Job) -> None:
        if job.is_async:
            self._running_loop().call_soon_threadsafe(self._start_task, job)
        else:
            self._threads.expect(job.token)
            threading.Thread(target=self._run_in_thread, args=(job,), name=f"onceflow-{job.token}", daemon=True).start()

    def run_alone(self, job: Job, is_told: Callable[[int], bool]) -> None:
        """Runs an async job for the lane, where all others run: user code may depend on which event loop it is in.
        Returns when its outcome was sent. `is_told` says whether a job of the lane has been asked to stop."""
        sent = threading.Event()
        self._alone = job.token, sent
        self.start(job)
        if is_told(job.token):  # before it was there to be cancelled
            self.cancel(job.token)
        sent.wait()
        self._alone = None

    def cancel(self, token: int) -> None:
        """A job that has ended already is left alone: its outcome is being sent."""
        if not self._threads.stop(token) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_task, token)

    def has_told(self, token: int) -> bool:
        """Whether a job has been asked to stop. From any thread."""
        return token in self._cancelled or self._threads.has_told(token)

    def _run_in_thread(self, job: Job) -> None:
        outcome = self._threads.run(job)
        self._end(job.token)
        self._tell([outcome])

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            import asyncio  # large, and most workers never need it

            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="onceflow-loop", daemon=True).start()
        return self._loop

    def _start_task(self, job: Job) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._run(job), name=f"{job.task} {job.token}")
        self._tasks[job.token] = task
        # Not at the end of `_run`: a task that is cancelled at once never comes to its first line.
        task.add_done_callback(lambda done: self._end_task(job.token, done))

    def _cancel_task(self, token: int) -> None:
        task = self._tasks.get(token)
        if task is not None and task.cancel():
            self._cancelled.add(token)

    async def _run(self, job: Job) -> Outcome:
        started = time.time()
        job_token.set(job.token)  # each task of the loop has a context of its own
        try:
            function = function_of(job, self._known)
            refs = JobRefs(job, self._objects)
            args, kwargs = arguments_of(job, self._objects.load, refs)
            running.set(job.context)
            result = await function(*args, **kwargs)
            del args, kwargs
            return finished(job, started, result, self._objects.leave, refs)
        except Missing as missing:
            return without_input(job, missing)
        except BaseException as error:
            if job.token in self._cancelled:
                raise
            return failed(job, started, error, self._known.get)

    def _end_task(self, token: int, task: asyncio.Task[Outcome]) -> None:
        del self._tasks[token]
        self._end(token)
        if not self._ended:
            assert self._loop is not None
            self._loop.call_soon(self._send_ended)
        if token in self._cancelled:
            self._cancelled.discard(token)
            if not task.cancelled():
                task.exception()  # else asyncio complains that it was never retrieved
            self._ended.append(stopped(token))
        else:
            self._ended.append(task.result())

    def _send_ended(self) -> None:
        ended, self._ended = self._ended, []
        self._tell(ended)
        if self._alone is not None and any(outcome.token == self._alone[0] for outcome in ended):
            self._alone[1].set()
