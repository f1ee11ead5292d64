"""The fork server: a process that forks workers, reaps them and tells the pool of both.

It is single-threaded and never runs user code, so forking is safe, and a worker begins with everything loaded in memory
that it shares with its siblings. It never blocks: it waits for requests, for the end of a worker and for the end of
the engine (pidfds) at once.

Each worker leads a process group. When a worker has ended, and before its id is given free, the server kills the
group: what user code started and left running does not outlive its worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import mmap
import os
import select
import signal
import socket
import sys
import traceback

from onceflow.backends.local import process
from onceflow.backends.local.messages import Born, Gone, Ready, Receiver, Spawn, pair, send

PAGE = mmap.PAGESIZE

_PR_SET_PDEATHSIG = 1


def main(control: int, lock: int, engine: int, preload: list[str]) -> None:
    """Runs until the engine closes the other end of `control` or is gone. `lock` is only kept open."""
    connection = socket.socket(fileno=control)
    for descriptor in (control, lock):
        os.set_inheritable(descriptor, False)
    try:
        watched = os.pidfd_open(engine)
    except ProcessLookupError:
        return
    if os.getppid() != engine:  # it died before it could be watched, and its id may belong to somebody else
        return
    missing = _preload([*preload, "cloudpickle"])  # what scripts ship needs it
    gc.collect()
    gc.freeze()  # a collection in a worker would touch, and so copy, the pages that it shares with its siblings
    _Server(connection, watched).serve(missing)


def _preload(modules: list[str]) -> list[tuple[str, str]]:
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the module raises: the pool tells its user
            missing.append((module, f"{type(error).__name__}: {error}"))
    return missing


class _Server:
    def __init__(self, connection: socket.socket, engine: int) -> None:
        self._connection = connection
        self._requests: Receiver[Spawn] = Receiver(connection, Spawn)
        self._engine = engine
        self._workers: dict[int, int] = {}
        """pidfd → process id. None of them has been reaped, so the ids are theirs."""
        self._poll = select.poll()
        for descriptor in (connection.fileno(), engine):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self, missing: list[tuple[str, str]]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the engine is gone
            send(self._connection, Ready(missing))
            while self._turn():
                pass
        for pidfd in list(self._workers):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in list(self._workers):
            self._reap(pidfd)

    def _turn(self) -> bool:
        """Whether to go on."""
        for descriptor, _ in self._poll.poll():
            if descriptor in self._workers:
                pid, status = self._reap(descriptor)
                send(self._connection, Gone(pid, status))
            elif descriptor == self._engine or self._requests.receive() is None:
                return False
            else:
                self._fork()
        return True

    def _fork(self) -> None:
        lane, workers_lane = pair()
        side, workers_side = pair()
        page = os.memfd_create("onceflow-page", os.MFD_CLOEXEC)
        os.ftruncate(page, PAGE)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker(parent, (lane, side))
                process.run(workers_lane, workers_side, page)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)  # a worker leaves by itself; whoever comes here failed to become one
        os.setpgid(pid, pid)  # the worker does so too: whoever is first
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        send(self._connection, Born(pid), (lane.fileno(), side.fileno(), pidfd, page))
        for connection in (lane, workers_lane, side, workers_side):
            connection.close()
        os.close(page)

    def _become_worker(self, parent: int, not_mine: tuple[socket.socket, ...]) -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        for connection in (self._connection, *not_mine):
            connection.close()
        for descriptor in (self._engine, *self._workers):
            os.close(descriptor)
        if "numpy.random" in sys.modules:  # preloaded: else all workers would draw the same numbers
            sys.modules["numpy.random"].seed()

    def _reap(self, pidfd: int) -> tuple[int, int]:
        pid = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left, or only other users' processes
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        return pid, os.waitstatus_to_exitcode(status)
