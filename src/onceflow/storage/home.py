"""The home directory: everything that engines of one host share.

    journal.db (and -wal, -shm, -marks, -next, -turn)  the journal, unless that is in a PostgreSQL database
    blobs/<run>/...                               large values, if no other place is chosen for them (`blob_stores`)
    secrets.key                                   seals secrets (`values.sealed_bytes`); made when first needed
    engines/<id>                                  a locked file for each living engine
    engines/<id>.bell                             a named pipe: rung when there is something for it in the journal
    engines/<id>.socket                           where it answers questions about the runs that it drives
    logs/...                                      what tasks print, and what engines do (`logs`)

    workers/<id>/...                              locks of workers (`engine.proof_of_death`)
    spill/                                        where large values are moved to when memory is short
    collected                                     when orphans were last collected

Only its user may enter it: what lies here is unpickled. So opening it begins with a check that no other user could have
written or exchanged anything of it (`values.trust`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from onceflow.errors import StorageError
from onceflow.storage import blob_urls, failures, leases, logs, names, notifications, orphans, private_files
from onceflow.storage.blob_stores import Stores
from onceflow.storage.inspection import Inspection, Progress, Rows
from onceflow.storage.journal import Durability, Journal
from onceflow.storage.lock_waits import LOCK_TIMEOUT
from onceflow.storage.locks import Engines
from onceflow.storage.notifications import Bell
from onceflow.storage.run_stores import Introduction, Members
from onceflow.storage.sockets import Listener
from onceflow.storage.sqlite import SqliteJournal
from onceflow.values import trust
from onceflow.values.sealed_bytes import KEY_FILE
from onceflow.version import VERSION

if TYPE_CHECKING:
    from onceflow.storage.postgres.presence import Attendance

JOURNAL = "journal.db"
BLOBS = "blobs"
ENGINES = "engines"
WORKERS = "workers"
"""A folder for each engine, with the lock of its workers."""
SPILL = "spill"
STAMP = "collected"
"""The file whose time says when orphans were last collected."""

ENTRIES = (
    *[f"{JOURNAL}{suffix}" for suffix in ("", "-wal", "-shm", "-marks", "-next", "-turn")],
    *(BLOBS, ENGINES, WORKERS, SPILL, STAMP, logs.LOGS, KEY_FILE),
)
"""All names that have a meaning in a home directory."""


class Home:
    """An opened home directory, held by one engine. A context manager; `close` is what its end calls.

    Opening creates what is missing and removes the locks of dead engines. It raises a `StorageError` that says what is
    wrong: `StorageNotTrusted`, `StorageReadOnly`, `StorageFull`, `StorageTooNew`, `StorageDamaged`. `blobs` is a URL
    (`blob_urls`) for large values that are not to be kept in the directory. `trusted_owners` are the ids of users whose
    folders are trusted.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "power",
        journal: str | None = None,
        lease: float = leases.SECONDS,
        blobs: str | None = None,
        lock_timeout: float = LOCK_TIMEOUT,
        trusted_owners: Collection[int] = (),
    ) -> None:
        self.path = path
        self.attendance: Attendance | None = None
        """Whether and how long others believe that this engine lives, if they may be on other hosts."""
        with failures.told(path):
            exists = check_trusted(path, trusted_owners)
            create_folder(path, parents=True)
            if not exists:
                check_trusted(path, trusted_owners)
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
                sqlite = SqliteJournal(
                    path / JOURNAL, durability=durability, lock_timeout=lock_timeout, lock=locks.path(self.lock.id)
                )
                self.journal, self._rows = sqlite, sqlite.rows
            else:
                from onceflow.storage.postgres.fleet import Fleet  # seldom needed

                fleet = Fleet(journal, path, self.lock.id, self._about, lease, locks)
                self.engines, self.journal, self.attendance = fleet, fleet.journal, fleet.journal.attendance
                self._rows = fleet.journal.rows
                self.attendance.heard = lambda: notifications.ring(path / ENGINES, self.lock.id)
            opened.callback(self.journal.close)
            if (elsewhere := blob_urls.folder_of(blobs)) is not None:
                with failures.told(elsewhere):
                    trust.check_path(elsewhere, trusted_owners, "choose another place for `blobs`")
            identity = names.check_identity(self.journal.identity()) if blobs else ""
            self.blobs = Stores(path / BLOBS, blobs, identity, self._appear, trusted_owners)
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
        """Announces that this engine takes so many runs without a driver."""
        self._about = msgspec.structs.replace(self._about, capacity=capacity)
        self.lock.introduce(self._about)
        if self.attendance is not None:
            self.attendance.introduce(self._about)

    def ring(self, engine: str) -> None:
        """Notify another engine that there is something in the journal."""
        self.engines.ring(engine)

    def collect_orphans(self, is_over: Callable[[], bool] = lambda: False) -> orphans.Collected:
        """See `orphans`."""
        collected = orphans.collect(self.blobs, self.journal, self.engines, is_over)
        return collected + orphans.collect_logs(logs.of_runs(self.path), self.journal, is_over)

    def count_orphans(self) -> orphans.Collected:
        """What `collect_orphans` would delete now."""
        return orphans.count(self.blobs, self.journal, self.engines)

    def inspection(self, tell: Callable[[Progress], None] = lambda progress: None) -> Inspection:
        """Reads everything, and reports what is damaged."""
        return Inspection(self._rows(), self.blobs, tell)

    def call_others(self) -> None:
        """After closing: other engines may continue what this engine has left. Those that share a database have been
        called already."""
        if (self.path / ENGINES).is_dir():  # else it was moved away with every engine in it
            Engines(self.path / ENGINES).ring_all()

    def close(self) -> None:
        """The lock goes last: an engine that sees this one dead finds everything it wrote."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_trusted(path: Path, owners: Collection[int]) -> bool:
    """Raises `StorageNotTrusted` if another user could have written or exchanged a part of this home directory. False
    if there is none yet. Blobs and the key are looked at once more when they are opened."""
    with failures.told(path):
        if not trust.check_path(path, owners):
            return False
        if not path.is_dir():
            raise StorageError(str(path), "it is not a directory")
        for name in ENTRIES:
            trust.check_inside(path / name, owners)
    return True


def create_folder(path: Path, *, parents: bool = False) -> None:
    """Without `parents` for what is in a home directory: one that was moved away does not come into being again."""
    try:
        if parents:
            private_files.make_folders(path)
        else:
            private_files.make_folder(path)
    except FileExistsError:
        raise StorageError(str(path), "it is not a directory") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
