"""Async tasks in virtual time: `asyncio.sleep` and the timeouts of asyncio take no real time.

The event loop's own selector lets time jump, instead of waiting, as long as there is nothing to wait for but time. A
coroutine that waits for something real (a socket, a thread, a subprocess) is given real time for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from onceflow.testing.kit.clock import Clock

RESOLUTION = 1e-6
"""Seconds."""


class Coroutines:
    """Runs coroutines to their end, one at a time. `wait` lets virtual time pass, and returns False if the attempt has
    been asked to stop."""

    def __init__(self, clock: Clock, wait: Callable[[float], bool]) -> None:
        self._clock = clock
        self._wait = wait
        self._loop: _Loop | None = None

    def run(self, awaitable: Awaitable[Any]) -> Any:
        if asyncio._get_running_loop() is None:
            return self._run(awaitable)
        # The test is itself a coroutine. A thread has no loop running, and can run another one.
        outcome: list[Any] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(self._run(awaitable))
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="onceflow async task")
        thread.start()
        thread.join()
        if raised:
            raise raised[0]
        return outcome[0]

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _run(self, awaitable: Awaitable[Any]) -> Any:
        if self._loop is None:
            self._loop = _Loop(self._clock)
        task = self._loop.create_task(_awaited(awaitable))

        def wait(seconds: float) -> None:
            if not self._wait(seconds):
                task.cancel()

        self._loop.jumping.wait = wait
        return self._loop.run_until_complete(task)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        self.jumping = _Jumping()
        self._virtual = clock
        self._began = clock.now
        super().__init__(self.jumping)
        # What is due now counts as due, however the floats of a large clock are rounded.
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        return self._virtual.now - self._began

    def run_in_executor(  # type: ignore[override]  # the types of the arguments are not ours to tell
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.jumping.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, future: asyncio.Future[Any]) -> None:
        self.jumping.threads -= 1


class _Jumping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.wait: Callable[[float], None] = lambda seconds: None
        self.threads = 0
        """Calls that go on in other threads."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One descriptor is the loop's own.
        is_real = timeout is None or self.threads > 0 or len(self.get_map()) > 1
        ready = super().select(timeout if is_real else 0)
        if not ready and timeout:
            self.wait(timeout)
        return ready
