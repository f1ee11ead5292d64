"""A turn of the engine's loop: the answers of the journal, what drivers have for it, then the workers and the logs.

The answers of the journal are passed to the drivers first, because they let durable commands go; then each driver that
has collected something hands it to the journal; then the pool sends what was started.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onceflow.engine.handles import Latch, Redirected
from onceflow.engine.runtime.driven_runs import interrupted
from onceflow.errors import EngineClosed, NoSuchRun, OnceflowError
from onceflow.storage.journal import Failed, Fenced, Missing, Outcome, Outdated, Request, SetStatus, Taken

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.engine.logs.engine_log import Recording
    from onceflow.engine.logs.task_output import Printing
    from onceflow.engine.runtime.driven_runs import DrivenRuns
    from onceflow.engine.runtime.local_workers import LocalWorkers
    from onceflow.engine.runtime.parked_runs import Parked

PATIENCE = 0.25
"""Seconds for which the journal need not know that a run was woken, if nothing waits for that."""

MOST_WAITING = 256
"""Attempts that wait for a worker or run when a caller that submits many runs has to wait. Until there are half as
many."""

logger = logging.getLogger(__name__)


class Turn:
    """Belongs to the loop's thread. `look_for_commands` carries out what others left in the journal, and `memory`
    has large values in memory, if there can be any."""

    def __init__(
        self,
        runs: DrivenRuns,
        parked: Parked,
        look_for_commands: Callable[[], None],
        recording: Recording,
        printing: Printing | None = None,
        memory: LocalWorkers | None = None,
    ) -> None:
        self._runs = runs
        self._parked = parked
        self._look_for_commands = look_for_commands
        self._recording = recording
        self._printing = printing
        self._memory = memory
        self.waiting_for_room: list[Latch] = []
        self.clear()

    def clear(self) -> None:
        """Know of no run."""
        self.answers: deque[tuple[Driver, Sequence[Request], Outcome]] = deque()
        """Answers of the journal that drivers have not been notified of."""
        self.dirty: dict[Driver, None] = {}
        """Drivers that have something for the journal."""
        self.patient: dict[Driver, None] = {}
        """Those that may have more for it soon."""

    @property
    def is_due(self) -> bool:
        """Whether there is something to do before anything else happens."""
        return bool(self.dirty or self.answers) or self._runs.doorman.gate.busy

    def take(self) -> float | None:
        """In how many seconds the next one has to come, at the latest."""
        printing, keeping = self._printing, None if self._memory is None else self._memory.keeping
        if printing is not None and printing.new:
            printing.turn()  # before the end of a run is visible
        timeouts = [self.drive()]
        if keeping is not None and (keeping.shelf.size or keeping.porter is not None):
            timeouts.append(keeping.turn())
        if printing is not None and printing.new:
            printing.turn()
        if self._recording.new:
            timeouts.append(self._recording.turn())
        return min([timeout for timeout in timeouts if timeout is not None], default=None)

    def drive(self) -> float | None:
        """The part of it that is about runs."""
        runs = self._runs
        gate = runs.doorman.gate
        while self.answers or self.dirty or gate.eager or gate.answers:
            if gate.eager or gate.answers:
                gate.turn()
            while self.answers:
                self._take_answers()
            if self.dirty:
                self.flush()
        timeout = None if runs.workers is None else runs.workers.turn()
        if self.waiting_for_room and (runs.workers is None or runs.workers.backlog <= MOST_WAITING // 2):
            self._let_in()
        return 0 if self.dirty or self.answers or gate.eager or gate.answers else timeout

    def _take_answers(self) -> None:
        """A run that was woken for a command is notified of it before it has a chance to rest again."""
        runs, answers = self._runs, self.answers
        count = len(answers)
        if runs.claimed and any(outcome.ok and driver in runs.claimed for driver, _, outcome in answers):
            self._look_for_commands()
        for _ in range(count):
            driver, requests, outcome = answers.popleft()
            if outcome.ok:
                if driver in runs.claimed and not driver.was_woken:  # until now another engine was notified of events
                    runs.tell(driver, driver.look_for_mail)
                self._accept(driver, requests)
                runs.tell(driver, driver.committed)
            else:
                self._refuse(driver, outcome)

    def _accept(self, driver: Driver, requests: Sequence[Request]) -> None:
        """What a driver wrote is durable."""
        runs, recording = self._runs, self._recording
        completion = runs.completions.get(driver)
        if driver in runs.claimed:
            runs.claimed.discard(driver)
            self._parked.claimed(driver)
            recording.tell("run claimed", driver.id, detail=f"epoch {driver.run.epoch}")
        if completion is not None and not driver.commands.committed:  # its first batch
            completion.accept()
        listens = completion is not None and completion.feeds
        for request in requests if listens or recording.on else ():
            if isinstance(request, SetStatus):
                recording.tell("status", driver.id, detail=request.status)
                if completion is not None and listens:
                    completion.tell("status", detail=request.status)

    def _refuse(self, driver: Driver, outcome: Outcome) -> None:
        match outcome.refusal:
            case Failed(error):
                self._recording.tell("storage trouble", driver.id, detail=str(error))
                driver.interrupt(error)
            case Taken() | Fenced() | Outdated() if driver.is_opening:
                driver.interrupt(Redirected())
            case Missing():
                driver.interrupt(NoSuchRun(driver.id))
            case _:
                driver.interrupt(interrupted(driver.id, "another engine has taken it over"))

    def flush(self) -> None:
        """Drivers hand over what they have for the journal."""
        dirty, self.dirty = self.dirty, {}
        for driver in dirty:
            if driver.was_woken and driver.is_patient:
                if not self.patient:
                    self._runs.loop.later(PATIENCE, self._flush_patient)
                self.patient[driver] = None
            else:
                self.patient.pop(driver, None)
                if not driver.over:
                    self._runs.tell(driver, driver.commands.flush)

    def _flush_patient(self) -> None:
        patient, self.patient = self.patient, {}
        for driver in patient:
            self._runs.tell(driver, driver.flush)

    def wait_for_room(self) -> None:
        """Returns when the workers are not too far behind. From any thread but the loop's."""
        runs = self._runs
        if runs.workers is not None and runs.workers.backlog > MOST_WAITING and runs.closed is None:
            room = Latch()
            runs.loop.post(lambda: room.open() if runs.closed is not None else self.waiting_for_room.append(room))
            room.wait()

    def _let_in(self) -> None:
        rooms, self.waiting_for_room = self.waiting_for_room, []
        for room in rooms:
            room.open()

    def end(self, failure: BaseException | None) -> None:
        """The loop is over."""
        runs = self._runs
        reason = "the engine was closed"
        if failure is not None:
            reason = f"the engine failed: {type(failure).__name__}: {failure}"
            logger.error(reason, exc_info=None if isinstance(failure, OnceflowError) else failure)
            runs.broken = True
        if runs.closed is None or failure is not None:
            runs.closed = EngineClosed(reason)
            runs.closed.__cause__ = failure
            if isinstance(failure, OnceflowError):  # it says best what to do
                runs.closed = failure
        if failure is None:
            self.flush()
        self._let_in()
        runs.interrupt_all(
            lambda driver: failure if isinstance(failure, OnceflowError) else interrupted(driver.id, reason, failure)
        )
        if runs.workers is not None:
            runs.workers.close()
