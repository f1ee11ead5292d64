"""`onceflow serve`: an engine that drives the runs that no engine drives."""

from __future__ import annotations

import signal
import threading
from typing import Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.session import Session, common, only_results_on_stdout, output_option
from onceflow.cli.types import AGE

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
