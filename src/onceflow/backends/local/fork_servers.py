"""The fork servers of a pool: the last one forks; those before it are closed when their last worker is gone."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
from collections.abc import Callable, Iterable

from onceflow.backends.local.forkserver_client import Starter
from onceflow.backends.local.messages import Born, Gone, Ready, Spawn
from onceflow.backends.local.workers import Worker
from onceflow.data.porter.startup import Start
from onceflow.errors import WorkersUnavailable

log = logging.getLogger(__name__)

FRUITLESS = 3
"""Fork servers that may die in a row before a worker of theirs has come to life. One may be killed by chance."""


class ForkServers:
    """`open` starts one. `born` gets each new worker, `gone` process id and exit status of each whose end is proved,
    and `died` a fork server that is gone: its workers die with it, and their exit status is lost."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        open: Callable[[], Starter],
        *,
        born: Callable[[Worker], None],
        gone: Callable[[int, int | None], None],
        died: Callable[[Starter], None],
    ) -> None:
        self._selector = selector
        self._start = open
        self._tell_born = born
        self._tell_gone = gone
        self._tell_died = died
        self.all: list[Starter] = []
        self.failure: WorkersUnavailable | None = None
        """Why there is no way to get a worker."""
        self._fruitless = 0
        """Fork servers in a row that died before a worker of theirs had come to life."""

    @property
    def starting(self) -> int:
        """Workers that were asked for and are not there yet."""
        return self.all[-1].starting if self.all else 0

    def open(self) -> None:
        """Start one, which forks from now on."""
        server = self._start()
        self.all.append(server)
        self._selector.register(server.connection, selectors.EVENT_READ, lambda: self._heard_from(server))

    def spawn(self, count: int, wish: Spawn) -> None:
        """Ask for so many workers, if they can be had."""
        if self.failure is None:
            for _ in range(count):
                self.all[-1].spawn(wish)

    def spawn_host(self, wish: Spawn, listener: int) -> None:
        self.all[-1].spawn_host(wish, listener)

    def start_porter(self, start: Start, connection: socket.socket) -> None:
        if self.failure is not None:
            raise self.failure
        self.all[-1].start_porter(start, connection)

    def forks(self, server: Starter) -> bool:
        """Whether it is the one that forks now."""
        return server is self.all[-1]

    def close_unused(self, used: Iterable[Starter]) -> None:
        """Those before the last that have no workers."""
        known = {id(server) for server in used}
        for server in self.all[:-1]:
            if id(server) not in known and not server.starting:
                self.all.remove(server)
                self._unwatch(server)
                server.close()

    def close(self) -> None:
        for server in self.all:
            self._unwatch(server)
            server.close()
        self.all.clear()

    def _heard_from(self, server: Starter) -> None:
        if server not in self.all:
            return
        try:
            received = server.receive()
        except BlockingIOError:
            return
        if received is None:
            self._server_died(server)
            return
        message, descriptors = received
        match message:
            case Ready(missing):
                for module, problem in missing:
                    log.warning("%s could not be preloaded: %s", module, problem)
            case Born(pid, host):
                worker = Worker(pid, server, descriptors, host)
                server.starting -= not worker.host
                server.fruitful = True
                self._tell_born(worker)
            case Gone(pid, status):
                self._tell_gone(pid, status)

    def _server_died(self, server: Starter) -> None:
        """It was killed."""
        is_last = self.forks(server)
        self._unwatch(server)
        self.all.remove(server)
        status = server.close()
        log.warning("the fork server %s died with status %s", server.pid, status)
        self._fruitless = 0 if server.fruitful else self._fruitless + 1
        if is_last and self._fruitless < FRUITLESS:
            self.open()
        elif is_last:  # another one would fare no better
            self.failure = WorkersUnavailable(
                f"the process that starts workers ended at once, with status {status}, {FRUITLESS} times in a row"
            )
        self._tell_died(server)

    def _unwatch(self, server: Starter) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it is closed already
            self._selector.unregister(server.connection)
