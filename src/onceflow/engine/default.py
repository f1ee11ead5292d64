"""The engine behind `onceflow.run` and its siblings: opened when first needed, closed when the program ends.

The functions are the methods of `Engine`, called on that engine. `run` and the like also take where a run is to be
driven and written down.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from onceflow.engine import settings
from onceflow.engine.engine import Engine
from onceflow.engine.handles import RunHandle
from onceflow.engine.options import Configuration, LocatedManyOptions, LocatedRunOptions, check_known
from onceflow.engine.parts import refuse_inside_task
from onceflow.errors import RunActive

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
E = TypeVar("E", bound=Engine)

logger = logging.getLogger(__name__)

LOCATION = ("backend", "blobs", "home", "journal")
"""The settings in `Location`."""

_lock = threading.Lock()
_engine: Engine | None = None
_in_use: Engine | None = None
"""The one of `use`, which goes before it."""
_configured: dict[str, Any] = {}
_elsewhere: dict[tuple[tuple[str, object], ...], Engine] = {}
"""Engines for runs that were to be driven elsewhere than was configured."""


def configure(**given: Unpack[Configuration]) -> None:
    """Settings for `run` and the other functions of this module; see `Engine` for what they mean.

    What is not given here comes from the environment, pyproject.toml, or the defaults. An engine that is open already
    is closed and opened anew; that is refused with `RunActive` while it has something to do.

        onceflow.configure(home="/var/lib/trips", workers=8)
    """
    global _configured
    check_known(given, Configuration, "configure")
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


def _engine_for_runs() -> Engine:
    """Refused in a task before an engine is opened there, in vain."""
    refuse_inside_task()
    return default_engine()


def _engine_at(
    options: LocatedRunOptions | LocatedManyOptions, function: str, allowed: type = LocatedRunOptions
) -> tuple[Engine, dict[str, Any]]:
    """The engine for a run that may be driven or written down elsewhere than was configured, and the other options."""
    check_known(options, allowed, function)
    others: dict[str, Any] = {**options}
    where = tuple((name, others.pop(name)) for name in LOCATION if name in others)
    if not where or _in_use is not None:
        return _engine_for_runs(), others
    refuse_inside_task()
    with _lock:
        engine = _elsewhere.get(where)
        if engine is not None and engine.broken:
            engine.close()  # as long as it is open, it counts as the one that drives its runs
            engine = None
        if engine is None:
            engine = _elsewhere[where] = Engine(**_configured | dict(where))
            atexit.unregister(_close_at_exit)
            atexit.register(_close_at_exit)
        return engine, others


def run(node: R, **options: Unpack[LocatedRunOptions]) -> R:
    """Runs the graph that leads to this node, exactly once, and returns its result.

    `name` is an idempotency key. The first `run` under a name starts it; another one with the same graph returns the
    stored result, waits for it if it is going on somewhere, or goes on with it if it has failed or was interrupted.
    With another graph it raises `NameTaken`.
    With `on_failure="undo"` a failure takes back what undoable tasks have done; by default it is kept, and resuming
    goes on from there.
    After `timeout` seconds the run is cancelled, as `cancel` does it, and `RunTimedOut` is raised; time in which no
    engine drives it counts as well, until it is resumed.
    `metadata` is for users: a dictionary of what JSON has a form for, by which runs can be found (`list_runs`). It is
    no part of what makes two runs the same, and the first one under a name decides.
    `home`, `backend`, `journal` and `blobs` say where it is driven and written down, if that is not as configured:
    `run(node, backend="ray", journal="postgresql://…", blobs="s3://…")`.
    `queue` names a queue in which the run needs a place while it goes on (see `queue`), and of those that wait for one
    the highest `priority` goes first. It also gives its tasks a larger share of the workers, and their place in queues
    of their own.

    Raises `TaskFailed`, with the task's own exception as its cause, or `UnsafeGraph` before anything has started.

        run(trip.bind("ann", "Rome"), name="trip-17")
    """
    engine, others = _engine_at(options, "run")
    return engine.run(node, **others)


def run_async(node: R, **options: Unpack[LocatedRunOptions]) -> RunHandle[R]:
    """Like `run`, but returns a handle as soon as the run is durable. It can be awaited, asked for its `result()`, and
    iterated over for its events.

        handle = run_async(trip.bind("ann", "Rome"))
        handle.result(timeout=60)
    """
    engine, others = _engine_at(options, "run_async")
    return engine.run_async(node, **others)


def submit(node: R, **options: Unpack[LocatedRunOptions]) -> RunHandle[R]:
    """Leaves a run to an engine that serves (`onceflow serve`, `Engine.serve`), on any host, and returns as soon
    as it is durable. It is *pending* until one takes it, however long that takes. The handle gives its outcome.

    The options are those of `run`. The code of its tasks must be found where it is served.

        handle = submit(trip.bind("ann", "Rome"), name="trip-17")
        print(handle.result())
    """
    engine, others = _engine_at(options, "submit")
    return engine.submit(node, **others)


def run_many(
    nodes: Iterable[R],
    *,
    names: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    return_exceptions: bool = False,
    **options: Unpack[LocatedManyOptions],
) -> list[R]:
    """Runs many graphs at once, each as a run of its own, and returns their results in order. `metadata` is one
    dictionary for all of them, or a list with one for each.

    If some fail, the others are not affected: when all have ended, the first failure is raised, or with
    `return_exceptions=True` each failure stands in the list where the result would be.

        run_many([trip.bind(user, "Rome") for user in users], names=[f"trip-{user}" for user in users])
    """
    engine, others = _engine_at(options, "run_many", LocatedManyOptions)
    return engine.run_many(nodes, names=names, metadata=metadata, return_exceptions=return_exceptions, **others)


def _delegate(method: Callable[Concatenate[Engine, P], T], engine: Callable[[], Engine]) -> Callable[P, T]:
    name = method.__name__

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        result: T = getattr(engine(), name)(*args, **kwargs)
        return result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = method.__doc__
    whole: Any = method
    call.__dict__["__wrapped__"] = functools.partial(whole, None)  # for `inspect.signature`: without self
    return call


def _asking(method: Callable[Concatenate[Engine, P], T]) -> Callable[P, T]:
    """The method, called on the default engine."""
    return _delegate(method, default_engine)


def _driving(method: Callable[Concatenate[Engine, P], T]) -> Callable[P, T]:
    """The same for what a task may not do."""
    return _delegate(method, _engine_for_runs)


resume = _driving(Engine.resume)
resume_async = _driving(Engine.resume_async)
resume_all = _driving(Engine.resume_all)
rerun = _driving(Engine.rerun)
rerun_async = _driving(Engine.rerun_async)
cancel = _driving(Engine.cancel)
pause = _driving(Engine.pause)
set_result = _driving(Engine.set_result)
limit = _driving(Engine.limit)

get_output = _asking(Engine.get_output)
send_event = _asking(Engine.send_event)
send_events = _asking(Engine.send_events)
variables = _asking(Engine.variables)
status = _asking(Engine.status)
info = _asking(Engine.info)
find = _asking(Engine.find)
list_attempts = _asking(Engine.list_attempts)
estimate = _asking(Engine.estimate)
statistics = _asking(Engine.statistics)
size = _asking(Engine.size)
list_engines = _asking(Engine.list_engines)
list_runs = _asking(Engine.list_runs)
list_tasks = _asking(Engine.list_tasks)
list_fibers = _asking(Engine.list_fibers)
deploy_check = _asking(Engine.deploy_check)
why = _asking(Engine.why)
logs = _asking(Engine.logs)
delete = _asking(Engine.delete)

schedule = _asking(Engine.schedule)
list_schedules = _asking(Engine.list_schedules)
get_schedule = _asking(Engine.get_schedule)
pause_schedule = _asking(Engine.pause_schedule)
resume_schedule = _asking(Engine.resume_schedule)
delete_schedule = _asking(Engine.delete_schedule)
next_times = _asking(Engine.next_times)
trigger_schedule = _driving(Engine.trigger_schedule)
backfill = _driving(Engine.backfill)

queue = _asking(Engine.queue)
set_queue = _asking(Engine.set_queue)
pause_queue = _asking(Engine.pause_queue)
resume_queue = _asking(Engine.resume_queue)
get_queue = _asking(Engine.get_queue)
list_queues = _asking(Engine.list_queues)
delete_queue = _asking(Engine.delete_queue)


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
