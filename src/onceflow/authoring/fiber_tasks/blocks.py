"""Blocks: handlers and deadlines for everything that a fiber awaits in them."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from onceflow.authoring.fiber_tasks.state import now, state_here
from onceflow.authoring.handlers import Decision, Exceptions, Handler, break_, handler, ignore, retry, terminate
from onceflow.errors import InvalidOption


class On:
    """`on(...)` between its exceptions and what is to be done about them."""

    __slots__ = ("_errors",)

    def __init__(self, errors: tuple[type[BaseException], ...]) -> None:
        self._errors = errors

    def retry(
        self, count: int, *, delay: float = 1.0, backoff: float = 2.0, max_delay: float = 300.0, jitter: float = 0.1
    ) -> Handler:
        """Try again so often, after delays that are as durable as those of `RetryPolicy`."""
        return self._do(retry(count, delay=delay, backoff=backoff, max_delay=max_delay, jitter=jitter))

    def ignore(self, value: Any = None) -> Handler:
        """Go on with this value."""
        return self._do(ignore(value))

    def break_(self) -> Handler:
        """End the fiber, cleanly: its result is None."""
        return self._do(break_())

    def terminate(self) -> Handler:
        """End the run: it has failed, whatever the fiber would catch."""
        return self._do(terminate())

    def _do(self, decision: Decision) -> Handler:
        return handler(self._errors, decision)


def on(*errors: Exceptions) -> On:
    """What is to become of these exceptions, if tasks raise them that a fiber awaits in a block:

        with on(ConnectionError, TimeoutError).retry(5):
            await charge.call("ann", 100)

    A handler that was made with `handler` does as well: `with flaky:`. The task's own retries and handlers come first,
    then the innermost block. A failure that none of them takes is raised at the await. Blocks hold for other fibers
    that are called in them, too: for what these await, and for what they raise themselves.
    """
    flat = [error for one in errors for error in (one if isinstance(one, (list, tuple, set, frozenset)) else (one,))]
    return On(tuple(flat))


class timeout:
    """Ends what a fiber awaits in this block after so many seconds, across restarts:

        async with timeout(30):
            await charge.call("ann", 100)

    `TimeoutError` is raised at the await, once: what awaits in a `finally` below it goes on as ever. A task that runs
    is stopped and counts as failed, which for one with an effect may mean that it has happened; so is everything in a
    workflow, a loop or another graph, which ends. A fiber that was called in the block gets the same error at its own
    await; one in a graph has half a minute to clean up. Code between two awaits is not interrupted.
    """

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= sys.float_info.max:
            raise InvalidOption("timeout", f"it takes a number of seconds that is not negative, not {seconds!r}")
        self._seconds = seconds

    async def __aenter__(self) -> Self:
        state_here("timeout").deadlines.append(now() + self._seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state_here("timeout").deadlines.pop()

    def __reduce__(self) -> tuple[Any, ...]:
        return timeout, (self._seconds,)
