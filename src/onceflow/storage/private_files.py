"""Files and folders that only their user may use, whatever the umask: 0600 and 0700.

The mode that a call asks for can only be narrowed by the umask, and is then set once more. A folder that was there
before keeps its mode: whether it can be trusted is for `values.trust` to say.
"""

from __future__ import annotations

import os
from pathlib import Path

FILE = 0o600
FOLDER = 0o700


def open_file(path: Path | str, flags: int) -> int:
    """Opens it, and creates it if the flags say so. Returns a descriptor that programs which are started do not get."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE)
    try:
        found = os.fstat(descriptor)
        if found.st_mode & 0o777 != FILE and found.st_uid == os.geteuid():
            os.fchmod(descriptor, FILE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def touch(path: Path) -> None:
    """Creates it if it is missing, and makes it look as if it had been written now."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Unless it is there. Raises `FileExistsError` if something else is."""
    try:
        path.mkdir(mode=FOLDER)
        path.chmod(FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise


def make_folders(path: Path) -> None:
    """The same with those above it that are missing."""
    try:
        make_folder(path)
    except FileNotFoundError:
        make_folders(path.parent)
        make_folder(path)
