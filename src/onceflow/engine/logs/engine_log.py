"""The log of an engine: one line for each thing that happened, for users who want to know what it did and when.

Events are collected and written at the end of a turn of the loop, together and never synced; what comes within some
hundredths of a second after a write waits for the next one. There may be many thousands a second, so an attempt that
ends soon has one line, which says when it ended and how long it took; only one that goes on gets a line for its start
as well. An engine that does nothing leaves nothing. The logs of the last engines are kept; an engine that begins a log
removes surplus ones.

Nothing is recorded only here: the truth about a run is in the journal.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from onceflow.backends.local.reports import Died, Ended, Finished, MetLost, Raised, Report
from onceflow.driver.work import Work
from onceflow.engine.logs.task_lines import LogLine
from onceflow.engine.polling import looks
from onceflow.errors import StorageError
from onceflow.storage import logs
from onceflow.storage.logs import Reader, Writer
from onceflow.values import failures

SOON = 1.0
"""Seconds. An attempt that ends within them needs no line for its start."""

MOST_ENGINES = 20
"""Whose logs are kept, beside those that are alive."""

MOST_LOGS = 5
"""Times the longest log that one may have: what the logs of all engines that have ended may take together."""

PAUSE = 0.05
"""Seconds between two writes, so that many short turns share one."""

MOST_WAITING = 1000
"""Events that wait for that."""

logger = logging.getLogger(__name__)


class EngineEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that happened in an engine."""

    time: float
    """Seconds since 1970."""
    event: str
    run: str = ""
    """Its id."""
    task: str = ""
    attempt: int = 0
    """As core counts them; `attempt_name` formats it for users, which would take too long here."""
    worker: int = 0
    """Its process id."""
    seconds: float | None = None
    """How long it took."""
    detail: str = ""
    engine: str = ""
    """Its id. Not stored: the folder has it."""


class Recording:
    """Writes the log of one engine. Belongs to the loop's thread."""

    def __init__(self, folder: Path, engine: str, limit: int, *, events: bool, is_alive: Callable[[str], bool]) -> None:
        self.on = events
        """Whether events are recorded. What belongs to no job is kept all the same."""
        self._folder = folder
        self._engine = engine
        self._limit = limit
        self._is_alive = is_alive
        self._writer = Writer(folder, limit)
        self._encoder = msgspec.json.Encoder()
        self.new: list[EngineEvent] = []
        """What `turn` has yet to write."""
        self._written = -PAUSE
        """When that happened last, by the monotonic clock."""
        self._begun = False
        self._troubled = False
        self.lost = 0
        """Events that could not be stored."""

    def tell(
        self,
        event: str,
        run: str = "",
        task: str = "",
        attempt: int = 0,
        worker: int = 0,
        seconds: float | None = None,
        detail: str = "",
    ) -> None:
        if self.on:
            if not detail.isascii():  # a path of the system may be no UTF-8
                detail = detail.encode(errors="backslashreplace").decode()
            self.new.append(EngineEvent(time.time(), event, run, task, attempt, worker, seconds, detail))

    def tell_start(self, run: str, work: Work, at: float) -> None:
        """Log the start of an attempt or undo that runs for some time."""
        self.new.append(EngineEvent(at, "undoing" if work.undo else "started", run, work.node, work.attempt))

    def tell_end(self, run: str, work: Work, report: Report) -> None:
        """Log the outcome."""
        if type(report) is Finished:
            event, seconds = "undone" if work.undo else "finished", report.ended - report.started
            self.new.append(EngineEvent(report.ended, event, run, work.node, work.attempt, report.worker, seconds))
        else:
            self._tell_trouble(run, work, report)

    def keep(self, line: LogLine) -> None:
        """What was printed and belongs to no job."""
        self.new.append(EngineEvent(line.time, line.stream, detail=line.text))

    def turn(self) -> float | None:
        """Writes what is new. Says in how many seconds there may be more."""
        pause = 0.0
        if self.new:
            pause = self._written + PAUSE - time.monotonic()
            if pause <= 0 or len(self.new) >= MOST_WAITING:
                self._write()
                pause = 0.0
        return pause or None

    def _tell_trouble(self, run: str, work: Work, report: Report) -> None:
        node, attempt = work.node, work.attempt
        match report:
            case Raised(_, failure, _, started, ended, worker):
                event = "undo failed" if work.undo else "failed"
                self.tell(event, run, node, attempt, worker, ended - started, failures.tell(failure))
            case Died(_, worker, _):
                self.tell("lost", run, node, attempt, worker, detail="its worker died")
            case MetLost(_, _, started, ended, worker):
                self.tell("lost", run, node, attempt, worker, ended - started, "what a ref refers to is gone")
            case Ended(_, started):
                self.tell("lost", run, node, attempt, detail="stopped" if started else "stopped before it started")

    def _write(self) -> None:
        if not self._begun:
            self._begun = True
            self._begin()
        new, self.new = self.new, []
        self._written = time.monotonic()
        try:
            self._writer.append(self._engine, self._encoder.encode_lines(new))
        except OSError as error:
            self.lost += len(new)
            if not self._troubled:
                self._troubled = True
                logger.warning("the log of the engine cannot be written (%s); runs go on", error)

    def close(self) -> None:
        if self._begun or self.new:
            self.tell("engine closed", detail=f"{self.lost} events could not be stored" if self.lost else "")
            self._write()
        self._writer.close_all()

    def _begin(self) -> None:
        if self.on:
            opened = EngineEvent(self.new[0].time, "engine opened", detail=f"process {os.getpid()}")
            self.new.insert(0, opened)
        try:
            forget_old(self._folder, self._limit * MOST_LOGS, self._is_alive)
        except (OSError, StorageError) as error:
            logger.info("old logs of engines were not removed: %s", error)


def forget_old(folder: Path, most_bytes: int, is_alive: Callable[[str], bool]) -> None:
    """Removes the logs of engines that are dead, the oldest first, as far as they are too many or too long."""
    found = [(logs.changed(folder / engine), engine) for engine in logs.listed(folder)]
    size = 0
    for number, (_, engine) in enumerate(sorted(found, reverse=True)):
        size += logs.size(folder / engine)
        if (number >= MOST_ENGINES or size > most_bytes) and not is_alive(engine):
            logs.delete(folder / engine)


def read(folder: Path, readers: dict[str, Reader]) -> list[EngineEvent]:
    """What all engines did, in the order of time, as far as it has not been read with these readers."""
    for engine in logs.listed(folder):
        readers.setdefault(engine, Reader(folder / engine))
    events = [event for engine, reader in readers.items() for event in _events(engine, reader)]
    return sorted(events, key=lambda event: event.time)


def follow(folder: Path, readers: dict[str, Reader]) -> Iterator[EngineEvent]:
    """The same, and what they do from now on. Never ends."""
    while True:
        for _ in looks():
            news = read(folder, readers)
            yield from news
            if news:
                break


def _events(engine: str, reader: Reader) -> Iterator[EngineEvent]:
    for event in reader.records(EngineEvent):
        yield msgspec.structs.replace(event, engine=engine)
