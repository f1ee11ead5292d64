"""Waiting for locks that other programs hold: a wait that takes long names the holder, and may have a limit.

Locks of a journal are held for milliseconds, unless the process that holds one is stopped (Ctrl-Z, SIGSTOP, a
debugger), its disk hangs, or a stranger (a backup, the sqlite3 shell) holds it on purpose. No lock is ever taken away
from a process that lives: it may be in the middle of a commit. What can be done is to say what is waited for.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from onceflow.errors import StorageBusy
from onceflow.storage import failures, lock_holders, schema
from onceflow.storage.lock_holders import Holder

LOCK_TIMEOUT = 30.0
"""Seconds that a caller waits, unless a setting says something else."""

TELL_AFTER = 1.5
"""Seconds after which a wait is logged; with `CHECK_EVERY`, after 2 at the latest."""

CHECK_EVERY = 0.25
"""Seconds between two looks at a wait."""

TELL_AGAIN = 60.0
"""Seconds between two lines about one wait."""

logger = logging.getLogger(__name__)

listeners: list[Callable[[str], None]] = []
"""Each gets every line about a wait, whatever is done with the log. The command shows them to its user."""


def warn(message: str, *arguments: object) -> None:
    """Logs a line about a wait that takes long, and hands it to the listeners."""
    logger.warning(message, *arguments)
    for listener in listeners:
        listener(message % arguments)


class LockWait:
    """One wait for the locks of the journal at `path`, from now on. Used by one thread at a time."""

    def __init__(self, path: Path, limit: float = math.inf) -> None:
        self._path = path
        self._limit = limit
        self._started = time.monotonic()
        self._told_after: float | None = None
        """How many seconds it had lasted when it was logged last."""

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self._started

    def check(self) -> None:
        """To be called now and then while it lasts. Raises `StorageBusy` when the limit is reached."""
        waited = self.seconds
        if waited >= self._limit:
            raise self.error()
        last = self._told_after
        if waited >= TELL_AFTER and (last is None or waited - last >= TELL_AGAIN):
            self._told_after = waited
            warn(
                "waiting for %s, which is locked by %s (%.0f s so far)",
                self._path,
                lock_holders.tell(self.holders()),
                waited,
            )

    def end(self) -> None:
        """The lock is there."""
        if self._told_after is not None:
            warn("%s is free again after %.0f s", self._path, self.seconds)

    def holders(self) -> list[Holder]:
        found = list(dict.fromkeys([*lock_holders.of_turn(self._path), *lock_holders.of_database(self._path)]))
        return [holder for holder in found if holder.process != os.getpid()] or found

    def error(self) -> StorageBusy:
        found = self.holders()
        return StorageBusy(
            str(self._path),
            f"it has been locked for {self.seconds:.0f} s by {lock_holders.tell(found)}",
            tuple([holder.process for holder in found]),
        )


class Reader(sqlite3.Connection):
    """A connection that may only read. A statement that meets a lock is repeated until that is gone: it fails before
    its first row, so nothing of it has happened.

    Because it cannot write, its end neither copies the log nor deletes it, for which SQLite would lock the whole file.
    """

    path: Path
    limit: float

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)  # type: ignore[arg-type]
        except sqlite3.OperationalError as error:
            if not failures.is_locked(error):
                raise
        wait = LockWait(self.path, self.limit)
        while True:
            try:
                cursor = super().execute(sql, parameters)  # type: ignore[arg-type]
            except sqlite3.OperationalError as error:
                if not failures.is_locked(error):
                    raise
                wait.check()
            else:
                wait.end()
                return cursor


def connect_to_read(path: Path, limit: float) -> Reader:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    reader = sqlite3.connect(
        uri, uri=True, timeout=CHECK_EVERY, isolation_level=None, check_same_thread=False, factory=Reader
    )
    reader.path, reader.limit = path, limit
    reader.execute(schema.CHECK_CELLS)
    return reader
