"""Converts errors of the operating system and SQLite to errors of onceflow."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from onceflow.errors import StorageDamaged, StorageError, StorageFull, StorageReadOnly

FROM_SQLITE = (sqlite3.Error, UnicodeDecodeError)
"""What Python's module raises. The latter: SQLite's message quotes a damaged name, which is no text."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

PRIMARY = 0xFF
"""SQLite's extended error codes hold the general one in their lowest byte."""


LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL})
"""Another process holds a lock. (The second is the error of a reader that has found it held a hundred times.)"""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH})
SHORT = frozenset({sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS})
"""A file ends before what is in it does."""
PHRASES = (
    "Could not decode to UTF-8",
    "malformed",
    "no such table",
    "no such column",
    "no such index",
    "has no column named",
    "already exists",
    "duplicate column name",
    "unsupported file format",
    "incomplete input",
    "syntax error",
    "unrecognized token",
)
"""Error texts for our own statements, which never change, if the tables are not those that were created; and for texts
that are not valid."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Errors of the system that are raised in here become ours."""
    try:
        yield
    except OSError as error:
        raise from_system(error, path) from error
    except FROM_SQLITE as error:
        raise from_sqlite(error, path) from error


def is_locked(error: sqlite3.Error) -> bool:
    """Whether nothing is wrong but that another process holds a lock."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & PRIMARY in LOCKED


def from_system(error: OSError, path: Path) -> StorageError:
    reason = error.strerror or str(error)
    if error.errno in FULL:
        return StorageFull(str(path), reason)
    if error.errno in READ_ONLY:
        return StorageReadOnly(str(path), reason)
    return StorageError(str(path), reason)


def from_sqlite(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> StorageError:
    if isinstance(error, UnicodeDecodeError):
        return StorageDamaged(str(path), "what SQLite says about it cannot be read")
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & PRIMARY
    reason = f"SQLite says: {error}"
    if code == sqlite3.SQLITE_FULL:
        return StorageFull(str(path), reason)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return (StorageDamaged if _is_too_new(path) else StorageReadOnly)(str(path), reason)
    if code in DAMAGED or extended in SHORT or any(phrase in str(error) for phrase in PHRASES):
        return StorageDamaged(str(path), reason)
    if code == sqlite3.SQLITE_IOERR:
        refused = _ask_for_room(path)
        if refused is not None:
            return from_system(refused, path)
    return StorageError(str(path), reason)


def _is_too_new(path: Path) -> bool:
    """Whether the header asks for a newer way to write than any SQLite has, which forbids writing. The file stays open:
    to close it would end the locks that SQLite has on it in this process."""
    try:
        return os.pread(os.open(path, os.O_RDONLY | os.O_CLOEXEC), 1, 18) > b"\x02"
    except OSError:
        return False


def _ask_for_room(path: Path) -> OSError | None:
    """SQLite reports a quota or a limit on file size as an input/output error like any other. The file system
    distinguishes them if it is asked to write at the same place of another file."""
    import tempfile  # slow to import, seldom needed

    wal = Path(f"{path}-wal")
    try:
        end = max(file.stat().st_size for file in (path, wal) if file.exists())
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            os.pwrite(probe.fileno(), b"\0" * 65_536, end)
    except OSError as error:
        return error
    return None
