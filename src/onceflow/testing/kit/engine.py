"""`MemoryEngine`: an engine for tests, without processes, files, threads and waiting."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, TypeVar

from onceflow.engine.engine import Engine
from onceflow.engine.handles import Completion, Event, Feed, RunHandle
from onceflow.engine.run_commands.cancel import GRACE, Cancelling
from onceflow.engine.settings import EngineSettings
from onceflow.engine.statuses import AT_REST
from onceflow.engine.submission import Submission
from onceflow.errors import OnceflowError, RunInterrupted
from onceflow.storage.journal import RunRow
from onceflow.storage.memory import MemoryHome
from onceflow.testing.kit.alarm import Alarm
from onceflow.testing.kit.clock import START, Clock
from onceflow.testing.kit.faults import AROUND_CALLS, Fault, Faults, Replaced, When
from onceflow.testing.kit.itself import Itself
from onceflow.testing.kit.record import AnyTask, Attempts, Record, name_of
from onceflow.testing.kit.stage import Stage

R = TypeVar("R", covariant=True)

OnCrash = Literal["resume", "raise"]


class Crashed(RunInterrupted):
    """Raised by `run`, `result` and the like of a memory engine that does not go on by itself after a crash. `where` is
    the moment of the crash."""

    def __init__(self, run: str, where: str) -> None:
        self.where = where
        super().__init__(run, f"the engine crashed {where}")


class MemoryEngine(Engine, Itself):
    """An engine for tests: the real core, driver and check, with everything else in memory.

    It has all methods of `Engine`. Tasks are called in this process, in this thread, one at a time, in an order that
    is always the same; with a `seed`, in another one for each seed. What they are given and return is pickled, as on
    its way to a worker. Time is virtual: see `clock`.

    A test says what goes wrong (`crash_at`, `lose_worker`, `fail`, `delay`, `cancel_at`, `fill_disk`, `replace`), runs
    its workflow, and looks at what happened (`ran`, `undone` and the assertions). After a crash the engine goes on from
    the journal, as a program would that is started again; with `on_crash="raise"`, `run` raises `Crashed` instead, and
    the test says how to go on. Tasks are named by themselves, by their name, or by their id in the graph.

        engine = MemoryEngine()
        engine.crash_at(charge, when="after effect")
        assert engine.run(trip.bind("ann", "Rome")) == "booked"
        engine.assert_undone(book_room)
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        on_crash: OnCrash = "resume",
        now: float = START,
        crashes: Iterable[int] = (),
    ) -> None:
        """`now` is when its time begins; `crashes` are numbers of `moments` at which it dies."""
        Itself.__init__(self)
        self.clock = Clock(now)
        """Its time."""
        self._on_crash = on_crash
        self._faults = Faults()
        self._record = Record()
        self._ids = itertools.count(1)
        self._submissions: dict[str, Submission] = {}
        """Run → how it was submitted, with the functions as the test has them."""
        home = MemoryHome(self.clock.time)
        self._memory = home
        self._stage = Stage(
            home,
            self.clock,
            self._faults,
            self._record,
            owner=self,
            seed=seed,
            crashes=crashes,
            survive=self._survive,
        )
        self.settings = EngineSettings(home=home.path, workers=1)
        self._open(home, self._stage.hub, None)
        self._clockwork = self._alarm = Alarm(home.journal, self._runs_of_schedules, self.clock)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def crash_at(self, task: AnyTask, when: When = "after effect", *, nth: int = 1) -> None:
        """The engine dies when this task comes to this moment, for the `nth` time. Everything in its memory is lost.

        `when` is `"before"` its function is called, `"after effect"`: it has returned or raised, and its outcome is
        unknown; `"before save"` and `"after save"`: its output is about to be durable, or just has become so; `"before
        undo"` and `"after undo"`: the same around the function that takes it back.
        """
        told = f"crash_at({name_of(task)!r}, when={when!r}{f', nth={nth}' if nth != 1 else ''})"
        self._faults.add(Fault("crash", name_of(task), when, told, nth))

    def cancel_at(self, task: AnyTask, when: When = "before", *, undo: bool = False, grace: float = GRACE) -> None:
        """The run of this task is cancelled when it comes to this moment; see `onceflow.cancel`."""
        told = f"cancel_at({name_of(task)!r}, when={when!r})"
        fault = Fault("cancel", name_of(task), when, told, data=Cancelling(undo, grace))
        self._faults.add(fault, AROUND_CALLS)

    def lose_worker(self, task: AnyTask, when: When = "after effect", *, times: int = 1) -> None:
        """So many attempts of this task are lost: their worker dies. With `"before"` nothing of the attempt happens,
        with `"after effect"` all of it, but its outcome stays unknown."""
        told = f"lose_worker({name_of(task)!r}, when={when!r})"
        self._faults.add(Fault("lose", name_of(task), when, told, times=times), AROUND_CALLS)

    def lose_output(self, task: AnyTask, *, before: AnyTask, ref: int | None = None, times: int = 1) -> None:
        """What this task returned is gone from memory when another one is about to read it: it was on a host that died.
        What is saved is not lost. With `ref`, only what the n-th ref in it refers to is gone, for all its holders."""
        data = (name_of(task), ref)
        told = f"lose_output({name_of(task)!r}, before={name_of(before)!r}{'' if ref is None else f', ref={ref}'})"
        self._faults.add(Fault("forget", name_of(before), "before", told, times=times, data=data))

    def fail(
        self, task: AnyTask, error: BaseException, *, times: int | None = None, when: When = "before", nth: int = 1
    ) -> None:
        """So many attempts of this task raise this (all of them by default), without being called; or, with `"after
        effect"`, after what they do outside. `"before undo"` is for the function that takes it back."""
        told = f"fail({name_of(task)!r}, {error!r})"
        self._faults.add(Fault("fail", name_of(task), when, told, nth, times, error), AROUND_CALLS)

    def delay(self, task: AnyTask, seconds: float, *, times: int | None = None) -> None:
        """Attempts of this task take that long, in virtual time: they do what they do, and then it takes so long until
        they return. Others may run meanwhile."""
        told = f"delay({name_of(task)!r}, {seconds})"
        self._faults.add(Fault("delay", name_of(task), "after effect", told, times=times, data=seconds))

    def replace(
        self,
        task: AnyTask,
        function: Callable[..., Any] | None = None,
        *,
        rollback: Callable[..., Any] | None = None,
    ) -> None:
        """Call this function in place of the task's, and this one in place of its rollback function. The task keeps its
        options."""
        given = [getattr(stand_in, "__name__", repr(stand_in)) for stand_in in (function, rollback) if stand_in]
        told = f"replace({name_of(task)!r}, {', '.join(given)})"
        self._faults.replace(name_of(task), Replaced(function, rollback, told))

    def fail_save(self, task: AnyTask, *, nth: int = 1) -> None:
        """The output of this task cannot be saved, the `nth` time that is tried: the run is interrupted, and can be
        resumed."""
        told = f"fail_save({name_of(task)!r}{f', nth={nth}' if nth != 1 else ''})"
        self._faults.add(Fault("unsaved", name_of(task), "before save", told, nth))

    def fill_disk(self, after: int = 0) -> None:
        """After so many more commits nothing can be saved any more: runs end with `StorageFull`, until `free_disk`."""
        self._stage.fill_disk(after)

    def free_disk(self) -> None:
        """There is room again: what was interrupted can be resumed."""
        self._stage.fill_disk(None)
        self._memory.journal.trouble = None
        self._stage.runs.broken = False

    def crash(self) -> None:
        """The engine dies now. Runs that are going on are interrupted until they are resumed."""
        self._stage.die("between two steps", self._leave)
        self._alarm.poke()

    # -- what happened -------------------------------------------------------------------------------------------------

    @property
    def ran(self) -> Attempts:
        """The attempts of all tasks of all runs, in the order in which they began."""
        return self._record.attempts(undo=False)

    @property
    def undone(self) -> Attempts:
        """The attempts to take something back, in the order in which they began."""
        return self._record.attempts(undo=True)

    @property
    def moments(self) -> list[str]:
        """The moments so far at which it could have crashed: both sides of each commit, each attempt and each undo."""
        return list(self._stage.points)

    @property
    def story(self) -> str:
        """Everything that happened, crashes too, for users."""
        return self._record.story()

    def assert_ran(self, *tasks: AnyTask, in_order: bool = False, times: int = 0) -> None:
        """These tasks ran; in this order; each so often."""
        __tracebackhide__ = True
        self._record.assert_happened("run", self.ran, tasks, in_order, times)

    def assert_not_ran(self, *tasks: AnyTask) -> None:
        """None of these tasks ran; without tasks, none at all."""
        __tracebackhide__ = True
        self._record.assert_never("run", self.ran, tasks)

    def assert_undone(self, *tasks: AnyTask, in_order: bool = False, times: int = 0) -> None:
        """These tasks were taken back; in this order; each so often."""
        __tracebackhide__ = True
        self._record.assert_happened("undone", self._taken_back(), tasks, in_order, times)

    def assert_not_undone(self, *tasks: AnyTask) -> None:
        """None of these tasks was taken back; without tasks, none at all."""
        __tracebackhide__ = True
        self._record.assert_never("undone", self._taken_back(), tasks)

    def assert_faults_happened(self) -> None:
        """Everything that was to go wrong did. The end of a `with` block asserts it, and so do the fixtures."""
        __tracebackhide__ = True
        unused = self._faults.unused()
        if unused:
            problem = "; ".join(f"{told} never happened" for told in unused)
            raise AssertionError(f"{problem}. What happened:\n{self.story}")

    def _taken_back(self) -> Attempts:
        return Attempts(attempt for attempt in self.undone if attempt.outcome == "finished")

    def _check_logs(self) -> None:
        raise OnceflowError(
            "a MemoryEngine keeps no logs: its tasks print and log in the process of the test, where capsys and caplog "
            "find it"
        )

    # -- the engine itself ---------------------------------------------------------------------------------------------

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        if error is None:
            self.assert_faults_happened()

    def __repr__(self) -> str:
        return f"<onceflow engine in memory{', closed' if self._closed else ''}>"

    def _new_id(self) -> str:
        return f"run-{next(self._ids)}"

    def _begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        self._submissions[submission.run] = submission
        return super()._begin(submission, feed)

    def _attach(
        self, row: RunRow, completion: Completion, again: Submission | None = None, *, in_background: bool
    ) -> None:
        if again is not None:  # with the functions as they are now
            self._submissions[row.id] = again
        super()._attach(row, completion, self._submissions.get(row.id), in_background=in_background)

    def _aside(self, work: Callable[[], None], name: str, *, adopts: bool) -> None:
        work()

    def _handle(self, completion: Completion, feed: Feed) -> RunHandle[Any]:
        return MemoryHandle(self, completion, feed)

    def _survive(self, where: str, lost: list[Completion]) -> None:
        self._alarm.poke()
        if self._on_crash == "raise":
            self._leave(where, lost)
            return
        for completion in lost:
            row = self._home.journal.get_run(completion.run)
            submission = self._submissions[completion.run]
            if row is None:  # nothing of it was durable: the program would begin again
                self._stage.hub.submit(submission, completion)
            elif row.status in AT_REST:
                completion.end(self._reading.ending(row))
            else:
                self._attaching.attach(row.id, completion, submission)
                completion.accept()

    def _leave(self, where: str, lost: list[Completion]) -> None:
        for completion in lost:
            completion.end(None, Crashed(completion.run, where))


class MemoryHandle(RunHandle[R]):
    """A request to it lets everything happen that comes before."""

    def __await__(self) -> Generator[Any, None, R]:
        self._completion.wait()
        return (yield from super().__await__())

    def __iter__(self) -> Iterator[Event]:
        assert isinstance(self._engine, MemoryEngine)
        while True:
            self._engine._stage.drive(lambda: self._feed.ready)
            event = self._feed.next()
            if event is None:
                return
            yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self:
            yield event
