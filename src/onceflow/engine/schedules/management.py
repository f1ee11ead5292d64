"""Managing schedules: methods of an engine, and their implementation.

Each change goes by the version that was read, and is made anew if another engine was quicker.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from onceflow.authoring.graph_builder import build_graph
from onceflow.authoring.targets import Target
from onceflow.core.checks import check
from onceflow.engine.handles import Feed, Redirected, RunHandle
from onceflow.engine.options import RunOptions, ScheduleOptions, check_known
from onceflow.engine.schedules import clock, declaration, firing, rules, targets
from onceflow.engine.schedules.declaration import Time
from onceflow.engine.schedules.definitions import (
    Definition,
    ScheduleInfo,
    State,
    definition_of,
    encode,
    state_of,
)
from onceflow.engine.schedules.rules import At
from onceflow.errors import NoSuchSchedule
from onceflow.storage import journal
from onceflow.storage.journal import DeleteSchedule, Failed, OfStanding, RunRow, StandingRow, WriteSchedule
from onceflow.values import sealed_bytes
from onceflow.values.metadata import decode as decode_metadata

if TYPE_CHECKING:
    from onceflow.authoring.fiber_tasks.decorator import FiberFunction
    from onceflow.engine.engine import Engine
    from onceflow.engine.handles import Completion
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.submission import Submission
    from onceflow.storage.run_stores import Place

logger = logging.getLogger(__name__)

MOST_NEXT = 1000
"""Number of upcoming instants that are reported."""

MOST_AT_ONCE = 1000
"""Runs of a backfill."""


class Manager:
    """Of one engine. `told` is called when schedules have changed."""

    def __init__(self, home: Place, runs: clock.Runs, told: Callable[[], None]) -> None:
        self._home = home
        self.journal = home.journal
        self._runs = runs
        self._told = told

    def sealing(self) -> contextlib.AbstractContextManager[None]:
        """Within it, secrets are sealed for here."""
        return sealed_bytes.using(self._home.path)

    def now(self) -> float:
        return self._runs.now()

    def declare(self, id: str, definition: Definition) -> ScheduleInfo:
        """A new schedule, or another definition for one that exists."""
        now = self._runs.now()
        # It would be a pity to learn at three in the morning that it cannot be run.
        check.check(build_graph(targets.bind(definition, firing.next_instant(definition, now) or now)))
        while True:
            row = self.journal.get_standing("schedule", id)
            if row is None:
                state = State(now, _before(definition, now))
            elif definition_of(row) == definition:
                return info(row)
            else:
                state = _redefined(definition_of(row), definition, state_of(row), now)
            due = firing.due(definition, state)
            expected = 0 if row is None else row.version
            if self._commit(WriteSchedule(id, expected, encode(state), due, encode(definition))):
                return info(self.row(id))

    def row(self, id: str) -> StandingRow:
        row = self.journal.get_standing("schedule", id)
        if row is None:
            raise NoSuchSchedule(id)
        return row

    def change(self, id: str, change: Callable[[State], State]) -> ScheduleInfo:
        while True:
            row = self.row(id)
            state = change(state_of(row))
            if state == state_of(row) or self._commit(clock.advance(row, definition_of(row), state)):
                return info(self.row(id))

    def delete(self, id: str) -> None:
        while not self._commit(DeleteSchedule(id, self.row(id).version)):
            pass

    def trigger(self, id: str, feed: Feed) -> Completion:
        """A run for the present instant, whatever the schedule says."""
        while True:
            row = self.row(id)
            definition, state, now = definition_of(row), state_of(row), round(self._runs.now(), 6)
            submission = clock.prepare(self._runs, id, definition, now)
            after = replace(
                state,
                open=(*state.open, submission.run),
                fired=state.fired + 1,
                last=now,
                last_run=submission.run,
                problem=None,
            )
            submission.opening.append(clock.advance(row, definition, after))
            completion = self._runs.begin(submission, feed)
            completion.wait_until_accepted()
            if not isinstance(completion.error, Redirected):
                return completion

    def instants(self, id: str, start: Time, end: Time) -> tuple[Definition, Iterator[float]]:
        """Those that a schedule has between two moments, and none of the future."""
        definition = definition_of(self.row(id))
        first = declaration.instant_of(start, definition.zone, "start")
        last = min(declaration.instant_of(end, definition.zone, "end"), self._runs.now())
        if definition.start is not None:
            first = max(first, definition.start)
        if definition.end is not None:
            last = min(last, definition.end)
        return definition, rules.between(definition.rule, first, last)

    def missing(self, id: str, definition: Definition, instant: float) -> RunRow | Submission | None:
        """What is to be done about an instant: go on with a run, or begin one; None if there is nothing to do."""
        row = self.journal.find_name(clock.name_of(id, instant))
        if row is None:
            return clock.prepare(self._runs, id, definition, instant)
        return row if row.status != "succeeded" and self._runs.can_be_driven(row) else None

    def _commit(self, request: OfStanding) -> bool:
        """False if another engine was quicker."""
        outcome = journal.commit(self.journal, [request])
        if isinstance(outcome.refusal, Failed):
            raise outcome.refusal.error
        if outcome.ok:
            self._told()
        return outcome.ok


def _before(definition: Definition, now: float) -> float:
    """Where a new schedule begins: now. A single moment counts even if it has passed."""
    rule = definition.rule
    return min(now, rule.instant - 1.0) if isinstance(rule, At) else now


def _redefined(old: Definition, new: Definition, state: State, now: float) -> State:
    """If it is due at other times, it begins anew."""
    if (old.rule, old.start, old.end) == (new.rule, new.start, new.end):
        return state
    return replace(state, cursor=_before(new, now), queue=())


def info(row: StandingRow) -> ScheduleInfo:
    definition, state = definition_of(row), state_of(row)
    return ScheduleInfo(
        id=row.id,
        workflow=definition.workflow,
        arguments=definition.shown,
        rule=rules.tell(definition.rule),
        zone=definition.zone,
        next=row.due,
        paused=state.paused,
        last=state.last,
        last_run=state.last_run,
        fired=state.fired,
        skipped=state.skipped,
        waiting=len(state.queue),
        problem=state.problem,
        start=definition.start,
        end=definition.end,
        jitter=definition.delay,
        catch_up=definition.catch_up,
        overlap=definition.overlap,
        limit=definition.limit,
        created=state.created,
        metadata=decode_metadata(definition.metadata),
    )


class Scheduling(ABC):
    """What an engine can do with schedules."""

    @abstractmethod
    def _manage(self) -> Manager:
        """Raises if the engine is closed."""

    @abstractmethod
    def _handle(self, completion: Completion, feed: Feed) -> RunHandle[Any]: ...

    @abstractmethod
    def _start_missing(self, found: RunRow | Submission) -> RunHandle[Any]:
        """Drive a run of a backfill: a new one, or one that goes on."""

    @abstractmethod
    def info(self, run: str) -> RunInfo: ...

    def schedule(
        self,
        id: str,
        workflow: Target | FiberFunction[..., Any],
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleInfo:
        """Has a workflow, a task or a fiber run by the clock: by a `cron` expression (five fields, or six with seconds
        in front, or `@daily` and the like), `every` so many seconds (counted from `start`, or else from 1970), or once,
        `at` a time.

        Any engine that shares the home directory fires it, each instant once, as a run of its own that is called
        `id@instant`. While there is no engine nothing is fired; `catch_up` says what is made up for afterwards: the
        `"latest"` instant that was missed, `"all"` of them (the last `limit`), or `"none"`. `overlap` says what becomes
        of an instant that comes while a run of the schedule goes on: `"skip"` it, `"queue"` it (`limit` wait at the
        most), or `"allow"` both. `zone` is a time zone such as `"Europe/Berlin"`, in which cron is meant, and times
        without a zone. No instant before `start` counts, and none from `end` on. With `jitter` each schedule is late by
        a part of so many seconds, always the same, so that many schedules of one hour do not begin at once. The
        workflow gets `args` and `kwargs` and, if it has a parameter `scheduled`, the instant that it is fired for.
        `on_failure`, `timeout`, `metadata`, `queue` and `priority` are those of its runs (see `run`).

        Declared again under the same id it is changed, and goes on from where it was; so a program may simply declare
        its schedules whenever it starts.

            schedule("nightly", report, cron="30 2 * * *", zone="Europe/Berlin", kwargs={"kind": "sales"})
        """
        manager = self._manage()
        check_known(options, ScheduleOptions, "a schedule")
        target = targets.check(workflow)
        with manager.sealing():
            definition = declaration.define(id, target, **options)
            return manager.declare(id, definition)

    def list_schedules(self) -> list[ScheduleInfo]:
        """Information about all schedules, by id.

        for found in list_schedules():
            print(found.id, found.rule, found.next)
        """
        return [info(row) for row in self._manage().journal.list_standing("schedule")]

    def get_schedule(self, id: str) -> ScheduleInfo:
        """Information about a schedule. Raises `NoSuchSchedule`."""
        return info(self._manage().row(id))

    def pause_schedule(self, id: str) -> ScheduleInfo:
        """Lets a schedule rest: it fires nothing until `resume_schedule`. Runs that go on are not touched."""
        return self._manage().change(id, lambda state: replace(state, paused=True))

    def resume_schedule(self, id: str) -> ScheduleInfo:
        """Ends the rest of a schedule. What would have been due meanwhile is not made up for; `backfill` does that."""
        manager = self._manage()

        def go_on(state: State) -> State:
            return replace(state, paused=False, cursor=max(state.cursor, manager.now())) if state.paused else state

        return manager.change(id, go_on)

    def delete_schedule(self, id: str) -> None:
        """Forgets a schedule. Its runs stay, and those that go on are not touched."""
        self._manage().delete(id)

    def trigger_schedule(self, id: str) -> RunHandle[Any]:
        """Runs what a schedule runs, now, whether or not it is paused or has a run that goes on. Returns a handle as
        soon as the run is durable.

            trigger_schedule("nightly").result()
        """
        feed = Feed()
        return self._handle(self._manage().trigger(id, feed), feed)

    def next_times(self, id: str, count: int = 5) -> list[datetime]:
        """For which instants a schedule fires next, in its time zone. Whether it is paused does not matter.

        print(next_times("nightly", 3))
        """
        declaration.check_count("count", count, MOST_NEXT)
        manager = self._manage()
        row = manager.row(id)
        definition, state = definition_of(row), state_of(row)
        found: list[datetime] = []
        instant: float | None = max(state.cursor, manager.now())
        if isinstance(definition.rule, At):
            instant = state.cursor
        while len(found) < count and instant is not None:
            instant = firing.next_instant(definition, instant)
            if instant is not None:
                found.append(datetime.fromtimestamp(instant, rules.zone_of(definition.zone)))
        return found

    def backfill(self, id: str, start: Time, end: Time, *, at_once: int | None = None) -> list[RunInfo]:
        """Runs what is missing in a stretch of time, from `start` on and before `end`: each instant of the schedule
        that has no run gets one, and those that failed, were cancelled or interrupted go on. What has succeeded, or is
        going on, is left alone; so it can be called again and again. Waits for these runs, and returns how they stand,
        however they ended.

        `at_once` runs go on at the same time: one, or ten if the schedule allows its runs to overlap.

            backfill("nightly", "2026-01-01", "2026-02-01")
        """
        manager = self._manage()
        definition, instants = manager.instants(id, start, end)
        most = (10 if definition.overlap == "allow" else 1) if at_once is None else at_once
        declaration.check_count("at_once", most, MOST_AT_ONCE)
        handles: list[RunHandle[Any]] = []
        for instant in instants:
            found = manager.missing(id, definition, instant)
            if found is not None:
                handles.append(self._start_missing(found))
                if len(handles) >= most:
                    handles[-most].wait()
        for handle in handles[-most:]:
            handle.wait()
        return [self.info(handle.id) for handle in handles]


class EngineRuns:
    """`clock.Runs` of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._adopting: set[str] = set()
        """Runs that are about to go on here."""

    def prepare(self, node: object, *, name: str, definition: Definition, metadata: dict[str, Any]) -> Submission:
        options: RunOptions = {
            "name": name,
            "on_failure": definition.on_failure,
            "timeout": definition.timeout,
            "metadata": metadata,
            "queue": definition.queue,
            "priority": definition.priority,
        }
        return self._engine._prepare(node, options)

    def begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        self._engine._hub.warm_up()
        return self._engine._begin(submission, feed)

    def can_be_driven(self, row: RunRow) -> bool:
        if row.id in self._adopting or self._engine._hub.is_parked(row.id):
            return False
        return self._engine._attaching.can_be_driven(row)

    def go_on(self, row: RunRow) -> None:
        self._adopting.add(row.id)
        handle = self._engine._resume_in_background(row)
        handle._completion.when_done(lambda: self._ended(handle))

    def _ended(self, handle: RunHandle[Any]) -> None:
        self._adopting.discard(handle.id)
        if handle._completion.error is not None:
            logger.warning("run %s of a schedule does not go on: %s", handle.name, handle._completion.error)

    def now(self) -> float:
        return self._engine._hub.now()
