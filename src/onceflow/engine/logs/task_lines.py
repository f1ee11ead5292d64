"""Lines that tasks printed and logged: how they are stored and read.

A record of a run's log is a `LogLine` whose text may be several lines that were printed in one go; it is split when it
is read. Reading needs no engine but the one that is asked: the files are there for every process, while they grow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from onceflow.errors import InvalidOption

if TYPE_CHECKING:
    from onceflow.storage.logs import Reader

LogStream = Literal["stdout", "stderr", "log", "missed"]

Level = int | str
"""As `logging` has it: `logging.WARNING`, or `"WARNING"`."""


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that a task has printed or logged: a line, or a record of `logging` with its traceback."""

    time: float
    """Seconds since 1970."""
    task: str
    """Its id in the graph."""
    attempt: str
    """`epoch.number`: the epoch grows whenever another engine takes the run over."""
    stream: LogStream
    """`missed`: onceflow itself says what is not there, because it was too much or could not be stored."""
    text: str
    """Without an end of line."""
    level: int = 0
    """Of a record of `logging`: `logging.WARNING` and so on."""
    logger: str = ""
    """Its name, of a record of `logging`."""
    undo: bool = False
    """Whether it was written by the task's rollback function."""


class Wanted(msgspec.Struct, frozen=True):
    """Which lines are asked for."""

    task: str | None = None
    """Those of tasks that are nested in it as well."""
    attempt: str | None = None
    stream: LogStream | None = None
    level: int | None = None
    """Then only records of `logging`, from this level on."""
    since: float | None = None

    def fits(self, line: LogLine) -> bool:
        if self.since is not None and line.time < self.since:
            return False
        if self.stream is not None and line.stream != self.stream:
            return False
        if line.stream == "missed":
            return True
        return (
            (self.task is None or line.task == self.task or line.task.startswith(f"{self.task}/"))
            and (self.attempt is None or line.attempt == self.attempt)
            and (self.level is None or (line.stream == "log" and line.level >= self.level))
        )


def wanted(
    task: str | None, attempt: str | None, stream: LogStream | None, level: Level | None, since: float | None
) -> Wanted:
    """The selection that a caller asks for. Raises `InvalidOption`."""
    if stream is not None and stream not in get_args(LogStream):
        problem = f"it is one of {', '.join(get_args(LogStream))}, not {stream!r}"
        raise InvalidOption("stream", problem, kind="setting")
    if since is not None and (isinstance(since, bool) or not isinstance(since, (int, float))):
        raise InvalidOption("since", f"it is a number of seconds since 1970, not {since!r}", kind="setting")
    try:
        number = None if level is None else level_number(level)
    except ValueError as error:
        raise InvalidOption("level", str(error), kind="setting") from None
    return Wanted(task, attempt, stream, number, since)


def level_number(level: object) -> int:
    """Raises `ValueError`."""
    if isinstance(level, str):
        known = logging.getLevelNamesMapping()
        if level.upper() in known:
            return known[level.upper()]
        if level.isdecimal():
            return int(level)
    elif isinstance(level, int) and not isinstance(level, bool) and level >= 0:
        return level
    raise ValueError(f"it is a level of logging such as 'INFO' or 'WARNING', not {level!r}")


def read(reader: Reader, wanted: Wanted) -> Iterator[LogLine]:
    """The lines that have not been read yet."""
    for record in reader.records(LogLine):
        if reader.dropped:
            told = LogLine(record.time, "", "", "missed", f"{_size(reader.dropped)} of older output were dropped")
            reader.dropped = 0
            if wanted.fits(told):
                yield told
        if wanted.fits(record):
            if record.stream in ("stdout", "stderr") and "\n" in record.text:
                for text in record.text.split("\n"):
                    yield LogLine(record.time, record.task, record.attempt, record.stream, text, undo=record.undo)
            else:
                yield record


def select(reader: Reader, wanted: Wanted, tail: int | None, is_over: Callable[[], bool] | None) -> Iterator[LogLine]:
    """What is there, or the last so many of it; with `is_over` what comes as well, until it says that nothing will."""
    there = read(reader, wanted)
    yield from there if tail is None else deque(there, tail)
    if is_over is not None:
        yield from follow(reader, wanted, is_over)


def follow(reader: Reader, wanted: Wanted, is_over: Callable[[], bool]) -> Iterator[LogLine]:
    """Existing and new lines, until `is_over` says that no more will come."""
    from onceflow.engine.polling import looks  # settings need this module, and few programs follow a log

    over = False
    while not over:
        for _ in looks():
            over = is_over()
            news = False
            for line in read(reader, wanted):
                news = True
                yield line
            if over or news:
                break


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
