"""Collecting orphans (blobs that no run names, logs of runs that are gone) now and then, in the background, when an
engine is opened."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path

from onceflow.errors import StorageError
from onceflow.storage import logs, private_files
from onceflow.storage.home import STAMP, Home

INTERVAL = 3600.0
"""Seconds."""

LONGEST_WAIT = 1.0
"""Seconds."""

logger = logging.getLogger(__name__)


class Collecting:
    """Collects in a thread, if that was not done for some time and there may be something to collect."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._over = False
        self._thread: threading.Thread | None = None
        if self._is_due():
            self._thread = threading.Thread(target=self._collect, name="onceflow orphans", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Breaks it off, and waits for that; but not for a place far away that does not answer."""
        self._over = True
        if self._thread is not None:
            self._thread.join(LONGEST_WAIT if self._home.blobs.any_far else None)

    def _is_due(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - (self._home.path / STAMP).stat().st_mtime < INTERVAL:
                return False
        return self._home.blobs.may_have_some() or _has_something(logs.of_runs(self._home.path))

    def _collect(self) -> None:
        try:
            collected = self._home.collect_orphans(lambda: self._over)
        except StorageError as error:  # other uses of the home directory meet it too
            logger.info("orphans were not collected: %s", error)
            return
        if collected.complete:
            private_files.touch(self._home.path / STAMP)
        if collected.files:
            logger.info("collected %s orphans of %s bytes", collected.files, collected.bytes)


def _has_something(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
