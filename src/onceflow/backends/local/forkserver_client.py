"""The pool's side of a fork server: starts it, asks it for workers, and ends it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from onceflow.backends.local import locks, worker_deadline
from onceflow.backends.local.messages import FromServer, Receiver, Spawn, close, send
from onceflow.data.packets import pair
from onceflow.data.porter.startup import Start

_PROGRAM = """
import sys
control, lock, leash, engine, count = map(int, sys.argv[1:6])
preload = sys.argv[6:6 + count]
sys.path[:] = sys.argv[6 + count:]
del sys.argv[1:]
from onceflow.backends.local.forkserver import main
main(control, lock, leash, engine, preload)
"""

_PATIENCE = 10.0
"""Seconds that a fork server has to end its workers and itself. It is never busy, so this only runs out if it was
stopped with a signal."""


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Starter(Protocol):
    """What starts workers, and reports their births and ends."""

    fruitful: bool
    """Whether a worker of it has come to life."""
    starting: int
    """Workers that were asked for and are not there yet."""
    path: list[str]
    """`sys.path` with which its workers begin."""

    @property
    def connection(self) -> HasFileno:
        """Can be read when there is something to `receive`."""

    @property
    def pid(self) -> int: ...

    def spawn(self, wish: Spawn) -> None: ...

    def spawn_host(self, wish: Spawn, listener: int) -> None: ...

    def start_porter(self, start: Start, connection: socket.socket) -> None: ...

    def dismiss(self, pid: int) -> None:
        """A worker that has nothing to do is about to be sent away."""

    def receive(self) -> tuple[FromServer, tuple[int, ...]] | None:
        """The next message and its descriptors; None if the server is gone. Raises `BlockingIOError` if there is
        none."""

    def close(self) -> int:
        """Ends it and all its workers, and waits for that. Returns its exit status."""


class Server:
    """A fork server. Starting it takes some milliseconds here; until it is ready, requests wait in its socket."""

    def __init__(self, directory: Path, preload: Sequence[str], environment: Mapping[str, str]) -> None:
        self.fruitful = False
        """Whether a worker of it has come to life."""
        self.starting = 0
        """Workers that were asked for and are not there yet."""
        self.path = search_path()
        """`sys.path` with which its workers begin."""
        self.connection, theirs = pair()
        self.connection.setblocking(False)
        self._receiver: Receiver[FromServer] = Receiver(self.connection, FromServer)
        lock = locks.hold(directory)
        held = worker_deadline.find(directory)
        passed = (theirs.fileno(), lock) if held is None else (theirs.fileno(), lock, held)
        try:
            numbers = [theirs.fileno(), lock, -1 if held is None else held, os.getpid(), len(preload)]
            self._process = subprocess.Popen(
                [sys.executable, *_interpreter_flags(), "-c", _PROGRAM, *map(str, numbers), *preload, *self.path],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                pass_fds=passed,
                process_group=0,  # an interrupt from the terminal is for the engine, which decides what it means
            )
        finally:
            theirs.close()
            for descriptor in passed[1:]:
                os.close(descriptor)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def spawn(self, wish: Spawn) -> None:
        self.starting += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death is about to be noticed
            send(self.connection, wish)

    def spawn_host(self, wish: Spawn, listener: int) -> None:
        """A worker for an actor. It does not count among those that are asked for."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(self.connection, wish, (listener,))

    def start_porter(self, start: Start, connection: socket.socket) -> None:
        """A porter at this end of a socket. If it does not come to life, the other end is closed."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(self.connection, start, (connection.fileno(),))

    def dismiss(self, pid: int) -> None:
        """It leaves by itself."""

    def receive(self) -> tuple[FromServer, tuple[int, ...]] | None:
        """The next message and its descriptors; None if the server is gone. Raises `BlockingIOError` if there is
        none."""
        return self._receiver.receive()

    def close(self) -> int:
        """Ends it and all its workers, and waits for that. Returns its exit status."""
        close(self.connection)
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def search_path() -> list[str]:
    return list(sys.path)


def _interpreter_flags() -> list[str]:
    """`-W`, `-X` and the like, as this process was given them."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags
