"""How an agent gets workers: it asks Ray for them, on its own node, and they connect to its socket.

Implements `forkserver_client.Starter`: what a fork server is to the local backend. Ray's raylet is the parent of the
workers, so it is their pidfds that report their end. What a worker has started, and left, is found by its process
group and by what stands in its environment (`reaper.MARK`), and is gone before the end of the worker is reported.

A worker dies with its agent, by the kernel, as it would if the agent were its parent: between the two there is a pipe,
the *lifeline*, whose writing end only the agent has. When that is closed, the kernel sends SIGKILL to the worker's
process group (`F_SETSIG`). That needs no code of the worker's, which may be stopped, or hold the interpreter lock.
"""

from __future__ import annotations

import contextlib
import fcntl
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

from onceflow.backends.local.actors import messages
from onceflow.backends.local.messages import Born, FromServer, Gone, Spawn, send
from onceflow.backends.ray import reaper
from onceflow.data.packets import pair
from onceflow.data.porter.startup import Start

DISMISSAL = 1.0
"""Seconds that Ray has to end workers, before they are killed here."""

_F_SETSIG = 10
"""Not in `fcntl`. Which signal is sent when a file changes."""


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
        self._listener = messages.listen(self.door)
        self._listener.setblocking(False)
        self.connection.register(self._listener.fileno(), select.EPOLLIN)
        self._workers: dict[int, tuple[int, str, int]] = {}
        """pidfd → process id, mark, and the agent's end of the lifeline."""

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
        for other, mark, _ in self._workers.values():
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
                messages.check_user(connection)
            except PermissionError:
                return None
            connection.setblocking(True)
            mark, _, name = connection.recv(1024).decode().partition(" ")
            if not mark:
                return None
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:  # it has ended
                return None
            try:
                theirs_of_lifeline, lifeline = _lifeline(pid)
            except ProcessLookupError:
                os.close(pidfd)
                return None
            pairs = [pair() for _ in range(3)]
            pipes = [os.pipe(), os.pipe()] if self._wish.capture else []
            for reader, _ in pipes:
                os.set_blocking(reader, False)
            page = os.memfd_create("onceflow-page", os.MFD_CLOEXEC)
            os.ftruncate(page, mmap.PAGESIZE)
            theirs = [other.fileno() for _, other in pairs]
            theirs += [page, theirs_of_lifeline, *[end for ends in pipes for end in ends]]
            try:
                send(connection, self._wish, tuple(theirs))
            finally:
                os.close(theirs_of_lifeline)
                for _, other in pairs:
                    other.close()
                for _, writer in pipes:
                    os.close(writer)
        self._expected.discard(mark)
        self._workers[pidfd] = (pid, mark, lifeline)
        self.connection.register(pidfd, select.EPOLLIN)
        mine = [own.detach() for own, _ in pairs]
        return Born(pid, name), (*mine, os.dup(pidfd), page, *[reader for reader, _ in pipes])

    def _bury(self, pidfd: int) -> Gone:
        """This worker has ended. Returns when nothing of it is left."""
        pid, mark, lifeline = self._workers.pop(pidfd)
        self.connection.unregister(pidfd)
        for descriptor in (pidfd, lifeline):
            os.close(descriptor)
        reaper.kill_left_by(pid, reaper.mark_of(self.door, mark))
        return Gone(pid, None)

    def close(self) -> int:
        """Ends all workers."""
        self.connection.unregister(self._listener.fileno())
        self._listener.close()
        for _, mark, _ in self._workers.values():
            self._dismiss(mark)
        deadline = time.monotonic() + DISMISSAL
        for pidfd in self._workers:
            select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in list(self._workers):
            select.select([pidfd], [], [], reaper.PATIENCE)
            self._bury(pidfd)
        self.connection.close()
        return 0


def _lifeline(worker: int) -> tuple[int, int]:
    """The reading end, for the worker, which leads a process group, and the writing end, for this process. Raises
    `ProcessLookupError` if there is no such group."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reading, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(reading, fcntl.F_SETOWN, -worker)
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    return reading, writing
