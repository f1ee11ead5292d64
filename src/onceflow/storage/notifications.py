"""Bells: how one engine notifies another, on the same host, that there is something for it in the journal.

A bell is a named pipe beside the engine's lock. Ringing it writes a byte and never waits: a bell that is not answered,
or that has been rung often enough, is left alone. It only says "look": what is wanted stands in the journal, so a
ring that gets lost costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from onceflow.storage import failures, forks, names

SUFFIX = ".bell"


class Bell(forks.OwnFile):
    """An engine's own bell. `fileno()` becomes readable when it is rung."""

    def __init__(self, folder: Path, engine: str) -> None:
        path = folder / (engine + SUFFIX)
        with failures.told(folder):
            os.mkfifo(path, 0o600)
            path.chmod(0o600)  # whatever the umask
            super().__init__(path, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        assert self._descriptor is not None
        return self._descriptor

    def hush(self) -> None:
        """Forget that it was rung."""
        if self._descriptor is not None:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._descriptor, 4096):
                    pass


def ring(folder: Path, engine: str) -> None:
    """Ring another engine's bell. If it is dead or has been rung already, nothing happens."""
    bell = folder / (names.check_engine(engine) + SUFFIX)
    with contextlib.suppress(OSError):
        descriptor = os.open(bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)
