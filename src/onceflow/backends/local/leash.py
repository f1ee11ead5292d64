"""Until when workers may run (design 2.6), if their engine holds a lease on which others on other hosts rely.

The engine renews its lease and writes down the moment at which everything has to stop if nothing comes after it. The
fork server, which runs no user code and never blocks, ends all workers at that moment: also if the engine itself hangs,
or was stopped, and cannot do anything about it.

The moment stands in a file beside the lock of the workers, as a number of 8 bytes, in seconds of the clock that goes on
while the machine sleeps. 0 means: not known yet, nobody relies on anything.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from onceflow.storage import private_files

NAME = "leash"

AWAY = "away"
"""The same for workers on other hosts, which are not ended from here: when they will have ended by themselves."""

_FORMAT = struct.Struct("d")


class Leash:
    """Held by the engine."""

    def __init__(self, directory: Path, name: str = NAME) -> None:
        self._descriptor = private_files.open_file(directory / name, os.O_RDWR | os.O_CREAT)
        self.lengthen(0.0)

    def lengthen(self, moment: float) -> None:
        """Workers may run until then. From any thread, until it is closed."""
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, _FORMAT.pack(moment), 0)

    def close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


def find(directory: Path, name: str = NAME) -> int | None:
    """A descriptor for the fork server; None if there is no leash."""
    try:
        return os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def left(descriptor: int) -> float | None:
    """Seconds; None if there is no end."""
    (moment,) = _FORMAT.unpack(os.pread(descriptor, _FORMAT.size, 0))
    return None if moment == 0 else moment - time.clock_gettime(time.CLOCK_BOOTTIME)
