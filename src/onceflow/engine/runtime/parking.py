"""Parking: runs that only wait are kept in the journal alone, and in no engine's memory, until they are due (design
2.11).

Of a parked run the engine remembers its id, when it is due, and the callers that wait for it here, while there are any.
It is loaded again when that moment has come, when an event is sent to it, or when a caller requests something of it.
Loading reads the journal and takes time, so it is done in a thread of its own, many runs at once.
"""

from __future__ import annotations

import heapq
import logging
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onceflow.errors import EngineClosed, OnceflowError, RunInterrupted, StorageError
from onceflow.storage.journal import NEVER

if TYPE_CHECKING:
    from onceflow.engine.handles import Completion
    from onceflow.engine.runtime.loop import Posting

SOON = 1.0
"""Seconds for which a run that waits stays in memory: loading it again would not pay."""

LONGEST = 30.0
"""Seconds after which the clock is looked at again: it may have been set."""

LONGEST_PAUSE = 60.0
"""Seconds between two attempts to load a run that cannot be loaded, at most: the first pause is `SOON`, each is twice
as long as the one before."""

PATIENCE = 10.0
"""Seconds after which a waiter for a run that cannot be loaded gets the error. The engine goes on trying."""

AT_ONCE = 128
"""Runs that are loaded before those are driven that came first."""

logger = logging.getLogger(__name__)


class Waking(NamedTuple):
    run: str
    completion: Completion | None
    """Completion of the callers that wait for it here, if any."""
    here: bool
    """Whether it is to be driven in this process: a caller requests something of it, or it was handed back."""


class Trouble:
    """Why a run that is due cannot be loaded, and since when."""

    __slots__ = ("reason", "since", "tries")

    def __init__(self, since: float) -> None:
        self.since = since
        self.tries = 0
        self.reason = ""


Load = Callable[[Sequence[Waking]], None]
"""Has runs driven again."""

_NOT_AGAIN, _AGAIN, _AGAIN_HERE = range(3)


