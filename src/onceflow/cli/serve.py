"""`onceflow serve`, `onceflow engines` and `onceflow submit`: a fleet, and work for it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.run import print_result
from onceflow.cli.session import Session, as_duration, as_time, common, only_results_on_stdout, output_option
from onceflow.cli.types import AGE

if TYPE_CHECKING:
    from onceflow.engine.inspect.engines import EngineInfo

GRACE = 30.0
"""Seconds that tasks with an effect have to end, unless told otherwise."""

LOOK = 0.2
"""Seconds between two looks at whether the engine is well."""

FIRST, LAST = 0.2, 5.0
"""Seconds until an engine that failed is opened anew; twice as long each time."""


@click.command
@click.option("--capacity", type=click.IntRange(1), metavar="N", help="How many runs to drive at most at a time.")
@click.option(
    "--grace",
    type=AGE,
    default=None,
    metavar="AGE",
    help="How long tasks with an effect may take to end when this is told to end (default: 30s).",
)
@output_option()
@common
def serve(session: Session, capacity: int | None, grace: float | None, output: Any) -> int:
    """Drive runs that nobody drives: those that were submitted, and those whose engine is dead; and fire schedules. The
    code of their tasks must be found here; the current folder counts.

    SIGTERM or Ctrl-C ends it: it takes no more runs, lets tasks with an effect end, and leaves the rest to other
    engines. A second one does not wait. If the journal cannot be reached for too long, it starts anew.
    """
    from onceflow.errors import StorageError

    targets.look_in_current_folder()
    with only_results_on_stdout(), _Signals() as signals:
        _serve(session, signals, capacity, GRACE if grace is None else grace, output)
        pause = FIRST
        while not signals.told:
            signals.wait(pause)
            pause = min(2 * pause, LAST)
            try:
                _serve(session, signals, capacity, GRACE if grace is None else grace, output)
                pause = FIRST
            except StorageError as error:
                session.note(f"trying again: {error}")
    return exits.FINE


def _serve(session: Session, signals: _Signals, capacity: int | None, grace: float, output: Any) -> None:
    """One engine, until it was told to end, or has failed."""
    with session.engine(output, stays=True) as engine:
        engine.serve(capacity=capacity)
        session.note(f"engine {engine.id} serves {engine.settings.home}")
        while not signals.told:
            signals.wait(LOOK)
            if engine.broken:
                session.note(f"engine {engine.id} has failed; another one takes its place")
                return
        engine.drain(grace=grace)


class _Signals:
    """SIGTERM and SIGINT: the first one asks, the second one insists."""

    def __init__(self) -> None:
        self._told = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def told(self) -> bool:
        return self._told.is_set()

    def wait(self, seconds: float) -> None:
        self._told.wait(seconds)

    def _heard(self, number: int, frame: object) -> None:
        if self.told:
            raise KeyboardInterrupt
        self._told.set()


@click.command
@common
def engines(session: Session) -> int:
    """List the engines that share the journal, on all hosts, the oldest first: whether they live, how many runs they
    drive, and how many they take. This command itself is not listed.
    """
    found: list[EngineInfo] = []
    with session.engine_if_any() as engine:
        if engine is not None:
            found = [info for info in engine.list_engines() if info.id != engine.id]
    if session.json:
        session.say_json(found)
        return exits.FINE
    rows = [
        [
            info.id,
            "alive" if info.alive else "dead",
            str(info.runs),
            "" if info.capacity is None else str(info.capacity),
            info.host,
            str(info.pid),
            info.home,
            as_time(info.started),
            "" if info.lease is None else as_duration(max(0.0, info.lease)),
        ]
        for info in found
    ]
    session.table(["engine", "state", "runs", "takes", "host", "pid", "home", "started", "lease"], rows)
    return exits.FINE


@click.command
@targets.arguments
@targets.run_options
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended, and print its result.")
@common
def submit(
    session: Session,
    target: str,
    given: tuple[str, ...],
    input: str | None,
    name: str | None,
    on_failure: Any,
    timeout: float | None,
    queue: str | None,
    priority: int,
    meta: tuple[tuple[str, Any], ...],
    waits: bool,
) -> int:
    """Leave a workflow or a task to an engine that serves (`onceflow serve`), on whatever host, and print the run's id.
    Until one takes it, the run is pending.

    MODULE is what it is for `onceflow run`. Its code must be found where it is served.
    """
    with only_results_on_stdout():
        node = targets.bind(target, given, input)
        with session.engine() as engine:
            handle = engine.submit(
                node,
                name=name,
                on_failure=on_failure,
                timeout=timeout,
                metadata=dict(meta),
                queue=queue,
                priority=priority,
            )
            result = handle.result() if waits else None
    if waits:
        print_result(session, handle, result)
    elif session.json:
        session.say_json({"id": handle.id, "name": handle.name, "status": "pending"})
    else:
        click.echo(handle.id)
    return exits.FINE
