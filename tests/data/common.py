"""What the tests of the data plane share."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from onceflow.data.arena import Arena
from onceflow.data.mapping import Segments
from onceflow.data.places import Place
from onceflow.data.porter.client import Open, Porter
from onceflow.data.porter.messages import Counted, Failed, Fetched, Saved, Spilled
from onceflow.data.porter.startup import Start
from onceflow.storage.blobs import Author, Blobs

MB = 1024 * 1024

AUTHOR = Author("run", 3, "engine")

_PROGRAM = """
import socket, sys
from onceflow.data.porter.process import run
from onceflow.data.porter.startup import Start
{preparation}
run(socket.socket(fileno=int(sys.argv[1])), Start(sys.argv[2], sys.argv[3], 1_000_000))
"""


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


class Desk:
    """An engine's place: a porter (a process of its own), a worker's arena, and a reader. The end of the context ends
    them all. `preparation` is executed in the porter before it starts."""

    def __init__(self, folder: Path, preparation: str = "") -> None:
        self.blobs = Blobs(folder / "blobs")
        (folder / "blobs").mkdir(exist_ok=True)
        self.spill_folder = folder / "spill"
        self._program = _PROGRAM.format(preparation=preparation)
        self._start = Start(str(folder / "blobs"), str(self.spill_folder), 1_000_000)
        self._process: subprocess.Popen[bytes]
        self.lost: list[Open] = []
        self.refused: list[int] = []
        self.selector = selectors.DefaultSelector()
        self.porter = Porter(self.selector, self._start_process, lost=self.lost.append, refused=self.refused.append)
        self.arena = Arena(0)
        self.segments = Segments()
        self._objects = 0

    def _start_process(self, connection: socket.socket) -> None:
        arguments = [str(connection.fileno()), self._start.blobs, self._start.spill]
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._program, *arguments], pass_fds=[connection.fileno()]
        )

    def turn(self) -> None:
        """Waits for one thing to happen."""
        timeout = self.porter.turn()
        for key, _ in self.selector.select(timeout):
            key.data()

    def until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            assert self.porter.is_open
            self.turn()

    def keep(self, *pieces: bytes) -> tuple[int, Place]:
        """A new object that the porter holds: its number, and where it is."""
        place = self.arena.put(pieces)
        new = dict(self.arena.new())
        for segment, descriptor in new.items():
            self.segments.add(segment, os.dup(descriptor))
        self._objects += 1
        self.porter.keep(self._objects, place, new.get(place.segment))
        return self._objects, place

    def answer(self, ask: Callable[[Callable[[Any, int | None], None]], None]) -> tuple[Any, int | None]:
        answers: list[tuple[Any, int | None]] = []
        ask(lambda reply, descriptor: answers.append((reply, descriptor)))
        self.until(lambda: answers)
        return answers[0]

    def fetch(self, object: int) -> Fetched | Failed:
        """If it is there, the reader knows its segment afterwards."""
        reply, descriptor = self.answer(lambda done: self.porter.fetch(object, done))
        if isinstance(reply, Fetched):
            assert descriptor is not None
            self.segments.add(reply.place.segment, descriptor)
        return reply

    def read(self, object: int) -> memoryview:
        fetched = self.fetch(object)
        assert isinstance(fetched, Fetched)
        return self.segments.map(fetched.place)

    def save(self, object: int, name: str = "node") -> Saved | Failed:
        return self.answer(lambda done: self.porter.save(object, AUTHOR, name, done))[0]

    def spill(self, object: int) -> Spilled | Failed:
        return self.answer(lambda done: self.porter.spill(object, done))[0]

    def count(self) -> Counted:
        return self.answer(self.porter.count)[0]

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.porter.close()
        self._process.wait()
        self.selector.close()
        self.segments.close()
        for _, descriptor in self.arena.new():
            os.close(descriptor)
        self.arena.close()
