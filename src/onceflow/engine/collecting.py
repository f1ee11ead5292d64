"""Collecting orphans (blobs that no run names) now and then, in the background, when an engine is opened."""

from __future__ import annotations

import logging
import os
import threading
import time

from onceflow.errors import StorageError
from onceflow.storage.home import BLOBS, Home

STAMP = "collected"
"""The file in the home directory whose time tells when orphans were last looked for."""

INTERVAL = 3600.0
"""Seconds."""

logger = logging.getLogger(__name__)


def collect_now_and_then(home: Home) -> threading.Thread | None:
    """Starts a thread that collects, if that was not done for some time and there may be something to collect."""
    stamp = home.path / STAMP
    try:
        if time.time() - stamp.stat().st_mtime < INTERVAL:
            return None
    except FileNotFoundError:
        pass
    with os.scandir(home.path / BLOBS) as folders:
        if next(folders, None) is None:
            return None
    thread = threading.Thread(target=_collect, args=(home,), name="onceflow orphans", daemon=True)
    thread.start()
    return thread


def _collect(home: Home) -> None:
    try:
        collected = home.collect_orphans()
    except StorageError as error:  # the home directory was closed or has failed: others will tell
        logger.info("orphans were not collected: %s", error)
        return
    (home.path / STAMP).touch()
    if collected.files:
        logger.info("collected %s orphans of %s bytes", collected.files, collected.bytes)
