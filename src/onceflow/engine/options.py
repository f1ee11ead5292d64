"""Options that several functions take, written once: those of runs, of schedules, and of engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from onceflow.errors import InvalidOption

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from datetime import timedelta

    from onceflow.core.rules.state import OnFailure
    from onceflow.engine.logs.task_lines import Level
    from onceflow.engine.schedules.declaration import Time
    from onceflow.engine.schedules.definitions import CatchUp, Overlap
    from onceflow.engine.settings import Output
    from onceflow.storage.journal import Durability


class CommonRunOptions(TypedDict, total=False):
    """What applies to one run as to many."""

    on_failure: OnFailure
    """`"keep"`: a failed run keeps what it has, and `resume` continues from there. `"undo"`: undoable tasks are
    undone."""
    timeout: float | None
    """Seconds after which the run is cancelled, as `cancel` does it, and `RunTimedOut` is raised. Time in which no
    engine drives the run counts as well, until it is resumed."""
    queue: str | None
    """The queue in which the run needs a place while it goes on."""
    priority: int
    """From -100 to 100. Of the runs that wait for a place in a queue the one with the highest priority goes first. It
    also gives the tasks of the run a larger share of the workers, and counts in queues of their own."""


class RunOptions(CommonRunOptions, total=False):
    """Options of `run`, `run_async` and `submit`."""

    name: str | None
    """An idempotency key. The first run under a name starts it. Another one with the same graph gets the stored result,
    waits for the run if it is going on, or goes on with it if it has failed or was interrupted. With another graph
    `NameTaken` is raised."""
    metadata: Mapping[str, Any] | None
    """What people want to know about the run, and find it by (`list_runs`): a dictionary of what JSON has a form for.
    It is no part of what makes two runs the same; the first one under a name decides."""


class RerunOptions(TypedDict, total=False):
    """Options of `rerun` and `rerun_async`."""

    from_task: str | Sequence[str]
    """The task to run again, with all its descendants."""
    node: object | None
    """Another graph than that of the first run."""
    name: str | None
    """An idempotency key of the new run."""
    metadata: Mapping[str, Any] | None
    """By default that of the first run."""


class ScheduleOptions(CommonRunOptions, total=False):
    """Options of `schedule`. Those of runs apply to each run."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    cron: str | None
    """Five fields, or six with seconds in front, or `@daily` and the like."""
    every: float | timedelta | None
    """Seconds, counted from `start`, or else from 1970."""
    at: Time | None
    """Once, at this time."""
    zone: str
    """The time zone in which `cron` is meant, and times without a zone: `"Europe/Berlin"`, by default `"UTC"`."""
    start: Time | None
    """No instant before it counts."""
    end: Time | None
    """No instant from it on counts."""
    jitter: float
    """Each schedule is late by a part of so many seconds, always the same."""
    catch_up: CatchUp
    """What is made up for after a time without an engine: the `"latest"` instant that was missed, `"all"` of them (the
    last `limit`), or `"none"`."""
    overlap: Overlap
    """What happens at an instant while a run of the schedule is in progress: `"skip"` it, `"queue"` it (`limit` wait at
    the most), or `"allow"` both."""
    limit: int
    """100, if not given."""
    metadata: Mapping[str, Any] | None


class Location(TypedDict, total=False):
    """Where a run is driven and written down, if that is not as configured. Each is the setting of its name."""

    home: str | os.PathLike[str]
    backend: str
    journal: str
    blobs: str


class LocatedRunOptions(RunOptions, Location, total=False):
    """Options of `run`, `run_async` and `submit` where the engine is not given."""


class LocatedManyOptions(CommonRunOptions, Location, total=False):
    """Likewise of `run_many`."""


class EngineOptions(TypedDict, total=False):
    """Settings of an engine beside its home directory. `EngineSettings` says what each means."""

    blobs: str | None
    workers: int | None
    durability: Durability | None
    preload: Sequence[str] | None
    recover: bool | None
    output: Output | None
    log_level: Level | None
    log_limit: int | None
    event_log: bool | None
    object_memory: int | str | None
    object_patience: float | None
    progress: bool | None
    journal: str | None
    lease: float | None
    schedules: bool | None
    backend: str | None
    worker_deaths: int | None
    max_running: int | None
    max_pending: int | None
    lock_timeout: float | None
    trusted_owners: Sequence[int | str] | None


class Configuration(EngineOptions, total=False):
    """Settings of the default engine."""

    home: str | os.PathLike[str] | None


def check_known(given: Mapping[str, Any], allowed: type, function: str) -> None:
    """Raises `InvalidOption` for options that `function` does not have."""
    known: frozenset[str] = allowed.__optional_keys__  # type: ignore[attr-defined]
    if not given.keys() <= known:
        unknown = next(name for name in given if name not in known)
        raise InvalidOption(unknown, f"{function} has only {', '.join(sorted(known))}", kind="option")
