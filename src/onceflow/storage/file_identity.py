"""Detects that files which an engine holds open were moved or replaced at their paths.

A process goes on writing to a file that was moved or deleted, and never learns of it. What it writes to a deleted
journal is lost, and an engine that opens the old path begins a new journal beside it. So the journal compares the
device and inode of these files with those that it opened: after each commit, before the caller learns that it
succeeded, and before it reads.

To look at every file each time costs as much as all other checks of a commit. A file in the home directory cannot be
moved, replaced or deleted without a change of the directory's modification time, so usually a look at the directory is
enough. The files are looked at if that time has changed; if it is so recent that a second change could bear the same
time; and if the last look is `LOOK_EVERY` old, because a lock lies in a subdirectory. (A missing lock endangers nothing
by itself: an engine that takes the runs over has a higher epoch, and later commits of this one are refused.)

What remains is the time between two looks: a home directory that is moved while attempts run is noticed when the next
one of them, or anything else, has something to save. A file that is overwritten in place stays the same file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from onceflow.errors import StorageMoved
from onceflow.storage import failures

LOOK_EVERY = 0.1
"""Seconds after which the files are looked at again although their directory has not changed."""

SAME_TIME = 50_000_000
"""Nanoseconds within which two changes of a directory may bear the same time. File systems keep it in steps of a few
milliseconds."""


class FileIdentity:
    """The files at these paths in a home directory, as they are now."""

    def __init__(self, home: Path, *paths: Path) -> None:
        self._home = home
        self._folder = str(home)
        self._files: list[tuple[str, int, int]] = []
        self._seen: tuple[int, int, int] | None = None
        """Device, inode and modification time of the home directory when the files were in it. None: look again."""
        self._look_at = 0.0
        """When the files are looked at again anyway."""
        for path in paths:
            found = os.stat(path)
            self._files.append((str(path), found.st_dev, found.st_ino))

    def check(self) -> bool:
        """Raises `StorageMoved` if they are somewhere else, or nowhere. Returns whether something may have changed in
        the home directory since it was called last."""
        try:
            found = os.stat(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            raise StorageMoved(self._folder, "it is not there any more") from None
        except OSError as error:
            raise failures.from_system(error, self._home) from error
        seen = (found.st_dev, found.st_ino, found.st_mtime_ns)
        if seen == self._seen and time.monotonic() < self._look_at:
            return False
        self._look_at_files()
        self._seen = seen if abs(time.time_ns() - found.st_mtime_ns) > SAME_TIME else None
        self._look_at = time.monotonic() + LOOK_EVERY
        return True

    def _look_at_files(self) -> None:
        for path, device, inode in self._files:
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                raise StorageMoved(self._folder, f"{os.path.basename(path)} is not there any more") from None
            except OSError as error:
                raise failures.from_system(error, self._home) from error
            if found.st_ino != inode or found.st_dev != device:
                raise StorageMoved(self._folder, f"there is another {os.path.basename(path)} now")
