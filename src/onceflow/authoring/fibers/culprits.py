"""Finds the value that cannot be saved, its frame, and a remedy."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from onceflow.authoring.fibers import frames, pickling
from onceflow.authoring.fibers.frames import Paused
from onceflow.authoring.fibers.rebuilding import UNSET
from onceflow.errors import NotPersistable

_ROLES = {
    "for": "the iterator of an enclosing `for`",
    "async for": "the iterator of an enclosing `async for`",
    "with": "the context manager of an enclosing `with`",
    "except": "the exception being handled",
    "error": "the exception on its way through an enclosing `finally`",
    "value": "the value being returned through an enclosing `finally`",
    "kind": "the state of an enclosing `finally`",
}

_HINTS: dict[str, str] = {
    "builtins.generator": "a generator cannot be saved; iterate over list(...) instead, or finish it before the await",
    "builtins.async_generator": "an async generator cannot be saved; finish it before the await",
    "builtins.coroutine": "an ordinary coroutine cannot be saved; decorate its function with @fiber",
    "_io.": "an open file cannot be saved; open it again after the await",
    "_thread.": "a lock or thread belongs to one process; make it again after the await, or keep it in a global",
    "socket.": "a connection belongs to one process; open it again after the await, or keep it in a global",
    "ssl.": "a connection belongs to one process; open it again after the await, or keep it in a global",
    "sqlite3.": "a connection belongs to one process; open it again after the await, or keep it in a global",
    "_asyncio.": "a future of asyncio belongs to one process; await an operation instead",
    "itertools.": "an iterator of itertools cannot be saved; iterate over list(...) instead",
    "builtins.memoryview": "a view of memory cannot be saved; use bytes(...) instead",
    "_csv.": "a reader cannot be saved; iterate over list(...) instead",
    "posix.": "an iterator over a folder cannot be saved; iterate over list(...) instead",
    "builtins.function": "a function can be saved if it is defined in a module, or inside a durable function",
    "builtins.type": "a class can be saved if it is defined in a module",
}
"""Beginning of the type's name → advice."""


def explain(routine: Any, error: Exception, kind: type | None) -> NotPersistable:
    """What to raise instead of `error`. Values of this kind are set aside."""
    if isinstance(error, NotPersistable):
        return error
    for frame in reversed(list(frames.chain(routine))):
        for what, value in _parts(frame):
            failure = _failure(value, kind)
            if failure is not None:
                return _told(frame, what, value, *failure)
    return NotPersistable(f"{type(error).__name__}: {error}")


def _parts(frame: Paused) -> Iterator[tuple[str, Any]]:
    for role, value in frame.hidden():
        if value is not UNSET:
            yield _ROLES[role], value
    for value in frame.temporaries():
        yield "an intermediate value of this expression", value
    for name, cell in frame.cells().items():
        try:
            yield f"local variable {name!r}", cell.cell_contents
        except ValueError:
            continue
    for name, value in frame.variables(full=False).items():
        yield f"local variable {name!r}", value
    if not hasattr(frame.awaited, "send"):
        yield "the operation it waits for", frame.awaited


def _failure(value: Any, kind: type | None) -> tuple[Exception, Any] | None:
    aside = None if kind is None else pickling.Aside(kind)
    pickler = pickling.FiberPickler(io.BytesIO(), full=False, aside=aside)
    try:
        pickler.dump_all(value)
    except Exception as error:
        return error, pickler.last
    return None


def _told(frame: Paused, what: str, value: Any, error: Exception, last: Any) -> NotPersistable:
    if isinstance(error, NotPersistable):
        return error
    version = frame.definition.version
    file = version.file.rpartition("/")[2]
    culprit = _kind(last) if last is not None and last is not value else ""
    holds = f" that holds a {culprit}" if culprit and culprit != _kind(value) else ""
    cause = "TypeError" if isinstance(error, pickling.Unsaveable) else type(error).__name__
    hint = _hint(last if holds else value)
    return NotPersistable(
        f"{frame.name}() is waiting at {file}:{frame.line} and {what} is a {_kind(value)}{holds}: {hint} "
        f"[{cause}: {error}]",
        function=frame.name,
        file=version.file,
        line=frame.line,
        what=what,
    )


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _hint(value: Any) -> str:
    kind = _kind(value)
    for beginning, hint in _HINTS.items():
        if kind.startswith(beginning):
            return hint
    return "it cannot be pickled; keep what is needed to make it again, or end its use before the await"
