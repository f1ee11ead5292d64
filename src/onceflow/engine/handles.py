"""Handles: what callers that wait for a run hold."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import msgspec

from onceflow.driver.endings import Ending
from onceflow.engine import outcomes
from onceflow.engine.runtime.live_info import Progress
from onceflow.errors import OnceflowError

if TYPE_CHECKING:
    import asyncio

    from onceflow.engine.engine import Engine
    from onceflow.engine.statuses import Status

R = TypeVar("R", covariant=True)

Kind = Literal[
    "started",
    "progress",
    "finished",
    "failed",
    "lost",
    "undoing",
    "undone",
    "undo failed",
    "status",
    "missed",
    "unheard",
]

MOST_EVENTS = 10_000
"""Events that are kept for a listener that has not read them yet. Of progress events half as many:
they are of passing interest, and must not take the place of others."""


class Event(msgspec.Struct, frozen=True):
    """An event of a run. `failed`: it raised `detail`; `lost`: the worker died; `status`: the run's
    status changed to `detail`; `missed`: so many events (`detail`) were too many to be kept; `unheard`: another engine
    drives the run and cannot be asked for its events, because of `detail`."""

    kind: Kind
    task: str = ""
    """Its id in the graph; empty if the event is about the whole run."""
    attempt: str = ""
    detail: str = ""
    time: float = 0.0
    """Seconds since 1970."""
    progress: Progress | None = None
    """Of an event of that kind."""


class Listening(Protocol):
    """A listener that is notified of the events of a run, in the loop's thread."""

    def tell(self, event: Event) -> None: ...


class Feed:
    """The events of a run on their way to an iterating caller. Thread-safe."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._missed = 0
        self._closed = False
        self._wakers: list[Callable[[], None]] = []
        """To be called, once, when there is news."""

    def tell(self, event: Event) -> None:
        with self._news:
            if event.kind == "progress" and len(self._events) >= MOST_EVENTS // 2:
                return
            if len(self._events) == MOST_EVENTS:
                self._missed += 1
            self._events.append(event)
            self._wake()

    def close(self) -> None:
        """The run has ended."""
        with self._news:
            self._closed = True
            self._wake()

    @property
    def ready(self) -> bool:
        """Whether `next` returns at once."""
        return bool(self._events) or self._missed > 0 or self._closed

    def next(self) -> Event | None:
        """The next event that has not been taken; None when the run has ended and there is none left."""
        with self._news:
            while (event := self._take()) is None and not self._closed:
                self._news.wait()
            return event

    def next_or_wake(self, waker: Callable[[], None]) -> tuple[Event | None, bool]:
        """The same without waiting, and whether that is the answer: if not, `waker` is called when there may be one,
        from any thread."""
        with self._news:
            event = self._take()
            known = event is not None or self._closed
            if not known:
                self._wakers.append(waker)
            return event, known

    def _take(self) -> Event | None:
        if self._missed:
            missed, self._missed = self._missed, 0
            return Event("missed", detail=str(missed), time=time.time())
        return self._events.popleft() if self._events else None

    def _wake(self) -> None:
        self._news.notify_all()
        if self._wakers:
            wakers, self._wakers = self._wakers, []
            for waker in wakers:
                waker()


_making_locks = threading.Lock()


def _renew() -> None:
    """In a forked child: the thread that held it is not there."""
    global _making_locks
    _making_locks = threading.Lock()


os.register_at_fork(after_in_child=_renew)


class Latch(msgspec.Struct, gc=False):
    """Opens once. Many short runs need two each, and only some are waited for: it has no lock before that."""

    opened: bool = False
    _lock: threading.Lock | None = None
    """Held until it is open."""

    def open(self) -> None:
        """To be called by one thread at a time; opening it twice is harmless."""
        if not self.opened:
            self.opened = True  # a thread about to wait checks it once more when there is a lock
            if self._lock is not None:
                self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is open, after waiting for that."""
        lock = None if self.opened else self._held_lock()
        if lock is not None:
            if not lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
                return False
            lock.release()
        return True

    def _held_lock(self) -> threading.Lock | None:
        """None if it is open."""
        with _making_locks:
            if self._lock is None:
                lock = threading.Lock()
                lock.acquire()
                self._lock = lock
        return None if self.opened else self._lock


