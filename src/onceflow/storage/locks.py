"""Proof of death: each engine holds a lock for life, and a lock that can be taken proves that its holder is dead.

An engine has a random id, and a file of that name under `engines/`, which it keeps locked with `flock`. The kernel
releases the lock when the process ends, however it ends, so take-over needs no waiting. Process ids play no part:
their reuse is harmless. An engine that closed in peace has removed its file, which counts as dead as well.

To ask is to try for a *shared* lock: it is refused while the engine lives, and any number may ask at once without
taking each other for the engine. Each question opens the file anew, because a lock belongs to an opening of a file;
so an engine may be asked about from its own process too. Forked children let go of the lock (see `forks`).

Files of the dead are removed by the next process that opens the home directory. The one race is a remover that finds a
file just made and not yet locked. It holds its shared lock while it removes, so the maker gets its own lock only
afterwards, sees that its file has gone, and makes another.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from pathlib import Path

import msgspec

from onceflow.errors import StorageFull
from onceflow.storage import failures, forks, lock_holders, names, notifications, private_files, sockets
from onceflow.storage.lock_holders import Holder
from onceflow.storage.run_stores import EngineRow, Introduction

logger = logging.getLogger(__name__)


class EngineLock(forks.OwnFile):
    """Held until closed, or until this process ends."""

    def __init__(self, id: str, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self.id = id

    def introduce(self, about: Introduction) -> None:
        """Writes into the file which process holds it. On a full disk the file stays empty: the lock itself counts, and
        commands that only look need no more."""
        if self._descriptor is None:
            return
        text = msgspec.json.encode(about)
        try:
            with failures.told(self._path):
                os.pwrite(self._descriptor, text, 0)
                os.ftruncate(self._descriptor, len(text))
        except StorageFull as error:
            logger.debug("others cannot see who holds %s: %s", self._path, error)


class Engines:
    """The engines that share a home directory, by their locks in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self) -> EngineLock:
        """A lock for a new engine, under a new id."""
        with failures.told(self._folder):
            while True:
                id = os.urandom(8).hex()
                path = self._folder / id
                descriptor = private_files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.fstat(descriptor).st_nlink:
                    return EngineLock(id, path, descriptor)
                os.close(descriptor)

    def is_alive(self, id: str) -> bool:
        with failures.told(self._folder):
            descriptor = self._open_if_dead(id)
        if descriptor is None:
            return self.has(id)
        os.close(descriptor)
        return False

    def ring(self, id: str) -> None:
        """Notify an engine that there is something in the journal."""
        notifications.ring(self._folder, id)

    def ring_all(self) -> None:
        for id in self._ids():
            notifications.ring(self._folder, id)

    def members(self) -> list[EngineRow]:
        return [EngineRow(id, self._introduction(id), self.is_alive(id)) for id in self._ids()]

    def _ids(self) -> list[str]:
        with failures.told(self._folder):
            return sorted([name for name in os.listdir(self._folder) if "." not in name and names.is_plain(name)])

    def _introduction(self, id: str) -> Introduction:
        try:
            return msgspec.json.decode(self.path(id).read_bytes(), type=Introduction)
        except (OSError, msgspec.DecodeError):  # it has ended, or is about to write its description
            return Introduction()

    def path(self, id: str) -> Path:
        """Where the lock of an engine is. Raises `StorageDamaged` if it can be no engine."""
        return self._folder / names.check_engine(id)

    def process(self, id: str) -> Holder | None:
        """The process of an engine; None if it is on another host, or not known."""
        about = self._introduction(id)
        return lock_holders.describe(about.pid) if about.pid and about.host == socket.gethostname() else None

    def has(self, id: str) -> bool:
        """Whether there is a lock of this engine, held or not."""
        return self.path(id).exists()

    def remove_dead(self) -> list[str]:
        """Removes the files of engines that ended without doing so. Returns their ids."""
        removed = []
        with failures.told(self._folder):
            for name in os.listdir(self._folder):
                id, beside, _ = name.partition(".")
                if not names.is_plain(id):  # not ours
                    continue
                if beside:  # its bell, or its socket
                    if not (self._folder / id).exists():
                        (self._folder / name).unlink(missing_ok=True)
                    continue
                descriptor = self._open_if_dead(id)
                if descriptor is not None:
                    try:
                        for suffix in (notifications.SUFFIX, sockets.SUFFIX):
                            (self._folder / (id + suffix)).unlink(missing_ok=True)
                        (self._folder / id).unlink(missing_ok=True)
                    finally:
                        os.close(descriptor)
                    removed.append(id)
        return removed

    def _open_if_dead(self, id: str) -> int | None:
        """The opened file of a dead engine, under a shared lock. None if the engine lives or has left nothing."""
        try:
            descriptor = os.open(self.path(id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
