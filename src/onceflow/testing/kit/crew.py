"""The workers of a memory engine: tasks are called in this process, one at a time.

What a task is given and returns is pickled, as on its way to a worker and back: what a task changes in its arguments is
not visible to others, and what cannot be pickled fails as it does there. Only the functions themselves are not sent: a
task sees the modules of the test, with all that the test has put in place of something.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from onceflow.authoring.calls import Call, Undo
from onceflow.authoring.loops.roles import Actor
from onceflow.backends.jobs import give_refs, make_job
from onceflow.backends.local import job_runner, messages
from onceflow.backends.local.messages import ActorIn, Job
from onceflow.backends.local.refs import JobRefs, actors
from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report
from onceflow.core.run import attempt_name
from onceflow.data.objects import HeldRef
from onceflow.data.places import Live, Place
from onceflow.driver.actors import Version
from onceflow.driver.driver import Driver
from onceflow.driver.work import Ahead, GivenRefs, Work
from onceflow.engine.default import use
from onceflow.engine.runtime.live_info import Look, Progress
from onceflow.errors import Stopped, TaskTimedOut, UnpicklableArgument
from onceflow.testing.kit.actors import Cast, KitActors
from onceflow.testing.kit.clock import Clock
from onceflow.testing.kit.faults import Fault, Faults, When
from onceflow.testing.kit.record import Attempt, Outcome, Record
from onceflow.values import context, failures, packed_outputs
from onceflow.values.packed_outputs import Packed
from onceflow.values.put import GivenRef
from onceflow.values.refs import Ref

if TYPE_CHECKING:
    from onceflow.testing.kit.coroutines import Coroutines
    from onceflow.testing.kit.stage import Stage

KILLED = -9
"""The exit status of a worker that is lost."""

_tokens = itertools.count(1)


class Assignment:
    """Something that was started and has not been answered."""

    def __init__(self, driver: Driver, work: Work) -> None:
        self.driver = driver
        self.work = work
        self.token = next(_tokens)
        self.name = work.task
        self.state: Literal["ready", "running", "over"] = "ready"
        self.told = False
        """Whether it has been asked to stop."""
        self.timed_out: float | None = None
        """The seconds it had, if it is stopped because they are over."""
        self.line: int | None = None
        """Where the record has it."""
        self.started: float | None = None
        self.progress: Progress | None = None
        """What it reported last."""


class _Link:
    """What `onceflow.current()` of a task that runs here asks and reports."""

    hosts_fibers = False  # a crash would have to take them; and a stand-in for a task needs none

    def __init__(self) -> None:
        self.running: dict[int, tuple[Stage, Assignment]] = {}

    def progress(self, token: int, done: float, total: float | None, note: str) -> None:
        if token in self.running:
            stage, assignment = self.running[token]
            assignment.progress = Progress(done, total, note)
            stage.progressed(assignment.driver, assignment.work, assignment.progress)

    def is_hurried(self) -> bool:
        return False

    def now(self) -> float:
        stage, _ = self.running[context.job_token.get()]
        return stage.now()

    def put(self, packed: Packed) -> Ref[Any]:
        return GivenRef(packed)

    def variable(self, token: int, name: str) -> bytes | None:
        return self.running[token][1].driver.variables.get(name)

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        token = context.job_token.get()
        stage, assignment = self.running[token]
        if token not in actors:
            actors[token] = KitActors(Job(token, "", assignment.work.node, b""), stage.cast)
        return actors[token].create(kind, args, kwargs)

    def is_told(self, token: int) -> bool:
        return token in self.running and self.running[token][1].told


_link = _Link()


class Crew:
    """Implements `engine.runtime.executor.Crew`."""

    def __init__(self, stage: Stage, clock: Clock, faults: Faults, record: Record) -> None:
        self._stage = stage
        self._clock = clock
        self._faults = faults
        self._record = record
        self._assignments: dict[tuple[Driver, int], Assignment] = {}
        self._coroutines: Coroutines | None = None
        self.ready: list[Assignment] = []
        self.reports: list[tuple[Assignment, Report]] = []
        """What is known here and has not been reported yet."""
        self.current: Assignment | None = None

    # -- for the hub ---------------------------------------------------------------------------------------------------

    def ask(self, driver: Driver, node: str, call: Call) -> bool:
        return True  # what could start runs next, or is stopped before

    def unused(self, driver: Driver, node: str) -> None:
        """No place was kept for it."""

    def why(self, driver: Driver, node: str) -> str:
        return ""

    def start(self, driver: Driver, work: Work) -> None:
        self._stage.names[driver.id, work.node] = work.task
        assignment = Assignment(driver, work)
        self._assignments[driver, work.attempt] = assignment
        self.ready.append(assignment)

    def stop(self, driver: Driver, attempt: int) -> None:
        found = self._assignments.get((driver, attempt))
        if found is not None:
            self._stop(found)

    def withdraw(self, driver: Driver, attempt: int) -> None:
        found = self._assignments.get((driver, attempt))
        if found is not None and found.state == "ready":
            self._stop(found)

    @property
    def backlog(self) -> int:
        return 0  # nothing happens here while a caller submits

    def has_jobs_of(self, run: str) -> bool:
        return any(driver.id == run for driver, _ in self._assignments)

    def forget(self, driver: Driver, then: Callable[[], None]) -> None:
        for assignment in [one for (whose, _), one in self._assignments.items() if whose is driver]:
            self._drop(assignment)
            self._stage.runs.doorman.over(driver, assignment.work.attempt)
        then()

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        """One after the other is quick enough here."""

    def look(self, driver: Driver, attempt: int) -> Look | None:
        found = self._assignments.get((driver, attempt))
        return None if found is None else Look(found.started, found.progress)

    def running(self, driver: Driver) -> list[Work]:
        return [one.work for (whose, _), one in self._assignments.items() if whose is driver and one.state == "running"]

    def turn(self) -> float | None:
        return None

    def statistics(self) -> None:
        return None

    def close(self) -> None:
        if self._coroutines is not None:
            self._coroutines.close()

    def die(self) -> None:
        """Whatever is known here is lost."""
        for assignment in list(self._assignments.values()):
            self._note(assignment, "crashed")
        self._assignments.clear()
        self._stage.cast.die()
        self.ready.clear()
        self.reports.clear()
        self.current = None

    def wait(self, seconds: float) -> bool:
        """The attempt that runs here takes that long. Returns False, perhaps earlier, if it has been asked to stop."""
        running, end = self.current, self._clock.now + seconds
        assert running is not None
        while not running.told and (due := self._clock.next_due) is not None and due <= end:
            self._clock.ring()
        if not running.told:
            self._clock.jump(end)
        return not running.told

    # -- what the stage lets happen ------------------------------------------------------------------------------------

    def report(self, number: int) -> None:
        """Report the outcome of something."""
        assignment, report = self.reports.pop(number)
        self._drop(assignment)
        self._stage.answered(assignment.driver, assignment.work, report)
        self._stage.cast.job_ended(assignment.token)

    def run(self, number: int) -> None:
        """Let something be done."""
        assignment = self.ready.pop(number)
        assignment.state = "running"
        undo = assignment.work.undo
        before: When = "before undo" if undo else "before"
        after: When = "after undo" if undo else "after effect"
        self._reach(assignment, before)
        if assignment.told:
            self._end(assignment, Ended(assignment.token, False))
            return
        if not undo and (forgotten := self._take("forget", before, assignment)):
            # What it was to read is gone before it is called.
            if not assignment.driver.forget(*self._lost_by(forgotten, assignment)):
                forgotten.hit -= 1
            else:
                self._end(assignment, Ended(assignment.token, False))
                return
        self._begin(assignment)
        if self._take("lose", before, assignment):
            self._end(assignment, Died((assignment.token,), 0, KILLED))
            return
        failing = self._take("fail", before, assignment)
        try:
            report = self._call(assignment) if failing is None else self._raise(assignment, failing)
        except KeyboardInterrupt:
            self._end(assignment, Ended(assignment.token, True))
            raise
        self._reach(assignment, after)
        if self._take("lose", after, assignment):
            report = Died((assignment.token,), 0, KILLED)
        elif failing := self._take("fail", after, assignment):
            report = self._raise(assignment, failing)
        self._return(assignment, report, self._take("delay", after, assignment))

    def _return(self, assignment: Assignment, report: Report, late: Fault | None) -> None:
        if assignment.told:
            self._end(assignment, Ended(assignment.token, True))
        elif late is None:
            self._end(assignment, report)
        else:
            self._clock.later(late.data, lambda: self._end(assignment, report))

    def _begin(self, assignment: Assignment) -> None:
        work, now = assignment.work, self._clock.now
        assignment.started = now
        assignment.line = self._record.begin(
            Attempt(
                assignment.driver.id,
                work.node,
                assignment.name,
                attempt_name(work.attempt),
                work.key,
                work.undo,
                now,
                now,
            )
        )
        timeout: float | None = work.call.settings.timeout
        if timeout is not None and not work.undo and work.failure is None:

            def expire() -> None:
                if assignment.state == "running":
                    assignment.timed_out = timeout
                    self._stop(assignment)

            self._clock.later(timeout, expire)

    def _stop(self, assignment: Assignment) -> None:
        """What waits is answered at once; what runs here is notified; what has returned, but takes longer, is cut
        off."""
        assignment.told = True
        if assignment.state == "ready":
            self.ready.remove(assignment)
            self._end(assignment, Ended(assignment.token, False))
        elif assignment.state == "running" and assignment is not self.current:
            self._end(assignment, Ended(assignment.token, True))

    def _end(self, assignment: Assignment, report: Report) -> None:
        if assignment.state == "over":  # cut off before it would have ended
            return
        assignment.state = "over"
        if isinstance(report, Ended) and assignment.timed_out is not None:
            error = TaskTimedOut(assignment.work.node, assignment.timed_out)
            failure = failures.dump(error, "the engine")
            report = Raised(assignment.token, failure, False, 0.0, self._clock.now, 0, here=True)
            self._note(assignment, "timed out")
        else:
            self._note(assignment, _outcome(report), report)
        self.reports.append((assignment, report))

    def _note(self, assignment: Assignment, outcome: Outcome, report: Report | None = None) -> None:
        if assignment.line is not None:
            error = failures.tell(report.failure) if isinstance(report, Raised) else ""
            self._record.end(assignment.line, outcome, self._clock.now, error)

    def _drop(self, assignment: Assignment) -> None:
        self._assignments.pop((assignment.driver, assignment.work.attempt), None)
        if assignment.state == "ready":
            self.ready.remove(assignment)
        self.reports = [one for one in self.reports if one[0] is not assignment]
        assignment.state = "over"

    def _reach(self, assignment: Assignment, when: When) -> None:
        """May end in a crash, or ask the attempt to stop. The attempt is on its way meanwhile."""
        before, self.current = self.current, assignment
        try:
            self._stage.reach_attempt(assignment, when)
        finally:
            self.current = before

    def _lost_by(self, fault: Fault, assignment: Assignment) -> tuple[str, int | None]:
        """The node whose output is lost, and the part of it."""
        task, ref = fault.data
        rows = assignment.driver.run.rows.values()
        for row in rows:
            if task in (row.id, row.node.task) and row.state == "done":
                return row.id, None if ref is None else row.node.parts + ref
        return task, None

    def _take(
        self, kind: Literal["lose", "fail", "delay", "forget"], when: When, assignment: Assignment
    ) -> Fault | None:
        return self._faults.take(kind, when, assignment.work.node, assignment.name) if self._faults.any else None

    # -- calling -------------------------------------------------------------------------------------------------------

    def _call(self, assignment: Assignment) -> Report:
        started = self._clock.now
        job: Job | None = None
        try:
            job = self._job(assignment)
            if job.failure is not None:
                return self._raised(assignment, job, started, failures.load(job.failure))
            refs = JobRefs(job, _Contents(self._stage.cast))
            args, kwargs = job_runner.arguments_of(job, _load, refs)
            result = self._inside(assignment, job, args, kwargs)
            return self._finished(job, started, job_runner.finished(job, started, result, Packed.joined, refs))
        except KeyboardInterrupt:  # the user at the keyboard means the test, not the task
            raise
        except BaseException as error:
            error.__traceback__ = _without_own_frames(error.__traceback__)
            if job is None:
                return Raised(assignment.token, failures.dump(error, "the engine"), True, started, self._clock.now, 0)
            return self._raised(assignment, job, started, error)

    def _finished(self, job: Job, started: float, outcome: messages.Outcome) -> Report:
        if outcome.lost:
            return MetLost(job.token, outcome.lost, started, self._clock.now, 0)
        parts = [_view(part) for part in outcome.parts]
        held = [
            HeldRef(
                ref.holders,
                ref.origin,
                None if ref.content is None else _view(ref.content),
                None if ref.actor is None else self._stage.cast.returned(job.token, ref.actor),
            )
            for ref in outcome.refs
        ]
        return Finished(
            job.token, parts, started, self._clock.now, 0, outcome.graph, outcome.annotations, held, outcome.writes
        )

    def _raise(self, assignment: Assignment, fault: Fault) -> Report:
        return self._raised(assignment, self._job(assignment), self._clock.now, fault.data)

    def _raised(self, assignment: Assignment, job: Job, started: float, error: BaseException) -> Report:
        outcome = job_runner.failed(job, started, error, lambda _: assignment.work.guard)
        if outcome.lost:
            return self._finished(job, started, outcome)
        assert outcome.failure is not None
        now = self._clock.now
        return Raised(job.token, outcome.failure, outcome.permanent, started, now, 0, outcome.answer)

    def _job(self, assignment: Assignment) -> Job:
        work = assignment.work
        try:
            inputs = [self._stage.read(part) for part in work.inputs]
            guard = "" if work.guard is None else "here"
            job = make_job(assignment.token, "", assignment.driver, work, inputs, guard=guard)
            if work.refs is not None:
                contents = [b"" if isinstance(part, Version) else self._stage.read(part) for part in work.refs.contents]
                give_refs(job, work.refs, contents, self._give_actors(assignment.token, work.refs))
            return job
        except Exception as error:
            raise UnpicklableArgument(work.node, "list", f"{type(error).__name__}: {error}") from error

    def _give_actors(self, token: int, given: GivenRefs) -> dict[int, ActorIn]:
        found: dict[int, ActorIn] = {}
        for place, how in given.actors.items():
            version = given.contents[place]
            assert isinstance(version, Version)

            def content(version: Version = version) -> bytes:
                assert version.snapshot is not None
                return self._stage.read(version.snapshot)

            instance = self._stage.cast.use(token, version, content)
            self._stage.cast.note(token, instance)
            found[place] = ActorIn(instance.id, how == "take")
        return found

    def _inside(self, assignment: Assignment, job: Job, args: Any, kwargs: Any) -> Any:
        """Calls the function as an attempt: `current()` describes it, and waiting takes virtual time."""
        context.connect(_link)
        _link.running[job.token] = (self._stage, assignment)
        here, token = context.running.set(job.context), context.job_token.set(job.token)
        before, self.current = self.current, assignment
        try:
            with use(self._stage.owner):  # a task that looks at runs finds them
                result = self._function(assignment)(*args, **kwargs)
                return self._await(result) if inspect.iscoroutine(result) else result
        finally:
            self.current = before
            context.job_token.reset(token)
            context.running.reset(here)
            del _link.running[job.token]

    def _function(self, assignment: Assignment) -> Any:
        call: Call = assignment.work.call
        replaced = self._faults.stand_in(assignment.work.node, assignment.name)
        if replaced is not None:
            stand_in = replaced.rollback if assignment.work.undo else replaced.function
            if stand_in is not None:
                replaced.called = True
                return Undo(call.task.options(rollback=stand_in)) if assignment.work.undo else stand_in
        function: Any = call.function
        if isinstance(function, Actor) and function.role.kind in ("chunk", "item", "fold"):
            replaced = self._faults.stand_in(
                assignment.work.node, function.task.name
            )  # a part of a loop calls the task
            if replaced is not None and replaced.function is not None:
                replaced.called = True
                return function.calling(replaced.function)
        return call.undo if assignment.work.undo else call.function

    def _await(self, awaitable: Any) -> Any:
        if self._coroutines is None:
            from onceflow.testing.kit.coroutines import Coroutines  # asyncio is large, and often not needed

            self._coroutines = Coroutines(self._clock, self.wait)
        return self._coroutines.run(awaitable)


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """From where user code begins, which is all that a worker's traceback shows."""
    found = traceback
    while found is not None and found.tb_frame.f_globals.get("__name__", "").startswith(__package__):
        found = found.tb_next
    return found or traceback


def sleep_in_task(crew: Crew, seconds: float) -> None:
    """Raises `Stopped` if the attempt is asked to stop meanwhile."""
    if not crew.wait(seconds):
        raise Stopped


def _view(part: bytes | Place | Live) -> bytes:
    assert isinstance(part, bytes)  # nothing is shared here
    return part


def _load(part: bytes | Place | Live, refs: Sequence[Any] = ()) -> Any:
    return packed_outputs.unpack(_view(part), refs)


class _Contents:
    """Implements `refs.Contents`."""

    load = staticmethod(_load)
    view = peek = staticmethod(_view)

    def __init__(self, cast: Cast) -> None:
        self._cast = cast

    def open_actors(self, job: Job) -> KitActors:
        return KitActors(job, self._cast)


def _outcome(report: Report) -> Outcome:
    match report:
        case Finished():
            return "finished"
        case Raised():
            return "raised"
        case Died() | MetLost():
            return "lost"
        case Ended():
            return "stopped"