class Redirected(OnceflowError):
    """The run that was to be created or claimed turned out to belong to another engine: look again. Never seen by
    users."""


class Completion:
    """The outcome of one run, for its waiting callers. Thread-safe."""

    __slots__ = (
        "__weakref__",
        "_accepted",
        "_callbacks",
        "_done",
        "_following",
        "_lock",
        "elsewhere",
        "ending",
        "error",
        "feeds",
        "followed",
        "name",
        "run",
    )

    def __init__(self, run: str, name: str | None, feeds: Iterable[Listening] = ()) -> None:
        self.run = run
        self.name = name
        self.ending: Ending | None = None
        self.error: OnceflowError | None = None
        """Why the run's outcome will not become known here."""
        self.feeds = tuple(feeds)
        """Where its events go."""
        self._lock = threading.Lock()
        self._accepted = Latch()
        self._done = Latch()
        self._callbacks: tuple[Callable[[], None], ...] = ()
        self._following: Completion | None = None
        """The completion that it resolves to. If that is parked, it may have no other holder."""
        self.followed = False
        """Whether a caller depends on it without holding it."""
        self.elsewhere: Callable[[Completion], None] | None = None
        """What is done, instead of coming out, if the run turns out to belong to another engine."""

    def accept(self) -> None:
        """The run is durable."""
        if not self._accepted.opened:
            with self._lock:
                self._accepted.open()

    def end(self, ending: Ending | None, error: OnceflowError | None = None) -> None:
        if self.elsewhere is not None and isinstance(error, Redirected):
            self.elsewhere(self)
            return
        with self._lock:
            if self._done.opened:
                return
            self.ending = ending
            self.error = error
            self._accepted.open()
            self._done.open()
            callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback()

    @property
    def accepted(self) -> bool:
        return self._accepted.opened

    @property
    def done(self) -> bool:
        return self._done.opened

    def wait_until_accepted(self) -> None:
        """Returns when the run is durable, or will never be."""
        self._accepted.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it has come out."""
        return self._done.wait(timeout)

    def when_done(self, callback: Callable[[], None], *, follows: bool = True) -> None:
        """Call it when the run has an outcome, from the thread that learns that first. `follows`: a caller depends on
        that without holding this completion."""
        with self._lock:
            if not self._done.opened:
                self._callbacks += (callback,)
                self.followed = self.followed or follows
                return
        callback()

    def value(self, map: outcomes.Map) -> Any:
        """The result of a run that has come out, or raises why there is none."""
        if self.error is not None:
            raise self.error
        assert self.ending is not None
        return outcomes.value_of(self.ending, self.run, self.name, map)

    def follow(self, other: Completion) -> None:
        """Take the outcome of another completion, and pass on its events. If that has never been driven, this goes
        on."""

        def pass_on() -> None:
            if not isinstance(other.error, Redirected):
                self.end(other.ending, other.error)

        self._following = other
        other.listen(*self.feeds)
        other.when_done(pass_on)

    def listen(self, *feeds: Listening) -> None:
        """Notify them of its events from now on."""
        with self._lock:
            self.feeds += feeds

    def ignore(self, feed: Listening) -> None:
        """Stop notifying it."""
        with self._lock:
            self.feeds = tuple(other for other in self.feeds if other is not feed)

    def tell(
        self, kind: Kind, task: str = "", attempt: str = "", detail: str = "", progress: Progress | None = None
    ) -> None:
        """Something happened to the run."""
        if self.feeds:
            self.pass_on(Event(kind, task, attempt, detail, time.time(), progress))

    def pass_on(self, event: Event) -> None:
        for feed in self.feeds:
            feed.tell(event)


class RunHandle(Generic[R]):
    """A run in progress, perhaps in another process.

    Ask for its `result()`, or `await` it. Iterating over it, with `for` or `async for`, gives its events as they
    happen, until it ends; each event is given once, to the first iterator.

        handle = run_async(trip.bind("ann", "Rome"))
        for event in handle:
            print(event.kind, event.task)
        print(handle.result())
    """

    def __init__(
        self,
        engine: Engine,
        completion: Completion,
        feed: Feed | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        """`watch`, if given, begins to look after a run that others drive. It is called when a caller first asks,
        because many runs may be submitted that no caller asks about."""
        self._engine = engine
        self._completion = completion
        self._watch = watch
        self._feed = feed or Feed()
        self._value: tuple[Any] | None = None
        completion.when_done(self._feed.close, follows=False)

    @property
    def id(self) -> str:
        return self._completion.run

    @property
    def name(self) -> str | None:
        return self._completion.name

    @property
    def status(self) -> Status:
        """The current status of the run."""
        return self._engine.status(self.id)

    @property
    def variables(self) -> dict[str, Any]:
        """The task variables that tasks of the run have written, as they are committed now."""
        return self._engine.variables(self.id)

    def done(self) -> bool:
        """Whether the run has come to an end, so that `result()` returns or raises at once."""
        self._look_after()
        return self._completion.done

    def result(self, timeout: float | None = None) -> R:
        """Waits for the run's result; at most `timeout` seconds, then raises `TimeoutError`. The run goes on.

        Raises `TaskFailed` with the task's own exception as its cause, `RunCancelled`, `RunPaused`, or `RunInterrupted`
        if the engine was closed meanwhile.
        """
        self._look_after()
        if not self._completion.done:
            with self._engine.show_progress():
                self._completion.wait(timeout)
        if not self._completion.done:
            raise TimeoutError(f"run {self.name or self.id} has not ended within {timeout} seconds; it goes on")
        if self._value is None:
            self._value = (self._completion.value(self._engine.map_blob),)
        value: R = self._value[0]
        return value

    def wait(self) -> None:
        """Waits until the run has ended, in any way. Ctrl-C means what it means for `run`: it stops the run, which
        keeps what it has; tasks with an effect may finish, and a second Ctrl-C does not wait for them. A run that
        another process drives goes on."""
        self._look_after()
        self._engine.wait(self._completion)

    def cancel(self, *, undo: bool = False) -> Status:
        """Stops the run; see `onceflow.cancel`."""
        return self._engine.cancel(self.id, undo=undo)

    def limit(self, loop: str, spawn_limit: int) -> None:
        """Says how many chunks of a loop may be in flight from now on; see `onceflow.runs.limit`."""
        self._engine.limit(self.id, loop, spawn_limit)

    def _look_after(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch()

    def __await__(self) -> Generator[Any, None, R]:
        self._look_after()
        if not self._completion.done:
            wake, woken = _alarm()
            self._completion.when_done(wake)
            yield from woken
        return self.result()

    def __iter__(self) -> Iterator[Event]:
        self._look_after()
        while (event := self._feed.next()) is not None:
            yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        self._look_after()
        while True:
            wake, woken = _alarm()
            event, known = self._feed.next_or_wake(wake)
            if event is not None:
                yield event
            elif known:
                return
            else:
                await woken

    def __repr__(self) -> str:
        return f"<run {self.name or self.id}, {'ended' if self.done() else 'going on'}>"


def _alarm() -> tuple[Callable[[], None], asyncio.Future[None]]:
    """What any thread may call, and its awaitable form for the running event loop."""
    import asyncio  # a caller that awaits has imported it already

    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def set_result() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and no caller waits any more
            loop.call_soon_threadsafe(set_result)

    return wake, woken