class Parking:
    """Belongs to the loop's thread. `load` is called in a thread of its own."""

    def __init__(self, loop: Posting, now: Callable[[], float], load: Load) -> None:
        self._loop = loop
        self._now = now
        self._load = load
        self._parked: dict[str, tuple[float, weakref.ref[Completion] | None]] = {}
        self._held: dict[str, Completion] = {}
        """Completions of parked runs on which a caller depends without holding them."""
        self._due: list[tuple[float, str]] = []
        """A heap. Some are stale."""
        self._timer = NEVER
        """When the clock is next looked at."""
        self._woken: dict[str, int] = {}
        """Runs that were woken and are not driven here yet → whether they were to be woken again, and how."""
        self._waking: queue.SimpleQueue[Waking | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._troubled: dict[str, Trouble] = {}
        """Runs that could not be loaded when that was last tried."""
        self._postponed: dict[str, Waking] = {}
        """Those of them that are not being tried again now."""
        self._closed: str | None = None
        """Why no run is woken any more."""

    def __contains__(self, run: str) -> bool:
        return run in self._parked

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, run: str, due: float, completion: Completion | None) -> None:
        waiting = None if completion is None else weakref.ref(completion)
        self._parked[run] = (due, waiting)
        if completion is not None and completion.followed:
            self._held[run] = completion
        if due < NEVER:
            heapq.heappush(self._due, (due, run))
            self._set_timer()
        if again := self._woken.pop(run, _NOT_AGAIN):
            self.wake(run, here=again == _AGAIN_HERE)

    def park_all(self, runs: Sequence[tuple[str, float]]) -> None:
        """Many at once, for which no caller waits."""
        for run, due in runs:
            self._parked[run] = (due, None)
        self._due += [(due, run) for run, due in runs if due < NEVER]
        heapq.heapify(self._due)
        self._set_timer()

    def take(self, run: str) -> Completion | None:
        """It is driven again, or is to be: returns the completion that waits for it."""
        self._woken.pop(run, None)
        _, waiting = self._parked.pop(run, (0.0, None))
        self._held.pop(run, None)
        return None if waiting is None else waiting()

    def wake(self, run: str, *, here: bool = False) -> None:
        """Have it driven again, if it is parked. (If that is under way, perhaps without what is new: then again.)"""
        if run in self._parked:
            if self._thread is None:
                self._thread = threading.Thread(target=self._load_runs, name="onceflow waker", daemon=True)
                self._thread.start()
            self._waking.put(Waking(run, self.take(run), here))
            self._woken[run] = _NOT_AGAIN
        elif run in self._woken:
            self._woken[run] = max(self._woken[run], _AGAIN_HERE if here else _AGAIN)

    def knows(self, run: str) -> bool:
        """Whether it is parked, or was woken and is not driven yet."""
        return run in self._parked or run in self._woken

    def was_woken(self, run: str) -> bool:
        """Whether it is about to be driven again, and no driver does that yet."""
        return run in self._woken

    def load_again(self, run: str, *, here: bool) -> None:
        """One that was woken, and has not been driven."""
        self._waking.put(Waking(run, None, here))

    def forget(self, run: str) -> None:
        """One that was woken is not driven here."""
        self._woken.pop(run, None)

    def close(self, reason: OnceflowError | None) -> None:
        """Callers that wait here are notified that the runs will not be woken any more."""
        self._closed = str(reason)
        self._waking.put(None)
        parked = [Waking(run, self.take(run), here=False) for run in list(self._parked)]
        self._give_up([*parked, *self._postponed.values()], self._closed)

    def _set_timer(self) -> None:
        if self._due and self._due[0][0] < self._timer:
            self._timer = self._due[0][0]
            self._loop.later(min(LONGEST, max(0.0, self._timer - self._now())), self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = NEVER
        now = self._now()
        while self._due and self._due[0][0] <= now:
            due, run = heapq.heappop(self._due)
            if self._parked.get(run, (None, None))[0] == due:
                self.wake(run)
        self._set_timer()

    def _load_runs(self) -> None:
        """In the waker's thread."""
        reason: str | None = None
        batch: list[Waking] = []
        while reason is None:
            found = [self._waking.get()]
            while len(found) < AT_ONCE and not self._waking.empty():
                found.append(self._waking.get())
            batch = [one for one in found if one is not None]
            if len(batch) < len(found):
                reason = self._closed
            else:
                try:
                    self._load(batch)
                except EngineClosed as error:
                    reason = str(error)
                except StorageError as error:
                    self._loop.post(lambda batch=batch, error=error: self.wake_later(batch, error))  # type: ignore[misc]
                else:
                    if self._troubled:
                        self._loop.post(lambda batch=batch: self._loaded(batch))  # type: ignore[misc]
        while not self._waking.empty():
            batch += [one for one in [self._waking.get()] if one is not None]
        self._give_up(batch, reason)

    def wake_later(self, batch: Sequence[Waking], error: StorageError) -> None:
        """Those that were woken and could not be loaded: they are tried again, less and less often. What is new about
        that is logged. A waiter gets the error when it has lasted for some time."""
        if self._closed is not None:
            self._give_up(batch, self._closed)
            return
        now, reason = self._now(), str(error)
        pauses: dict[float, list[str]] = {}
        news = [one.run for one in batch if one.run not in self._troubled or self._troubled[one.run].reason != reason]
        for run, completion, here in batch:
            trouble = self._troubled.setdefault(run, Trouble(now))
            trouble.reason = reason
            pauses.setdefault(min(SOON * 2**trouble.tries, LONGEST_PAUSE), []).append(run)
            trouble.tries = min(trouble.tries + 1, 30)
            if completion is not None and now - trouble.since >= PATIENCE:
                completion.end(None, error)
                completion = None
            self._postponed[run] = Waking(run, completion, here)
        if news:
            what = f"run {news[0]} is" if len(news) == 1 else f"run {news[0]} and {len(news) - 1} others are"
            logger.error("%s due and cannot be loaded, trying again in %g s or later: %s", what, min(pauses), reason)
        for pause, runs in pauses.items():
            self._loop.later(pause, lambda runs=runs: self._wake_postponed(runs))  # type: ignore[misc]

    def _wake_postponed(self, runs: Sequence[str]) -> None:
        for run in runs:
            postponed = self._postponed.pop(run, None)
            if postponed is not None:
                self._waking.put(postponed)

    def _loaded(self, batch: Sequence[Waking]) -> None:
        """These could be loaded, but for those that are postponed again."""
        for one in batch:
            if one.run not in self._postponed and self._troubled.pop(one.run, None) is not None:
                logger.info("run %s can be loaded again", one.run)

    def _give_up(self, batch: Sequence[Waking], reason: str) -> None:
        """End the waits for these runs, with this reason."""
        for run, completion, _ in batch:
            if completion is not None:
                completion.end(None, RunInterrupted(run, reason))
