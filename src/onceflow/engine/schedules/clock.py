"""Fires the schedules that are due.

`Keeper.look` does everything that is to be done now, and returns when to look again. It remembers nothing that matters:
each look begins with the rows in the journal, so it does not matter which engine looked before, or died while it did.

It also goes on with runs of schedules whose engine is gone. No caller waits for those, so nothing else would.

`Clockwork` is the thread in which an engine looks. User code runs in it (modules are imported, graphs are built), so it
is not that of the loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from onceflow.engine.handles import Redirected
from onceflow.engine.schedules import firing, targets
from onceflow.engine.schedules.definitions import definition_of, encode, state_of
from onceflow.engine.schedules.rules import iso
from onceflow.engine.statuses import AT_REST
from onceflow.errors import OnceflowError, StorageError
from onceflow.storage import journal
from onceflow.storage.journal import Failed, WriteSchedule
from onceflow.values.metadata import decode as decode_metadata

if TYPE_CHECKING:
    from onceflow.engine.handles import Completion, Feed
    from onceflow.engine.schedules.definitions import Definition, State
    from onceflow.engine.submission import Submission
    from onceflow.storage.journal import Journal, RunRow, StandingRow

ROUND = 10.0
"""Seconds between two looks at the most: clocks may jump, engines die, and rings of the bell get lost."""

BUSY = 1.0
"""Seconds until it is looked again whether a run has ended for which others wait."""

RETRY = 60.0
"""Seconds until it is tried again to fire what could not be fired."""

logger = logging.getLogger(__name__)


class Runs(Protocol):
    """What an engine can do with runs."""

    def prepare(self, node: object, *, name: str, definition: Definition, metadata: dict[str, Any]) -> Submission:
        """Raises whatever says that this is no graph."""

    def begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        """Drive a new run."""

    def can_be_driven(self, row: RunRow) -> bool:
        """Whether no engine drives it."""

    def go_on(self, row: RunRow) -> None:
        """Drive it, in the background."""

    def now(self) -> float: ...


class Keeper:
    """`poke` is called when it should look before it said it would."""

    def __init__(self, journal: Journal, runs: Runs, poke: Callable[[], None]) -> None:
        self._journal = journal
        self._runs = runs
        self._poke = poke
        self._troubled: dict[str, tuple[int, float]] = {}
        """Schedule → the version that could not be fired here, and when to try again."""

    def look(self) -> float | None:
        """Does what is due. Returns the seconds until there is something to do, as far as that is known."""
        waits = [self._look_at(row) for row in self._journal.list_standing("schedule")]
        return min([wait for wait in waits if wait is not None], default=None)

    def _look_at(self, row: StandingRow) -> float | None:
        while True:
            now = self._runs.now()
            state = state_of(row)
            open = self._going_on(state)
            if row.due is None or row.due > now:
                return None if row.due is None else row.due - now
            version, again = self._troubled.get(row.id, (0, 0.0))
            if version == row.version and again > now:
                return again - now
            definition = definition_of(row)
            step = firing.decide(definition, state, now, open)
            if step is None:
                return BUSY
            if step.fire is None:
                self._write(row, definition, step.state)
            elif not self._fire(row, definition, state, step.state, step.fire):
                return RETRY
            following = self._journal.get_standing("schedule", row.id)
            if following is None:
                return None
            row = following

    def _going_on(self, state: State) -> tuple[str, ...]:
        """Its runs that have not ended."""
        rows = [self._journal.get_run(run) for run in state.open]
        going_on = [row for row in rows if row is not None and row.status not in AT_REST]
        for row in going_on:
            if self._runs.can_be_driven(row):
                logger.info("run %s of a schedule is left alone, and goes on here", row.name)
                self._runs.go_on(row)
        return tuple([row.id for row in going_on])

    def _fire(self, row: StandingRow, definition: Definition, before: State, after: State, instant: float) -> bool:
        """Whether it was fired, here or elsewhere. False if it cannot be fired here."""
        try:
            submission = prepare(self._runs, row.id, definition, instant)
        except Exception as error:  # the user's code: not there, or not willing
            self._note_problem(row, definition, before, error)
            return False
        with_run = replace(after, open=(*after.open, submission.run), last_run=submission.run)
        submission.opening.append(advance(row, definition, with_run))
        completion = self._runs.begin(submission)
        completion.wait_until_accepted()
        if isinstance(completion.error, Redirected):
            now = self._journal.get_standing("schedule", row.id)
            if now is not None and now.version == row.version:  # that instant has its run already
                self._write(row, definition, replace(after, fired=before.fired))
        elif completion.error is not None:
            raise completion.error
        elif definition.overlap == "queue":
            completion.when_done(self._poke)
        return True

    def _write(self, row: StandingRow, definition: Definition, state: State) -> None:
        """If another engine was quicker, it is looked at again anyway."""
        refusal = journal.commit(self._journal, [advance(row, definition, state)], limited=False).refusal
        if isinstance(refusal, Failed):
            raise refusal.error

    def _note_problem(self, row: StandingRow, definition: Definition, state: State, error: Exception) -> None:
        """For users who look at the schedule. Another engine may do better."""
        told = str(error) if isinstance(error, OnceflowError) else f"{type(error).__name__}: {error}"
        logger.error("schedule %s cannot be fired here: %s", row.id, told)
        version = row.version
        if state.problem != told:
            self._write(row, definition, replace(state, problem=told))
            version += 1
        self._troubled[row.id] = (version, self._runs.now() + RETRY)


def name_of(schedule: str, instant: float) -> str:
    """Of the run of an instant: there can be only one."""
    return f"{schedule}@{iso(instant)}"


def prepare(runs: Runs, schedule: str, definition: Definition, instant: float) -> Submission:
    metadata = decode_metadata(definition.metadata) | {"schedule": schedule, "scheduled": iso(instant)}
    node = targets.bind(definition, instant)
    return runs.prepare(node, name=name_of(schedule, instant), definition=definition, metadata=metadata)


def advance(row: StandingRow, definition: Definition, state: State) -> WriteSchedule:
    return WriteSchedule(row.id, row.version, encode(state), firing.due(definition, state))


class Winding(Protocol):
    """What makes an engine look."""

    def poke(self) -> None:
        """Look now. From any thread."""

    def stop(self) -> None:
        """Fire nothing more, and wait for that."""


class Clockwork:
    """A thread that looks, from `start` to `stop`."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self._keeper = Keeper(journal, runs, self.poke)
        self._news = threading.Condition()
        self._poked = False
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="onceflow schedules", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poke(self) -> None:
        """Look now. From any thread."""
        with self._news:
            self._poked = True
            self._news.notify_all()

    def stop(self) -> None:
        """Fire nothing more, and wait for that."""
        with self._news:
            self._stopping = True
            self._news.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self) -> None:
        while not self._stopping:
            wait = self._look()
            with self._news:
                if not (self._poked or self._stopping):
                    self._news.wait(min(wait, ROUND))
                self._poked = False

    def _look(self) -> float:
        try:
            wait = self._keeper.look()
        except (OnceflowError, msgspec.DecodeError) as error:
            if not self._stopping:
                logger.error("schedules cannot be looked at: %s", error)
            return RETRY if isinstance(error, StorageError) else ROUND
        except Exception:
            logger.exception("schedules cannot be looked at")
            return ROUND
        return ROUND if wait is None else max(0.0, wait)
