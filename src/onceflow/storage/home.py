"""The home directory: everything that engines of one host share.

    journal.db (and -wal, -shm, -marks, -next, -turn)  the journal, unless that is in a PostgreSQL database
    blobs/<run>/...                               large values, if no other place is chosen for them (`stores`)
    secrets.key                                   seals secrets (`values.sealing`); made when there is the first one
    engines/<id>                                  a locked file for each living engine
    engines/<id>.bell                             a named pipe: rung when there is something for it in the journal
    engines/<id>.socket                           where it answers questions about the runs that it drives
    logs/...                                      what tasks print, and what engines do (`logs`)

Only its user may enter it: what lies here is unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from onceflow.errors import StorageError
from onceflow.storage import bells, failures, leases, logs, orphans
from onceflow.storage.bells import Bell
from onceflow.storage.inspection import Inspection, Progress, Rows
from onceflow.storage.journal import Durability, Journal
from onceflow.storage.locks import Engines
from onceflow.storage.places import Introduction, Members
from onceflow.storage.sockets import Listener
from onceflow.storage.sqlite import SqliteJournal
from onceflow.storage.stores import Stores
from onceflow.version import VERSION

if TYPE_CHECKING:
    from onceflow.storage.postgres.attendance import Attendance

JOURNAL = "journal.db"
BLOBS = "blobs"
ENGINES = "engines"


class Home:
    """An opened home directory, held by one engine. A context manager; `close` is what its end calls.

    Opening creates what is missing and removes the locks of dead engines. It raises a `StorageError` that says what is
    wrong: `StorageReadOnly`, `StorageFull`, `StorageTooNew`, `StorageDamaged`. `blobs` is a URL (`blob_urls`) for large
    values that are not to be kept in the directory.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "power",
        journal: str | None = None,
        lease: float = leases.SECONDS,
        blobs: str | None = None,
    ) -> None:
        self.path = path
        self.attendance: Attendance | None = None
        """Whether and how long others believe that this engine lives, if they may be on other hosts."""
        with failures.told(path):
            create_folder(path)
            create_folder(path / BLOBS)
            create_folder(path / ENGINES)
        with contextlib.ExitStack() as opened:
            locks = Engines(path / ENGINES)
            locks.remove_dead()
            self.engines: Members = locks
            self.lock = locks.hold()
            opened.callback(self.lock.close)
            self._about = Introduction(os.getpid(), socket.gethostname(), str(path), VERSION, time.time())
            self.lock.introduce(self._about)
            self.bell = Bell(path / ENGINES, self.lock.id)
            opened.callback(self.bell.close)
            self.listener = Listener(path / ENGINES, self.lock.id)
            opened.callback(self.listener.close)
            self.journal: Journal
            self._rows: Callable[[], Rows]
            if journal is None:
                sqlite = SqliteJournal(path / JOURNAL, durability=durability)
                self.journal, self._rows = sqlite, sqlite.rows
            else:
                from onceflow.storage.postgres.fleet import Fleet  # seldom needed

                fleet = Fleet(journal, path, self.lock.id, self._about, lease, locks)
                self.engines, self.journal, self.attendance = fleet, fleet.journal, fleet.journal.attendance
                self._rows = fleet.journal.rows
                self.attendance.heard = lambda: bells.ring(path / ENGINES, self.lock.id)
            opened.callback(self.journal.close)
            self.blobs = Stores(path / BLOBS, blobs, self.journal.identity() if blobs else "", self._appear)
            opened.callback(self.blobs.close)
            self._opened = opened.pop_all()

    def _appear(self) -> None:
        if self.attendance is not None:
            self.attendance.enrol()

    @property
    def engine(self) -> str:
        """The id of the engine that opened it."""
        return self.lock.id

    def introduce(self, capacity: int) -> None:
        """Lets others know that this engine takes so many runs that nobody drives."""
        self._about = msgspec.structs.replace(self._about, capacity=capacity)
        self.lock.introduce(self._about)
        if self.attendance is not None:
            self.attendance.introduce(self._about)

    def ring(self, engine: str) -> None:
        """Tell another engine to look into the journal."""
        self.engines.ring(engine)

    def collect_orphans(self, is_over: Callable[[], bool] = lambda: False) -> orphans.Collected:
        """See `orphans`."""
        collected = orphans.collect(self.blobs, self.journal, self.engines, is_over)
        return collected + orphans.collect_logs(logs.of_runs(self.path), self.journal, is_over)

    def count_orphans(self) -> orphans.Collected:
        """What `collect_orphans` would delete now."""
        return orphans.count(self.blobs, self.journal, self.engines)

    def inspection(self, tell: Callable[[Progress], None] = lambda progress: None) -> Inspection:
        """Reads everything, and tells what is damaged."""
        return Inspection(self._rows(), self.blobs, tell)

    def call_others(self) -> None:
        """After closing: somebody may go on with what this engine has left. Those that share a database have been
        called already."""
        Engines(self.path / ENGINES).ring_all()

    def close(self) -> None:
        """The lock goes last: whoever sees this engine dead finds everything it wrote."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def create_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise StorageError(str(path), "it is not a directory") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
