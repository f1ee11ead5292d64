"""Proof of death (design 2.6): before a run is taken over, its last engine and all workers of that engine are gone.

The engine's lock says that the engine is dead. Its workers then die by themselves, within milliseconds; their lock says
when the last one has. What still holds it after a grace period (a process that a task forked and left behind) is
killed, by pidfd, after making sure that it really holds this very lock.

Workers on other hosts hold no lock here. They end when they have heard nothing from their engine for a while, and until
when they may run at the most stands beside the lock.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onceflow.backends.local import locks, worker_deadline
from onceflow.storage import names
from onceflow.storage.home import WORKERS, create_folder

if TYPE_CHECKING:
    from onceflow.storage.run_stores import Living, Place

GRACE = 2.0
"""Seconds that the workers of a dead engine have to end by themselves. They need some milliseconds."""

PAUSE = 0.002
"""Seconds between two looks at a lock that is still held."""

LONGEST_AWAY = 60.0
"""Seconds after which engines no longer wait for workers on other hosts: a clock that began anew when this host did
would have them wait for days."""

logger = logging.getLogger(__name__)


def prepare(home: Path, engine: str) -> Path:
    """The folder of an engine's workers."""
    create_folder(home / WORKERS)
    folder = _folder(home, engine)
    create_folder(folder)
    return folder


def forget(home: Path, engine: str) -> None:
    """The engine has closed its pool: a proof is no longer needed."""
    shutil.rmtree(_folder(home, engine), ignore_errors=True)


def remove_dead(home: Path, engines: Living) -> None:
    """Remove the folders of engines that are dead together with all their workers."""
    with contextlib.suppress(FileNotFoundError):
        for engine in filter(names.is_plain, os.listdir(home / WORKERS)):
            if not engines.is_alive(engine) and are_workers_gone(home, engine):
                forget(home, engine)


def is_gone(home: Place, engine: str) -> bool:
    """Whether an engine is dead, with all its workers."""
    return not home.engines.is_alive(engine) and are_workers_gone(home.path, engine)


def are_workers_gone(home: Path, engine: str) -> bool:
    """Whether no worker of this dead engine is left."""
    folder = _folder(home, engine)
    return locks.all_gone(folder) and not _away(folder)


def wait_for_workers(home: Path, engine: str) -> None:
    """Returns when no worker of this dead engine is left."""
    folder = _folder(home, engine)
    deadline = time.monotonic() + GRACE
    while not locks.all_gone(folder):
        if time.monotonic() > deadline:
            kill_holders(folder / locks.NAME)
            deadline = time.monotonic() + GRACE
        time.sleep(PAUSE)
    time.sleep(_away(folder))


def _folder(home: Path, engine: str) -> Path:
    """Raises `StorageDamaged` if it can be no engine."""
    return home / WORKERS / names.check_engine(engine)


def _away(folder: Path) -> float:
    """Seconds for which workers on other hosts may still run."""
    held = worker_deadline.find(folder, worker_deadline.AWAY)
    if held is None:
        return 0.0
    try:
        return min(LONGEST_AWAY, max(0.0, worker_deadline.left(held) or 0.0))
    finally:
        os.close(held)


def kill_holders(lock: Path) -> None:
    """Kill every process of ours that has this file open."""
    wanted = os.stat(lock)
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        try:
            process = os.pidfd_open(int(entry))
        except OSError:
            continue
        try:
            # Looked at after the pidfd was opened: so it is this process that has the file, not a later one of its id.
            if _has_open(int(entry), wanted):
                logger.warning("killing process %s, which a dead engine left behind", entry)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:  # it ended, or belongs to another user
        return False
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            found = os.stat(f"{folder}/{descriptor}")
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False
