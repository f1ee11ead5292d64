"""How an agent gets workers: it asks Ray for them, on its own node, and they come to its door.

Implements `server.Starter`: what a fork server is to the local backend. Ray's raylet is the parent of the workers, so
it is their pidfds that tell of their end. What a worker has started, and left, is found by its process group and by
what stands in its environment (`worker.MARK`), and is gone before the end of the worker is told.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from onceflow.backends.local.actors import wire
from onceflow.backends.local.messages import Born, FromServer, Gone, Spawn, send
from onceflow.backends.ray.worker import MARK
from onceflow.data.packets import pair
from onceflow.data.porter.starting import Start

log = logging.getLogger(__name__)

DISMISSAL = 1.0
"""Seconds that Ray has to end workers, before they are killed here."""

PATIENCE = 5.0
"""Seconds. What is killed and still there after this time hangs in the kernel."""


class RayStarter:
    """`ask` has Ray start a worker that comes to this door, under this mark, and `dismiss` has it end that one."""

    def __init__(self, ask: Callable[[str, str], None], dismiss: Callable[[str], None], wish: Spawn) -> None:
        self._ask = ask
        self._dismiss = dismiss
        self._wish = wish
        self.door = f"{os.getpid()}-{os.urandom(12).hex()}"
        self.fruitful = False
        self._expected: set[str] = set()
        """Marks of those that were asked for and are not there yet."""
        self.path = list(sys.path)
        self.pid = os.getpid()
        self.connection = select.epoll()
        self._listener = wire.listen(self.door)
        self._listener.setblocking(False)
        self.connection.register(self._listener.fileno(), select.EPOLLIN)
        self._workers: dict[int, tuple[int, str]] = {}
        """pidfd → process id and mark."""

    def spawn(self, wish: Spawn) -> None:
        mark = os.urandom(8).hex()
        self._expected.add(mark)
        self._ask(self.door, mark)

    @property
    def starting(self) -> int:
        return len(self._expected)

    @starting.setter
    def starting(self, count: int) -> None:
        """The pool counts those that were born. Here they are known by name (`_let_in`)."""

    def forget(self, mark: str) -> None:
        """This one does not come any more."""
        self._expected.discard(mark)

    def spawn_host(self, wish: Spawn, listener: int) -> None:
        """It comes by itself."""

    def start_porter(self, start: Start, connection: socket.socket) -> NoReturn:
        raise AssertionError("an agent has no porter")

    def dismiss(self, pid: int) -> None:
        for other, mark in self._workers.values():
            if other == pid:
                self._dismiss(mark)

    def receive(self) -> tuple[FromServer, tuple[int, ...]] | None:
        for descriptor, _ in self.connection.poll(0, 1):
            if descriptor == self._listener.fileno():
                born = self._let_in()
                if born is not None:
                    return born
            else:
                return self._bury(descriptor), ()
        raise BlockingIOError

    def _let_in(self) -> tuple[Born, tuple[int, ...]] | None:
        connection, _ = self._listener.accept()
        with connection:
            try:
                wire.check_user(connection)
            except PermissionError:
                return None
            connection.setblocking(True)
            mark, _, name = connection.recv(1024).decode().partition(" ")
            if not mark:
                return None
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            pidfd = os.pidfd_open(pid)
            pairs = [pair() for _ in range(3)]
            pipes = [os.pipe(), os.pipe()] if self._wish.capture else []
            for reader, _ in pipes:
                os.set_blocking(reader, False)
            page = os.memfd_create("onceflow-page", os.MFD_CLOEXEC)
            os.ftruncate(page, mmap.PAGESIZE)
            theirs = [*[other.fileno() for _, other in pairs], page, *[end for ends in pipes for end in ends]]
            try:
                send(connection, self._wish, tuple(theirs))
            finally:
                for _, other in pairs:
                    other.close()
                for _, writer in pipes:
                    os.close(writer)
        self._expected.discard(mark)
        self._workers[pidfd] = (pid, mark)
        self.connection.register(pidfd, select.EPOLLIN)
        mine = [own.detach() for own, _ in pairs]
        return Born(pid, name), (*mine, os.dup(pidfd), page, *[reader for reader, _ in pipes])

    def _bury(self, pidfd: int) -> Gone:
        """This worker has ended. Returns when nothing of it is left."""
        pid, mark = self._workers.pop(pidfd)
        self.connection.unregister(pidfd)
        os.close(pidfd)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and (left := _left_by(pid, mark)):
            for other in left:
                with contextlib.suppress(OSError):  # it has ended, or became another user
                    process = os.pidfd_open(other)
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    select.select([process], [], [], 0.1)
                    os.close(process)
        return Gone(pid, None)

    def close(self) -> int:
        """Ends all workers."""
        self.connection.unregister(self._listener.fileno())
        self._listener.close()
        for _, mark in self._workers.values():
            self._dismiss(mark)
        deadline = time.monotonic() + DISMISSAL
        for pidfd in self._workers:
            select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in list(self._workers):
            select.select([pidfd], [], [], PATIENCE)
            self._bury(pidfd)
        self.connection.close()
        return 0


def _left_by(worker: int, mark: str) -> list[int]:
    """The processes that a worker has left."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != worker:
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read()
            except OSError:  # it has ended, or belongs to somebody else
                continue
            is_zombie, group = fields[0] == b"Z", int(fields[2])
            if not is_zombie and (group == worker or wanted in environment.split(b"\0")):
                found.append(int(name))
    return found
