"""The engine behind `onceflow.run` and its siblings: opened when first needed, closed when the program ends."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from onceflow.core.rules.state import OnFailure
from onceflow.engine import settings
from onceflow.engine.engine import Engine, refuse_inside_task
from onceflow.engine.handles import RunHandle
from onceflow.engine.inspect.engines import EngineInfo
from onceflow.engine.inspect.measurements import AttemptInfo
from onceflow.engine.inspect.run_info import RunInfo
from onceflow.engine.inspect.statistics import Statistics
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.inspect.why import Why
from onceflow.engine.logs.task_lines import Level, LogLine, LogStream
from onceflow.engine.run_commands.cancel import GRACE
from onceflow.engine.settings import Output
from onceflow.engine.statuses import Status
from onceflow.errors import RunActive
from onceflow.planning.estimates import Estimate
from onceflow.storage.journal import Durability

if TYPE_CHECKING:
    from onceflow.engine.inspect.deploy_check import FiberOutlook
    from onceflow.engine.inspect.fibers import FiberInfo

R = TypeVar("R")
E = TypeVar("E", bound=Engine)

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_engine: Engine | None = None
_in_use: Engine | None = None
"""The one of `use`, which goes before it."""
_configured: dict[str, Any] = {}
_elsewhere: dict[tuple[tuple[str, object], ...], Engine] = {}
"""Engines for runs that were to be driven elsewhere than was configured."""


class Where(TypedDict, total=False):
    """Where a run is driven and written down, if that is not as configured."""

    backend: str
    """As the setting of this name."""
    store: str
    """As the setting `journal`."""
    blobs: str
    """As the setting of this name."""


def configure(
    *,
    home: str | os.PathLike[str] | None = None,
    blobs: str | None = None,
    workers: int | None = None,
    durability: Durability | None = None,
    preload: Sequence[str] | None = None,
    recover: bool | None = None,
    output: Output | None = None,
    log_level: Level | None = None,
    log_limit: int | None = None,
    event_log: bool | None = None,
    object_memory: int | str | None = None,
    object_patience: float | None = None,
    progress: bool | None = None,
    journal: str | None = None,
    lease: float | None = None,
    schedules: bool | None = None,
    backend: str | None = None,
    worker_deaths: int | None = None,
    max_running: int | None = None,
    max_pending: int | None = None,
    lock_timeout: float | None = None,
    trusted_owners: Sequence[int | str] | None = None,
) -> None:
    """Settings for `run` and the other functions of this module; see `Engine` for what they mean.

    What is not given here comes from the environment, pyproject.toml, or the defaults. An engine that is open already
    is closed and opened anew; that is refused with `RunActive` while it has something to do.

        onceflow.configure(home="/var/lib/trips", workers=8)
    """
    global _configured
    given = {
        "home": home,
        "blobs": blobs,
        "workers": workers,
        "durability": durability,
        "preload": preload,
        "recover": recover,
        "output": output,
        "log_level": log_level,
        "log_limit": log_limit,
        "event_log": event_log,
        "object_memory": object_memory,
        "object_patience": object_patience,
        "progress": progress,
        "journal": journal,
        "lease": lease,
        "schedules": schedules,
        "backend": backend,
        "worker_deaths": worker_deaths,
        "max_running": max_running,
        "max_pending": max_pending,
        "lock_timeout": lock_timeout,
        "trusted_owners": trusted_owners,
    }
    settings.check(**given)
    with _lock:
        if active := [run for engine in _open() for run in engine.active]:
            raise RunActive(active[0], "configure() must wait until it has ended")
        _close()
        _configured = {name: value for name, value in given.items() if value is not None}


@contextlib.contextmanager
def use(engine: E) -> Iterator[E]:
    """Within this context `onceflow.run` and the other functions of this module use that engine, in all threads. For
    tests of code that calls them.

        with use(MemoryEngine()) as engine:
            book_trips()
            engine.assert_ran(charge)
    """
    global _in_use
    before, _in_use = _in_use, engine
    try:
        yield engine
    finally:
        _in_use = before


def default_engine() -> Engine:
    """The engine that the functions of this module use. One that met a full disk, or the like, is opened anew."""
    global _engine
    if _in_use is not None:
        return _in_use
    with _lock:
        if _engine is not None and _engine.broken:
            _engine.close()
            _engine = None
        if _engine is None:
            _engine = Engine(**_configured)
            atexit.register(_close_at_exit)
        return _engine


def _engine_for_runs(where: Where | None = None) -> Engine:
    """Refused in a task before an engine is opened there, in vain."""
    refuse_inside_task()
    if not where or _in_use is not None:
        return default_engine()
    key = tuple(sorted(where.items()))
    with _lock:
        engine = _elsewhere.get(key)
        if engine is not None and engine.broken:
            engine.close()  # as long as it is open, it counts as the one that drives its runs
            engine = None
        if engine is None:
            given = {"journal" if name == "store" else name: value for name, value in key}
            engine = _elsewhere[key] = Engine(**_configured | given)
            atexit.unregister(_close_at_exit)
            atexit.register(_close_at_exit)
        return engine


def run(
    node: R,
    *,
    name: str | None = None,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
    **where: Unpack[Where],
) -> R:
    """Runs the graph that leads to this node, exactly once, and returns its result.

    `name` is an idempotency key. The first `run` under a name starts it; another one with the same graph returns the
    stored result, waits for it if it is going on somewhere, or goes on with it if it has failed or was interrupted.
    With another graph it raises `NameTaken`.
    With `on_failure="undo"` a failure takes back what undoable tasks have done; by default it is kept, and resuming
    goes on from there.
    After `timeout` seconds the run is cancelled, as `cancel` does it, and `RunTimedOut` is raised; time in which no
    engine drives it counts as well, until somebody resumes it.
    `metadata` is for people: a dictionary of what JSON has a form for, by which runs can be found (`list_runs`). It is
    no part of what makes two runs the same, and the first one under a name decides.
    `backend`, `store` (a journal) and `blobs` say where it is driven and written down, if that is not as configured:
    `run(node, backend="ray", store="postgresql://…", blobs="s3://…")`.
    `queue` names a queue in which the run needs a place while it goes on (see `queue`), and of those that wait for one
    the highest `priority` goes first. It also gives its tasks a larger share of the workers, and their place in queues
    of their own.

    Raises `TaskFailed`, with the task's own exception as its cause, or `UnsafeGraph` before anything has started.

        run(trip.bind("ann", "Rome"), name="trip-17")
    """
    return _engine_for_runs(where).run(
        node,
        name=name,
        on_failure=on_failure,
        timeout=timeout,
        metadata=metadata,
        queue=queue,
        priority=priority,
    )


def run_async(
    node: R,
    *,
    name: str | None = None,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
    **where: Unpack[Where],
) -> RunHandle[R]:
    """Like `run`, but returns a handle as soon as the run is durable. It can be awaited, asked for its `result()`, and
    iterated over for its events.

        handle = run_async(trip.bind("ann", "Rome"))
        handle.result(timeout=60)
    """
    return _engine_for_runs(where).run_async(
        node,
        name=name,
        on_failure=on_failure,
        timeout=timeout,
        metadata=metadata,
        queue=queue,
        priority=priority,
    )


def submit(
    node: R,
    *,
    name: str | None = None,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
    **where: Unpack[Where],
) -> RunHandle[R]:
    """Leaves a run to an engine that serves (`onceflow serve`, `Engine.serve`), on whatever host, and returns as soon
    as it is durable. It is *pending* until one takes it, however long that takes. The handle tells how it comes out.

    The options are those of `run`. The code of its tasks must be found where it is served.

        handle = submit(trip.bind("ann", "Rome"), name="trip-17")
        print(handle.result())
    """
    return _engine_for_runs(where).submit(
        node,
        name=name,
        on_failure=on_failure,
        timeout=timeout,
        metadata=metadata,
        queue=queue,
        priority=priority,
    )


def run_many(
    nodes: Iterable[R],
    *,
    names: Iterable[str] | None = None,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    queue: str | None = None,
    priority: int = 0,
    return_exceptions: bool = False,
    **where: Unpack[Where],
) -> list[R]:
    """Runs many graphs at once, each as a run of its own, and returns their results in order. `metadata` is one
    dictionary for all of them, or a list with one for each.

    If some fail, the others are not affected: when all have ended, the first failure is raised, or with
    `return_exceptions=True` each failure stands in the list where the result would be.

        run_many([trip.bind(user, "Rome") for user in users], names=[f"trip-{user}" for user in users])
    """
    return _engine_for_runs(where).run_many(
        nodes,
        names=names,
        on_failure=on_failure,
        timeout=timeout,
        metadata=metadata,
        queue=queue,
        priority=priority,
        return_exceptions=return_exceptions,
    )


def resume(run: str) -> Any:
    """Goes on with a run that has failed, was interrupted, cancelled, undone or is paused, by id or name, and returns
    its result. One that has succeeded is not run again, and one that is going on elsewhere is waited for.

    The code is that of today: what is saved stays as it is, the rest runs with the functions as they are now.
    """
    return _engine_for_runs().resume(run)


def resume_async(run: str) -> RunHandle[Any]:
    """Like `resume`, but returns a handle and does not wait."""
    return _engine_for_runs().resume_async(run)


def resume_all() -> list[RunHandle[Any]]:
    """Goes on with every interrupted run in the home directory. Returns a handle for each, oldest first."""
    return _engine_for_runs().resume_all()


def rerun(
    run: str,
    *,
    from_task: str | Sequence[str] = (),
    node: object | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Runs a run again, by id or name, from a task on, as a new run, and returns its result. That task and all that it
    leads to is done again, with the code of now; everything else that was saved is reused. Effects of the first run
    stay its own: the new one never takes them back.

        rerun("trip-17", from_task="pay")

    With a `node`, the new run is of that graph, and reuses what is the same in both: tasks with the same name, options
    and arguments above which everything is the same. Options and metadata are those of the first run, unless given.
    Raises `NoSuchTask`.
    """
    return _engine_for_runs().rerun(run, from_task=from_task, node=node, name=name, metadata=metadata)


