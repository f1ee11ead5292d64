"""Schedules for programs: the methods of the engine behind `onceflow.run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from onceflow.authoring.targets import Target
from onceflow.core.rules.state import OnFailure
from onceflow.engine.default import _engine_for_runs, default_engine
from onceflow.engine.handles import RunHandle
from onceflow.engine.inspect.run_info import RunInfo
from onceflow.engine.schedules.declaration import Time
from onceflow.engine.schedules.definitions import CatchUp, Overlap, ScheduleInfo

if TYPE_CHECKING:
    from onceflow.authoring.fiber_tasks.decorator import FiberFunction


def schedule(
    id: str,
    workflow: Target | FiberFunction[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    cron: str | None = None,
    every: float | timedelta | None = None,
    at: Time | None = None,
    zone: str = "UTC",
    start: Time | None = None,
    end: Time | None = None,
    jitter: float = 0.0,
    catch_up: CatchUp = "latest",
    overlap: Overlap = "skip",
    limit: int = 100,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
) -> ScheduleInfo:
    """Has a workflow, a task or a fiber run by the clock: by a `cron` expression (five fields, or six with seconds in
    front, or `@daily` and the like), `every` so many seconds (counted from `start`, or else from 1970), or once, `at`
    a time.

    Any engine that shares the home directory fires it, each instant once, as a run of its own that is called
    `id@instant`. While there is no engine nothing is fired; `catch_up` says what is made up for afterwards: the
    `"latest"` instant that was missed, `"all"` of them (the last `limit`), or `"none"`.
    `overlap` says what becomes of an instant that comes while a run of the schedule goes on: `"skip"` it, `"queue"` it
    (`limit` wait at the most), or `"allow"` both.
    `zone` is a time zone such as `"Europe/Berlin"`, in which cron is meant, and times without a zone. No instant before
    `start` counts, and none from `end` on. With `jitter` each schedule is late by a part of so many seconds, always the
    same, so that many schedules of one hour do not begin at once.
    The workflow gets `args` and `kwargs` and, if it has a parameter `scheduled`, the instant that it is fired for.
    `on_failure`, `timeout`, `metadata`, `queue` and `priority` are those of its runs (see `run`).

    Declared again under the same id it is changed, and goes on from where it was; so a program may simply declare its
    schedules whenever it starts.

        schedule("nightly", report, cron="30 2 * * *", zone="Europe/Berlin", kwargs={"kind": "sales"})
    """
    return default_engine().schedule(
        id,
        workflow,
        args=args,
        kwargs=kwargs,
        cron=cron,
        every=every,
        at=at,
        zone=zone,
        start=start,
        end=end,
        jitter=jitter,
        catch_up=catch_up,
        overlap=overlap,
        limit=limit,
        on_failure=on_failure,
        timeout=timeout,
        metadata=metadata,
        queue=queue,
        priority=priority,
    )


def list_schedules() -> list[ScheduleInfo]:
    """What is known about all schedules, by id.

    for found in list_schedules():
        print(found.id, found.rule, found.next)
    """
    return default_engine().list_schedules()


def get_schedule(id: str) -> ScheduleInfo:
    """What is known about a schedule. Raises `NoSuchSchedule`."""
    return default_engine().get_schedule(id)


def pause_schedule(id: str) -> ScheduleInfo:
    """Lets a schedule rest: it fires nothing until `resume_schedule`. Runs that go on are not touched."""
    return default_engine().pause_schedule(id)


def resume_schedule(id: str) -> ScheduleInfo:
    """Ends the rest of a schedule. What would have been due meanwhile is not made up for; `backfill` does that."""
    return default_engine().resume_schedule(id)


def delete_schedule(id: str) -> None:
    """Forgets a schedule. Its runs stay, and those that go on are not touched."""
    default_engine().delete_schedule(id)


def trigger_schedule(id: str) -> RunHandle[Any]:
    """Runs what a schedule runs, now, whether or not it is paused or has a run that goes on. Returns a handle as soon
    as the run is durable.

        trigger_schedule("nightly").result()
    """
    return _engine_for_runs().trigger_schedule(id)


def next_times(id: str, count: int = 5) -> list[datetime]:
    """For which instants a schedule fires next, in its time zone. Whether it is paused does not matter.

    print(next_times("nightly", 3))
    """
    return default_engine().next_times(id, count)


def backfill(id: str, start: Time, end: Time, *, at_once: int | None = None) -> list[RunInfo]:
    """Runs what is missing in a stretch of time, from `start` on and before `end`: each instant of the schedule that
    has no run gets one, and those that failed, were cancelled or interrupted go on. What has succeeded, or is going on,
    is left alone; so it can be called again and again. Waits for these runs, and returns how they stand, however they
    ended.

    `at_once` runs go on at the same time: one, or ten if the schedule allows its runs to overlap.

        backfill("nightly", "2026-01-01", "2026-02-01")
    """
    return _engine_for_runs().backfill(id, start, end, at_once=at_once)
