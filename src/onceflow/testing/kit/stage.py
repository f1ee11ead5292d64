"""The runtime of a memory engine. Nothing happens by itself: a caller that waits for something drives everything, in
its own thread, until it is there.

In each step the drivers hear what is known, and hand over what they have collected; then one thing is chosen that can
happen: the next commit, the report of an attempt that has ended, or the next attempt. In this order by default, so
that each task is saved before the next one starts; with a seed, at random, so that tasks run ahead of saves and
several are under way when the engine dies. What is due goes before all of them. If nothing can happen, time jumps to
what is due next.

A crash is an exception that leaves the step. Everything that an engine has in memory is forgotten; the journal stays
as it was at the last commit.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from onceflow.backends.local.reports import Report
from onceflow.data.objects import Object
from onceflow.driver import measurements
from onceflow.driver.actors import Version
from onceflow.driver.driver import Driver
from onceflow.driver.outputs import Part
from onceflow.driver.work import Work
from onceflow.engine.engine import Engine
from onceflow.engine.handles import Completion, Listening
from onceflow.engine.logs.engine_log import Recording
from onceflow.engine.run_commands.cancel import Cancelling
from onceflow.engine.run_commands.inbox import Inbox, carry_out
from onceflow.engine.runtime.driven_runs import DrivenRuns
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.runtime.host import Host
from onceflow.engine.runtime.internal_jobs import Kept, Replied
from onceflow.engine.runtime.live_info import Progress
from onceflow.engine.runtime.news import News
from onceflow.engine.runtime.turn import Turn
from onceflow.engine.settings import WORKER_DEATHS
from onceflow.errors import OnceflowError, RefLost, StorageFull
from onceflow.storage.blobs import Author
from onceflow.storage.journal import AppendEntries, Claim, CreateRun, Request, RunRow, SetStatus
from onceflow.storage.memory import MemoryHome
from onceflow.testing.kit.actors import Cast
from onceflow.testing.kit.clock import Clock
from onceflow.testing.kit.crew import Assignment, Crew, sleep_in_task
from onceflow.testing.kit.faults import Faults, When
from onceflow.testing.kit.record import Record
from onceflow.values import failures, packed_outputs, variables
from onceflow.values.context import running
from onceflow.values.refs import kept_form
from onceflow.values.variables import Updates


class Death(BaseException):
    """The engine dies. It must not be handled on the way."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(where)


class Driven(Completion):
    """A caller that waits for it lets everything happen."""

    def __init__(self, stage: Stage, run: str, name: str | None, feeds: Iterable[Listening]) -> None:
        super().__init__(run, name, feeds)
        self._stage = stage

    def wait(self, timeout: float | None = None) -> bool:
        self._stage.drive(lambda: self.done, timeout)
        assert self.done or timeout is not None, f"run {self.run} waits for something that never comes"
        return self.done

    def wait_until_accepted(self) -> None:
        self._stage.drive(lambda: self.accepted)


class InPlace:
    """A loop without waiting callers: what is posted is done at once."""

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._stage = stage
        self.later = clock.later

    def post(self, action: Callable[[], object]) -> None:
        with self._stage.alone():
            action()

    def stop(self) -> None:
        with self._stage.alone():
            self._stage.end()


class NothingParked:
    """Implements `engine.runtime.parked_runs.Parked`: runs that wait stay in memory, because there is room."""

    unclaimed: Mapping[Driver, Completion | None] = {}

    def takes(self, due: float) -> bool:
        return False

    def park(self, run: str, due: float, completion: Completion) -> None:
        raise AssertionError("nothing is parked here")

    def adopt(self, rows: Sequence[RunRow]) -> None:
        raise AssertionError("nothing is parked here")

    def wake(self, run: str, *, here: bool = False) -> None: ...

    def stop(self, run: str, reason: OnceflowError) -> None: ...

    def begun(self, driver: Driver, completion: Completion) -> None: ...

    def claimed(self, driver: Driver) -> None: ...

    def ended(self, driver: Driver, *, is_elsewhere: bool) -> None: ...

    def is_parked(self, run: str) -> bool:
        return False

    def is_away(self, run: str) -> bool:
        return False

    def wait_until_back(self) -> bool:
        return False

    def look_for_mail(self) -> None: ...