def rerun_async(
    run: str,
    *,
    from_task: str | Sequence[str] = (),
    node: object | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> RunHandle[Any]:
    """Like `rerun`, but returns as soon as the new run is durable."""
    return _engine_for_runs().rerun_async(run, from_task=from_task, node=node, name=name, metadata=metadata)


def cancel(run: str, *, undo: bool = False, grace: float = GRACE) -> Status:
    """Stops a run, by id or name, wherever it is driven. Returns, when nothing of it runs any more, how it ended:
    `"cancelled"`, or what it was quicker to become.

    Nothing new starts. Tasks without effect are stopped at once. Undoable ones that have not finished are stopped and
    taken back; those that have finished stay, unless `undo=True`. Irrevocable ones that have begun have `grace` seconds
    to finish, then they are stopped, and `RunCancelled.uncertain` lists them. To be stopped means: `Stopped` is raised
    in the task, and if that does not help its worker is killed.
    """
    return _engine_for_runs().cancel(run, undo=undo, grace=grace)


def pause(run: str) -> Status:
    """Lets a run rest, by id or name, wherever it is driven: nothing more of it starts. Returns, when what was running
    has ended and is saved, how it stands: `"paused"`, or what it was quicker to become.

    A paused run takes no memory. `resume` goes on with it; whoever waits for its result meanwhile gets `RunPaused`.
    What has a `timeout` is not given more time by a pause.
    """
    return _engine_for_runs().pause(run)


def set_result(run: str, task: str, value: object) -> None:
    """Gives the result of a task that has failed, by hand. When the run goes on (`resume`), the task is done with that
    and does not run; what is built on it goes on as ever. The value is checked against what the task's function is
    declared to return. A task that returns several values needs a list of as many.

        set_result("order-17", "charge", {"receipt": "r-1"})
        resume("order-17")

    It counts once: should the task have to be done again after that, it runs. What an undoable task had done when it
    failed is undone first. Returns when it is durable. Raises `NoSuchTask`, and `ResultRefused` if the task has not
    failed, or its run goes on (`pause` it first).
    """
    _engine_for_runs().set_result(run, task, value)


def limit(run: str, loop: str, spawn_limit: int) -> None:
    """Says how many chunks of a loop may be in flight from now on, while the run goes on and wherever it is driven.
    `loop` is the id of the loop's node (`each_fetch`; one that is not there yet is limited when it comes). What is in
    flight is not stopped. The limit is kept with the run. Raises `RunNotActive` if nobody drives the run.
    """
    _engine_for_runs().limit(run, loop, spawn_limit)


def get_output(run: str, task: str | None = None) -> Any:
    """The output of a run, or of one of its tasks (by its id in the graph). Does not wait.

    Only what is saved and can never change any more is handed out; raises `NoOutput`, which says why, otherwise.
    """
    return default_engine().get_output(run, task)


def send_event(run: str, key: str, payload: object = None, *, id: str | None = None) -> None:
    """Sends an event to a run, by id or name: `wait_event(key)` in its graph takes it, whether it waits already or not
    yet. Returns when the event is durable; from then on it is taken once, whatever happens. One that is sent twice
    under the same `id` is there once. A task that sends an event does so once, however often it runs.

    Raises `EventRefused` if the run has ended, or waits under this key for a payload of another type. What fibers and
    returned graphs wait for is known if the run is parked; else it is raised there, when the event is taken.

        send_event("order-17", "approval", True)
    """
    default_engine().send_event(run, key, payload, id=id)


def send_events(events: Iterable[tuple[str, str, Any]], *, ids: Iterable[str] | None = None) -> None:
    """Sends many events at once, each given as (run, key, payload), as `send_event` does, but many times faster.
    `ids` are theirs, in order. Returns when all are durable.

    All are checked first: if one is refused, or its run is not there, none is sent. If this is interrupted, some may
    have been sent: with `ids` it can be called again, and each is there once.

        send_events([("order-17", "approval", True), ("order-18", "approval", False)])
    """
    default_engine().send_events(events, ids=ids)


def variables(run: str) -> dict[str, Any]:
    """The task variables of a run, by id or name: those that tasks have written, as they are committed now.

    variables("import-7").get("done", 0)
    """
    return default_engine().variables(run)


def status(run: str) -> Status:
    """How a run stands, by id or name. Raises `NoSuchRun`."""
    return default_engine().status(run)


def info(run: str) -> RunInfo:
    """What is known about a run at a glance, by id or name. Raises `NoSuchRun`."""
    return default_engine().info(run)


def find(run: str) -> RunInfo:
    """The run that somebody means who types this: an id, a name, or the beginning of either if only one run begins so.
    Raises `NoSuchRun`, or `AmbiguousRun` if there are several.

        resume(find("trip-1").id)
    """
    return default_engine().find(run)


def list_attempts(run: str) -> list[AttemptInfo]:
    """What was measured of the attempts of a run, by id or name, in the order in which they ended: when they started,
    how long they took, what became of them. Nothing waits for measurements, and a crash may take the last ones. Of a
    very long run only the last ones are told.

        for attempt in list_attempts("trip-17"):
            print(attempt.id, attempt.seconds, attempt.outcome)
    """
    return default_engine().list_attempts(run)


def estimate(run: str) -> Estimate | None:
    """How many seconds a run that is going on will probably take from now, by id or name: a range, from what its tasks
    took in earlier runs of the same workflow and in this one, and from what running tasks tell of their progress.

    None if nobody drives the run, or something is left of which nothing is known yet. It counts as if the run had the
    workers of this engine for itself. All its tasks are looked at, so do not ask all the time if they are thousands.

        if (left := estimate("trip-17")) is not None:
            print(f"{left.low:.0f} to {left.high:.0f} s, going by {left.samples} samples")
    """
    return default_engine().estimate(run)


def statistics(workflow: str | None = None) -> Statistics:
    """What the engine of this process has done since it was opened: runs, attempts, journal, blobs, workers. And what
    each task took in the last runs that ended (of this workflow only, if one is given), whoever drove them.

        for found in statistics("trip").tasks:
            print(found.task, found.finished, found.p50, found.p90)
    """
    return default_engine().statistics(workflow)


def size(run: str) -> int:
    """How many bytes a run takes, by id or name: what it was given and what it has saved, without what database and
    file system add."""
    return default_engine().size(run)


def list_engines() -> list[EngineInfo]:
    """The engines that share the journal of this program, on all hosts, the oldest first.

    for info in list_engines():
        print(info.host, info.pid, info.alive, info.runs)
    """
    return default_engine().list_engines()


def list_runs(
    *,
    status: Status | Sequence[Status] | None = None,
    name: str | None = None,
    workflow: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    before: str | None = None,
    limit: int | None = 100,
) -> list[RunInfo]:
    """What is known about runs, newest first. `name` is the beginning of a name; `metadata` has members that those of
    the runs have, too. With `before`, the id of a run, only older ones are listed: that of the last one leads to the
    next page. `limit=None` lists all.

    for info in list_runs(status=["failed", "interrupted"]):
        print(info.id, info.workflow, info.status)
    """
    return default_engine().list_runs(
        status=status, name=name, workflow=workflow, metadata=metadata, before=before, limit=limit
    )


def list_tasks(run: str) -> list[TaskInfo]:
    """What is known about the tasks of a run, by id or name, in the order of its graph; those of a returned graph stand
    behind the task that returned it. The engine that drives the run is asked, also in another process; if that does not
    answer, or nobody drives it, this is what the journal has (`TaskInfo.live` is then false).

        for info in list_tasks("trip-17"):
            print(info.id, info.state)
    """
    return default_engine().list_tasks(run)


def list_fibers(run: str) -> list[FiberInfo]:
    """The fibers of a run that have not ended, by its id or name: the functions that each is in, with file, line,
    source text and variables, and what it waits for. It is what the journal has, whoever drives the run, and none of
    the run's code is needed or called.

        for fiber in list_fibers("order-7"):
            print(fiber.function, fiber.waits_for, fiber.frames[-1].line)
    """
    return default_engine().list_fibers(run)


def deploy_check(module: str) -> list[FiberOutlook]:
    """What would become of the fibers of runs that have not ended, or have failed, if they went on in the code of this
    module, and of those inside it, as this process has imported it or imports it now: for each that has to do with it,
    whether its code is the same, it is pinned, it moves, or is lost, and why. Nothing is changed, and apart from the
    import none of the user's code is called. Raises `InvalidOption` if there is no such module, nor a fiber that knows
    it.

        lost = [fiber for fiber in deploy_check("shop") if fiber.verdict == "lost"]
    """
    return default_engine().deploy_check(module)


def why(run: str, task: str | None = None) -> Why:
    """What a run waits for, or one task of it: the tasks at which it stands, what each does or waits for (a worker, a
    save, a delay, a person), and how many others wait behind it. Raises `NoSuchRun` and `NoSuchTask`.

        for obstacle in why("trip-17").obstacles:
            print(obstacle.task, obstacle.text)
    """
    return default_engine().why(run, task)


def logs(
    run: str,
    task: str | None = None,
    *,
    attempt: str | None = None,
    stream: LogStream | None = None,
    level: Level | None = None,
    since: float | None = None,
    tail: int | None = None,
    follow: bool = False,
) -> Iterator[LogLine]:
    """What the tasks of a run, by id or name, have printed and logged, oldest first, wherever it was or is driven.

    Only what fits: of one task (and of those nested in it), one attempt (`"1.2"`), one stream (`"stdout"`, `"stderr"`,
    `"log"`), not before `since` (seconds since 1970). With `level` only records of `logging`, from that level on.
    With `tail` only the last so many of what is there; with `follow=True` it goes on with what comes, until nobody
    drives the run any more.

        for line in logs("trip-17", level="WARNING"):
            print(line.task, line.text)
    """
    return default_engine().logs(
        run, task, attempt=attempt, stream=stream, level=level, since=since, tail=tail, follow=follow
    )


def delete(run: str) -> None:
    """Forgets a run, by id or name, with everything it saved. Its name can be used again. Raises `RunActive` while the
    run is going on."""
    default_engine().delete(run)


def _close() -> None:
    global _engine
    for engine in _open():
        engine.close()
    _engine = None
    _elsewhere.clear()
    atexit.unregister(_close_at_exit)


def _open() -> list[Engine]:
    return [*([] if _engine is None else [_engine]), *_elsewhere.values()]


def _close_at_exit() -> None:
    for engine in _open():
        for id in engine.active:
            logger.warning("run %s is interrupted, because the program ends; resume(%r) goes on", id, id)
    _close()


def _forget_after_fork() -> None:
    """The parent's engine is no use to a forked child, which opens one of its own when it needs one."""
    global _engine, _lock
    _engine = None
    _elsewhere.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
