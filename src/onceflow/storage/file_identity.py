"""Notices that files which an engine holds open are no longer the ones that others find at their paths.

A process goes on writing to a file that was moved or deleted, and never learns of it. What it writes to a deleted
journal is lost, and an engine that opens the old path begins a new journal beside it. So the journal compares the
device and inode of these files with those that it opened: after each commit, before anybody learns that it succeeded,
and before it reads. That takes one or two microseconds.

What remains is the time between two looks: a home directory that is moved while attempts run is noticed when the next
one of them, or anything else, has something to save. A file that is overwritten in place stays the same file.
"""

from __future__ import annotations

import os
from pathlib import Path

from onceflow.errors import StorageMoved
from onceflow.storage import failures


class FileIdentity:
    """The files at these paths in a home directory, as they are now."""

    def __init__(self, home: Path, *paths: Path) -> None:
        self._home = home
        self._files: list[tuple[str, int, int]] = []
        for path in paths:
            found = os.stat(path)
            self._files.append((str(path), found.st_dev, found.st_ino))

    def check(self) -> None:
        """Raises `StorageMoved` if they are somewhere else, or nowhere."""
        for path, device, inode in self._files:
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                raise StorageMoved(str(self._home), f"{os.path.basename(path)} is not there any more") from None
            except OSError as error:
                raise failures.from_system(error, self._home) from error
            if found.st_ino != inode or found.st_dev != device:
                raise StorageMoved(str(self._home), f"there is another {os.path.basename(path)} now")