class StagedHost(Host):
    """Commits happen when the stage lets them."""

    def __init__(self, batches: deque[tuple[Driver, Sequence[Request]]], *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._batches = batches

    def commit(self, driver: Driver, requests: Sequence[Request]) -> None:
        self._batches.append((driver, requests))


class Stage:
    """Implements `engine.runtime.host.Services`, and lets one thing after the other happen, without a thread. It dies
    at the moments whose numbers are in `crashes`."""

    def __init__(
        self,
        home: MemoryHome,
        clock: Clock,
        faults: Faults,
        record: Record,
        *,
        owner: Engine,
        seed: int | None,
        crashes: Iterable[int],
        survive: Callable[[str, list[Completion]], None],
    ) -> None:
        self.owner = owner
        self._kept = home
        self._clock = clock
        self._faults = faults
        self._record = record
        self._survive = survive
        """Called after a crash with where it was, and the runs that were lost."""
        self._chooser = None if seed is None else random.Random(seed)
        self._crashes = frozenset(crashes)
        self.points: list[str] = []
        """The moments that were reached: what had just happened, or was about to. Those at which it can crash."""
        self._soon: deque[Callable[[], None]] = deque()
        self._batches: deque[tuple[Driver, Sequence[Request]]] = deque()
        """What has been handed to the journal and is not committed."""
        self.names: dict[tuple[str, str], str] = {}
        """(run, id of a task in it) → the task's name."""
        self._commits_left: int | None = None
        """Until the disk is full."""
        self._lock = threading.RLock()
        self.cast = Cast()
        """The actors that live."""
        self._crew = Crew(self, clock, faults, record)
        recording = Recording(home.path, home.engine, 0, events=False, is_alive=bool)
        self.runs = DrivenRuns(home, InPlace(self, clock), clock.time, None, lambda runs: self._crew)
        parked = NothingParked()
        self._turn = Turn(self.runs, parked, Inbox(self.runs, parked.wake, recording).look, recording)
        news = News()
        host = StagedHost(
            self._batches,
            self.runs,
            self._turn,
            self,
            parked,
            worker_deaths=WORKER_DEATHS,
            chance=random.Random(seed or 0),
            news=news,
            recording=recording,
        )
        self.hub = Hub(self.runs, self._turn, host, parked, self, news, recording, expect=self._expect)
        home.journal.when_failed(self._journal_failed)
        clock.attach(self)

    def _journal_failed(self, error: OnceflowError) -> None:
        """Interrupts all runs, as every engine does. Unlike others, this one goes on when there is room again."""
        self.runs.broken = True
        self._batches.clear()
        self.runs.interrupt_all(lambda driver: error)

    def _expect(self, run: str, name: str | None, feeds: Iterable[Listening] = ()) -> Completion:
        return Driven(self, run, name, feeds)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One thread at a time. A task belongs to the thread that drives, wherever it runs."""
        if running.get() is not None:
            yield
        else:
            with self._lock:
                yield

    def read(self, part: Part) -> bytes:
        """For the crew: an input."""
        assert not isinstance(part, Object | Version)  # nothing is shared here
        return part if isinstance(part, bytes) else self._kept.blobs.read(part.reference)

    def checkpoint(self, driver: Driver, node: str, live: bytes, then: Kept) -> None:
        try:
            kept: bytes | None = kept_form(live, packed_outputs.dump)
        except RefLost:
            kept = None
        except Exception as error:
            failure = failures.dump(error, f"the save of a ref of {node}")
            self._soon.append(lambda: self.runs.tell(driver, lambda: then(None, failure)))
            return
        self._soon.append(lambda: self.runs.tell(driver, lambda: then(kept, None)))

    def update(self, driver: Driver, updates: Updates, then: Replied) -> None:
        parts = tuple([part.packed for part in variables.apply(msgspec.msgpack.encode(updates))])
        self._soon.append(lambda: self.runs.tell(driver, lambda: then(parts, None)))

    def changed_variables(self, driver: Driver) -> None:
        """A caller that reads them here polls."""

    def save(self, driver: Driver, name: str, value: bytes | Object, then: Callable[[str | None], None]) -> None:
        assert isinstance(value, bytes)
        author = Author(driver.id, driver.run.epoch, self._kept.engine)
        reference = self._kept.blobs.write(author, name, [value])
        self._soon.append(lambda: self.runs.tell(driver, lambda: then(reference)))

    def object_statistics(self) -> None:
        return None

    def blob_statistics(self) -> None:
        return None

    def now(self) -> float:
        return self._clock.now

    # -- reports of the crew -------------------------------------------------------------------------------------------

    def answered(self, driver: Driver, work: Work, report: Report) -> None:
        self.runs.answered(driver, work, report)

    def progressed(self, driver: Driver, work: Work, progress: Progress) -> None:
        self.runs.tell_progress(driver, work, progress)

    # -- what happens --------------------------------------------------------------------------------------------------

    def drive(self, until: Callable[[], bool], seconds: float | None = None) -> None:
        """Let things happen until that is so, or so much time has passed, or nothing more can happen."""
        with self.alone():
            end = None if seconds is None else self._clock.now + seconds
            while not until():
                try:
                    goes_on = self._step(end)
                except Death as death:
                    self.die(death.where, self._survive)
                    continue
                if not goes_on:
                    break

    def wait(self, seconds: float) -> None:
        """Time passes: in a task for that alone, else for all."""
        if running.get() is not None and self._crew.current is not None:
            sleep_in_task(self._crew, seconds)
            return
        with self.alone():
            end = self._clock.now + seconds
            self.drive(lambda: False, seconds)
            self._clock.jump(end)

    def _step(self, end: float | None) -> bool:
        """False if nothing can happen until then."""
        if self._soon or self._turn.is_due:
            while self._soon:
                self._soon.popleft()()
            self._turn.drive()
            return True
        due = self._clock.next_due
        possible = self._possible()
        if possible and (due is None or due > self._clock.now):
            chosen = possible[0] if self._chooser is None else self._chooser.choice(possible)
            chosen()
            return True
        if due is None or (end is not None and due > end):
            return False
        self._clock.ring()
        return True

    def _possible(self) -> list[Callable[[], None]]:
        crew = self._crew
        if self._chooser is None:
            if self._batches:
                return [self._commit_next]
            if crew.reports:
                return [lambda: crew.report(0)]
            return [lambda: crew.run(0)] if crew.ready else []
        possible: list[Callable[[], None]] = [self._commit_next] if self._batches else []
        possible += [lambda number=number: crew.report(number) for number in range(len(crew.reports))]  # type: ignore[misc]
        possible += [lambda number=number: crew.run(number) for number in range(len(crew.ready))]  # type: ignore[misc]
        return possible

    def fill_disk(self, after: int | None) -> None:
        """After so many more commits."""
        self._commits_left = after

    def _commit_next(self) -> None:
        driver, requests = self._batches.popleft()
        if self._commits_left is not None:
            self._commits_left -= 1
            if self._commits_left < 0:
                self._kept.journal.trouble = StorageFull(str(self._kept.path), "the test filled the disk")
        saved = [
            entry.node
            for request in requests
            if isinstance(request, AppendEntries)
            for entry in request.entries
            if entry.kind == "saved"
        ]
        self._reach(f"before the commit of {_told(requests)}", driver.id, "before save", saved)
        self._fail_save(driver.id, saved)
        outcome = self._kept.journal.commit_at_once(requests)
        self._kept.journal.trouble = None if self._commits_left is None else self._kept.journal.trouble
        self._turn.answers.append((driver, requests, outcome))
        self._reach(f"after the commit of {_told(requests)}", driver.id, "after save", saved)

    def _fail_save(self, run: str, nodes: Sequence[str]) -> None:
        """If one of these is not to be saved, the next commit fails, and that one only."""
        for node in dict.fromkeys(nodes) if self._faults.any else ():
            if self._faults.take("unsaved", "before save", node, self.names.get((run, node), node)):
                self._kept.journal.trouble = StorageFull(str(self._kept.path), f"the test lets the save of {node} fail")

    def reach_attempt(self, assignment: Assignment, when: When) -> None:
        """An attempt has come to this moment."""
        node, run = assignment.work.node, assignment.driver.id
        preposition, undo = when.split(" ")[0], "the undo of " if assignment.work.undo else ""
        self._reach(f"{preposition} {undo}{node}", run, when, [node])
        if self._faults.any and (fault := self._faults.take("cancel", when, node, assignment.name)):
            how: Cancelling = fault.data
            carry_out(self.runs, run, how)
            self._clock.jump(self._clock.now)

    def _reach(self, where: str, run: str, when: When, nodes: Sequence[str]) -> None:
        self.points.append(where)
        if len(self.points) in self._crashes:
            raise Death(where)
        if self._faults.any:
            for node in dict.fromkeys(nodes):
                if self._faults.take("crash", when, node, self.names.get((run, node), node)):
                    raise Death(where)

    # -- the end -------------------------------------------------------------------------------------------------------

    def die(self, where: str, survive: Callable[[str, list[Completion]], None]) -> None:
        """Forget everything that is not in the journal."""
        with self.alone():
            lost = [completion for _, completion in self.runs.active.values()]
            self._crew.die()
            self._record.note(f"the engine crashed {where}")
            self._batches.clear()
            self._soon.clear()
            self._clock.forget()
            self.runs.clear()
            self._turn.clear()
            survive(where, lost)

    def end(self) -> None:
        """The engine is closed."""
        self._turn.end(None)
        while self._batches:
            self._kept.journal.commit_at_once(self._batches.popleft()[1])


def _told(requests: Sequence[Request]) -> str:
    parts: list[str] = []
    for request in requests:
        match request:
            case CreateRun():
                parts.append("the new run")
            case Claim():
                parts.append("the claim")
            case AppendEntries(entries=entries):
                parts += [
                    f"{entry.kind} {entry.node}".strip() for entry in entries if entry.kind != measurements.MEASURED
                ]
            case SetStatus(status=status):
                parts.append(f"status {status}")
    return ", ".join(parts)
