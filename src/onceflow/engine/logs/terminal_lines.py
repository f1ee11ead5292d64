"""Lines of tasks on the terminal of the program that runs them, with the task in front.

They go through what `sys.stdout` and `sys.stderr` are at the moment, so that they appear where a `print` would: under
pytest, in a notebook, above a live display. What tasks write to stdout goes to stdout, everything else to stderr.
Whatever goes wrong there (a closed file, a reader that left) is no concern of the runs.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import zlib
from collections.abc import Sequence
from typing import Any

from onceflow.engine.logs.task_lines import LogLine
from onceflow.values.texts import one_line

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""Of the ANSI escape sequence; a task keeps its own."""

WARNING_COLOUR, ERROR_COLOUR = 33, 31

PATIENCE = 1.0
"""Seconds that the end of the program waits for a line that is being written."""

_writing = threading.Lock()
_over = False
"""Whether the program ends: a daemon thread must not hold the lock of `sys.stdout` when the interpreter goes."""


def show(lines: Sequence[tuple[str | None, LogLine]]) -> None:
    """Writes them at once, each with the name of its run in front if there is one. Never raises."""
    texts: list[str] = []
    to_stdout = True
    coloured = {True: takes_colours(sys.stdout), False: takes_colours(sys.stderr)}
    for run, line in lines:
        is_stdout = line.stream == "stdout"
        if texts and is_stdout != to_stdout:
            _write("".join(texts), to_stdout)
            texts.clear()
        to_stdout = is_stdout
        texts.append(form(line, before=run, coloured=coloured[is_stdout]))
    if texts:
        _write("".join(texts), to_stdout)


def form(line: LogLine, *, before: str | None = None, coloured: bool = False) -> str:
    """`task | text`, for each line of the text, with an end of line. `before` stands before the task."""
    words = (before or "", line.task or "onceflow", "(undo)" if line.undo else "")
    prefix = " ".join([one_line(word) for word in words if word])
    if coloured:
        colour = COLOURS[zlib.crc32(line.task.encode()) % len(COLOURS)]
        prefix = f"\x1b[{colour}m{prefix} |\x1b[0m "
    else:
        prefix += " | "
    text = line.text
    if line.stream == "log":
        own = line.logger == f"onceflow.task.{line.task}"  # that of `current()`, for which the prefix says as much
        text = f"{_level(line.level, coloured=coloured)} {'' if own else f'{line.logger}: '}{text}"
    if "\r" in text:
        text = "\n".join([_after_returns(part) for part in text.split("\n")])
    return f"{prefix}{text.replace(chr(10), chr(10) + prefix)}\n"


def _after_returns(text: str) -> str:
    """What a terminal would show of a line that was written over itself."""
    return text.rstrip("\r").rpartition("\r")[2]


def _level(level: int, *, coloured: bool) -> str:
    name = logging.getLevelName(level)
    if not coloured or level < logging.WARNING:
        return name
    return f"\x1b[{WARNING_COLOUR if level < logging.ERROR else ERROR_COLOUR}m{name}\x1b[0m"


def takes_colours(stream: Any) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(stream.isatty())
    except Exception:  # whatever the program put there
        return False


def _write(text: str, to_stdout: bool) -> None:
    with _writing:
        stream: Any = sys.stdout if to_stdout else sys.stderr
        if stream is None or _over:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = getattr(stream, "encoding", None) or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except Exception:  # whatever the program put there; what tasks print is stored all the same
            return


def _end() -> None:
    """Nothing is written any more."""
    global _over
    _over = True
    if _writing.acquire(timeout=PATIENCE):
        _writing.release()


def _renew() -> None:
    """In a forked child: the thread that was writing is not there."""
    global _writing
    _writing = threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_renew)
