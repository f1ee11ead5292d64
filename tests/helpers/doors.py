"""Doors that hold tasks until the test opens them."""

from __future__ import annotations

import os
import select
from pathlib import Path

from tests.helpers.waiting import LONG


class Door:
    """Two named pipes. A task that passes waits for the test, which thereby knows that the task runs."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        os.mkfifo(self.path + ".here")
        self._here = os.open(self.path + ".here", os.O_RDWR | os.O_NONBLOCK)
        self._open = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def wait(self) -> int:
        """Returns when a task is at the door: the process it is in."""
        ready, _, _ = select.select([self._here], [], [], LONG)
        assert ready, "nobody came"
        return int(os.read(self._here, 8))

    def open(self, count: int = 1) -> None:
        os.write(self._open, b"." * count)

    def close(self) -> None:
        os.close(self._here)
        os.close(self._open)


def knock(path: str) -> None:
    """Says that it is there, waits until it is let through."""
    with open(path + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())
    with open(path, "rb", buffering=0) as opened:
        opened.read(1)
