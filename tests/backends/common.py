"""What the tests of the local backend share: a pool with a loop around it, and jobs that tests can hold and watch."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onceflow.backends.local.messages import Job
from onceflow.backends.local.pool import Pool
from onceflow.backends.local.reports import Died, Finished, Raised, Report
from onceflow.data.objects import Object
from onceflow.values import failures, snapshot
from onceflow.values.functions import ship
from onceflow.values.packed_outputs import unpack
from tests.helpers.doors import Door, knock


class Loop:
    """A pool, the loop that drives it, and the reports it gave, by token."""

    listener: Callable[[Report], None] | None = None
    """Gets every report as it comes."""

    def __init__(self, directory: Path, workers: int = 2, **options: Any) -> None:
        """Options are those of `Pool`."""
        self.selector = selectors.DefaultSelector()
        self.reports: dict[int, Report] = {}
        self.count = 0
        self.pool: Any = self.open_pool(directory, workers, selector=self.selector, report=self._note, **options)

    def open_pool(self, directory: Path, workers: int, **options: Any) -> Any:
        return Pool(directory, workers, **options)

    def _note(self, report: Report) -> None:
        if self.listener is not None:
            self.listener(report)
        for token in report.tokens if isinstance(report, Died) else (report.token,):
            assert token not in self.reports, "one report for each job"
            self.reports[token] = report

    def start(self, function: Callable[..., Any], *args: Any, **options: Any) -> int:
        """Options are those of `Job`, and `kwargs`."""
        shipped = ship(function)
        self.pool.ship(shipped)
        self.count += 1
        frozen = snapshot.take((args, options.pop("kwargs", {})))
        options.setdefault("buffers", [bytes(buffer) for buffer in frozen.buffers])
        live = options.pop("live", None)
        job = Job(self.count, shipped.hash, getattr(function, "__name__", "?"), frozen.payload, **options)
        self.pool.start(job, live)
        return self.count

    def until(self, condition: Callable[[], bool]) -> None:
        """Drives the pool until it is so."""
        while not condition():
            timeout = self.pool.turn()
            if condition():
                return
            for key, _ in self.selector.select(timeout):
                key.data()

    def report(self, token: int) -> Report:
        self.until(lambda: token in self.reports)
        return self.reports[token]

    def result(self, token: int) -> Any:
        report = self.report(token)
        if isinstance(report, Raised):
            raise failures.load(report.failure)
        assert isinstance(report, Finished)
        for part in report.parts:
            if isinstance(part, Object):
                self.publish(part)
        values = tuple([unpack(part if isinstance(part, bytes) else part.map()) for part in report.parts])
        return values[0] if len(values) == 1 else values

    def publish(self, object: Object) -> None:
        """Returns when it is in shared memory."""
        if object.place is None:
            self.pool.publish(object, lambda problem: None)
            self.until(lambda: object.place is not None)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.result(self.start(function, *args, **options))

    def learn_that_it_is_short(self, function: Callable[..., Any], *args: Any) -> None:
        """Lets the pool send many of it ahead. (How long it really takes is up to how busy the machine is.)"""
        self.call(function, *args)
        self.pool._dispatcher.estimates.seconds[ship(function).hash] = 20e-6

    def warm_up(self) -> list[int]:
        """Waits until all workers are there. Returns their process ids."""
        self.until(lambda: self.pool.statistics().workers == self.pool.size)
        return [pid for pid, worker in self.pool._workers.items() if worker.usable]


@contextlib.contextmanager
def running_pool(directory: Path, workers: int = 2, **options: Any) -> Iterator[Loop]:
    """Options are those of `Pool`."""
    loop = Loop(directory, workers, **options)
    try:
        yield loop
    finally:
        loop.pool.close()
        assert not loop.selector.get_map()
        loop.selector.close()


class Gate(Door):
    """A door for jobs: whoever waits for one drives the loop."""

    def wait(self, loop: Loop) -> int:  # type: ignore[override]
        """Drives the loop until a job is at the gate. Returns the process it is in."""
        arrived: list[bytes] = []
        loop.selector.register(self._here, selectors.EVENT_READ, lambda: arrived.append(os.read(self._here, 8)))
        loop.until(lambda: bool(arrived))
        loop.selector.unregister(self._here)
        return int(arrived[0])


@contextlib.contextmanager
def gate(path: Path) -> Iterator[Gate]:
    made = Gate(path)
    try:
        yield made
    finally:
        made.close()


def pass_gate(path: str) -> str:
    """A job: says that it is there, waits until it is let through."""
    knock(path)
    return "through"


def write_line(path: str, line: str) -> str:
    """A job: leaves a trace."""
    with open(path, "a") as file:
        file.write(line + "\n")
    return line


def nothing() -> None:
    """A job."""


def kill(pid: int) -> None:
    """Kills a process that the test started and that has not been reaped, and waits until it is gone."""
    pidfd = os.pidfd_open(pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    wait_for_end(pidfd)


def wait_for_end(pidfd: int) -> None:
    """Returns when the process is gone (or a zombie)."""
    select.select([pidfd], [], [])
    os.close(pidfd)


def pass_and_write(path: str, trace: str, line: str) -> str:
    if path:
        pass_gate(path)
    return write_line(trace, line) if trace else line
