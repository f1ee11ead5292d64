"""The fork server: a process that forks workers, reaps them and reports both to the pool. It also forks the porter,
which belongs to the engine and not to the pool: it ends with the engine, and whether it lives is seen at its socket.

It is single-threaded and never runs user code, so forking is safe, and a worker begins with everything loaded in memory
that it shares with its siblings. It never blocks: it waits for requests, for the end of a worker and for the end of
the engine (pidfds) at once.

What user code started and left running does not outlive its worker. Each worker leads a process group, which the server
kills when the worker has ended and before its id is given free. A process that has left the group (a daemon, a session
of its own) is found because workers and server are *subreapers*: a process whose parent has ended becomes a child of
its nearest living ancestor that is one. So while a worker lives, everything that it or its children started is below
it; when it has ended, whatever becomes a child of the server without having been forked by it is left over. As long as
the server has not waited for a child, the child's id cannot be given to another process. The pool is notified of a
worker's end when everything of it is gone.

Where workers may run no longer than a lease (`worker_deadline`), the kernel kills the server at the end of it, and the
workers with it. Then a second process is left to kill what they had started: the server's parent, the *reaper*.
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
import time
import traceback

from onceflow.backends.local import output_sender, worker_deadline, worker_process
from onceflow.backends.local.actors import process
from onceflow.backends.local.messages import Born, Gone, Ready, Receiver, Spawn, send
from onceflow.backends.local.reports import STANDARD
from onceflow.data import memory
from onceflow.data.packets import pair
from onceflow.data.porter.startup import Start

PAGE = mmap.PAGESIZE

PATIENCE = 5.0
"""Seconds. What is killed and still there after this time hangs in the kernel (a dead network file system), and is not
waited for any longer."""

PAUSE = 0.002
"""Seconds between two looks at what was killed."""

LOOK = 1.0
"""Seconds between two looks at the leash, at most."""

LOOKS = 4
"""Looks at the leash in the time that is left of it, at least, so that one that comes late does no harm."""

SHORTEST_LOOK = 0.01
"""Seconds."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15

WORKER, PORTER, ACTOR, REAPER = "onceflow-worker", "onceflow-porter", "onceflow-actor", "onceflow-reaper"
"""What the processes call themselves, as shown in process lists."""

ALWAYS_PRELOADED = (
    "cloudpickle",
    "onceflow.authoring.actors",
    "onceflow.authoring.event_nodes",
    "onceflow.authoring.graph_check",
    "onceflow.authoring.handlers",
    "onceflow.authoring.transactions",
    "onceflow.authoring.workflows",
    "onceflow.values.track",
)
"""Modules that programs with tasks import: `onceflow` imports them when their names are used. Functions of scripts need
cloudpickle."""


def main(control: int, lock: int, held: int, engine: int, preload: list[str]) -> None:
    """Runs until the engine closes the other end of `control` or is gone, or the leash ends (`held`; -1 if there is
    none). `lock` is only kept open: by each process that can be left."""
    connection = socket.socket(fileno=control)
    for descriptor in (control, lock, *([held] if held >= 0 else [])):
        os.set_inheritable(descriptor, False)
    try:
        watched = os.pidfd_open(engine)
    except ProcessLookupError:
        return
    if os.getppid() != engine:  # it died before it could be watched, and its id may belong to another process
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if held >= 0:
        _fork_from_reaper(connection, watched, held)
    missing = _preload([*ALWAYS_PRELOADED, *preload])
    gc.collect()
    gc.freeze()  # a collection in a worker would touch, and so copy, the pages that it shares with its siblings
    with connection:
        _Server(connection, watched, lock, held if held >= 0 else None).serve(missing)


def _fork_from_reaper(connection: socket.socket, engine: int, held: int) -> None:
    """Forks, and returns in the child, which is the server. The parent is the reaper: it waits for the server's end,
    kills what is left of its workers, and exits with the server's status."""
    parent = os.getpid()
    server = os.fork()
    if server == 0:
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != parent:
            os._exit(0)
        return
    _call_oneself(REAPER)
    connection.close()  # the pool notices the end of the server, not of the reaper
    for descriptor in (engine, held):
        os.close(descriptor)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
        _kill_children()
        os._exit(status if status >= 0 else 128 - status)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _kill_children() -> None:
    """Returns when this process has no children any more, apart from the porter and from what hangs in the kernel."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):  # there are none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = [pid for pid, name in _named_children() if name != PORTER]
        if not left:
            return
        for pid in left:  # none of them has been reaped, so the ids are theirs
            with contextlib.suppress(PermissionError):  # it became another user: nothing can be done about it
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)


def _preload(modules: list[str]) -> list[tuple[str, str]]:
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the module raises: the pool reports it to its user
            missing.append((module, f"{type(error).__name__}: {error}"))
    return missing


class _Server:
    def __init__(self, connection: socket.socket, engine: int, lock: int, held: int | None) -> None:
        self._connection = connection
        self._lock = lock
        self._leash = held
        self._deadline = None if held is None else worker_deadline.Deadline()
        self._end = 0.0
        """What the deadline is set to."""
        self._requests: Receiver[Spawn | Start] = Receiver(connection, Spawn | Start)
        self._engine = engine
        self._workers: dict[int, int] = {}
        """pidfd → process id. None of them has been reaped, so the ids are theirs."""
        self._porters: dict[int, int] = {}
        """Likewise."""
        self._ended: list[int] = []
        """Process ids of workers that have ended. They are reaped when nothing of them is left."""
        self._left: dict[int, tuple[int, float]] = {}
        """pidfd → process id of what workers had started, and when it was killed."""
        self._not_ours = set(_children())
        """What preloaded modules started."""
        self._poll = select.poll()
        for descriptor in (connection.fileno(), engine):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self, missing: list[tuple[str, str]]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the engine is gone
            self._look_at_leash()
            send(self._connection, Ready(missing))
            while self._turn():
                for pid, status in self._reap():
                    send(self._connection, Gone(pid, status))
        for pidfd in self._workers:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for descriptor in (self._connection.fileno(), self._engine):
            self._poll.unregister(descriptor)
        while self._workers or self._ended:
            self._turn()
            self._reap()

    def _turn(self) -> bool:
        """Whether to go on."""
        patience = 0.1 if self._ended else None
        soon = self._look_at_leash()
        if soon is not None:
            patience = soon if patience is None else min(soon, patience)
        for descriptor, _ in self._poll.poll(None if patience is None else patience * 1000):
            if descriptor in self._workers:
                self._bury(descriptor)
            elif descriptor in self._porters:
                self._poll.unregister(descriptor)
                os.waitpid(self._porters.pop(descriptor), 0)
                os.close(descriptor)
            elif descriptor in self._left:
                self._poll.unregister(descriptor)
                os.waitpid(self._left.pop(descriptor)[0], 0)
                os.close(descriptor)
            elif descriptor == self._engine or (received := self._requests.receive()) is None:
                return False
            elif isinstance(received[0], Start):
                self._fork_porter(received[0], received[1])
            else:
                self._fork(received[0], received[1])
        return True

    def _look_at_leash(self) -> float | None:
        """Sets the deadline to what the engine has written. Returns the seconds until the next look, if there is a
        leash. (The deadline needs no look to be met, also if the machine sleeps meanwhile.)"""
        if self._leash is None or self._deadline is None:
            return None
        end = worker_deadline.moment(self._leash)
        if end != self._end:
            self._deadline.set(end)
            self._end = end
        if end == 0:
            return LOOK
        left = end - time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(SHORTEST_LOOK, min(LOOK, left / LOOKS))

    def _fork_porter(self, start: Start, descriptors: tuple[int, ...]) -> None:
        connection = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                _call_oneself(PORTER)
                os.close(self._lock)  # what it proves is that no user code runs
                for descriptor in (*self._workers, *self._porters, *self._left):
                    os.close(descriptor)
                self._connection.close()
                from onceflow.data.porter import process as porter  # seldom needed

                porter.run(connection, start, self._engine)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)
        connection.close()
        pidfd = os.pidfd_open(pid)
        self._porters[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)

    def _fork(self, wish: Spawn, listeners: tuple[int, ...]) -> None:
        """`listeners`: the socket of the actor that the worker is for, if it is for one."""
        lane, workers_lane = pair()
        side, workers_side = pair()
        channel, workers_channel = pair()
        pipes = [os.pipe(), os.pipe()] if wish.capture else []
        readers = [reading for reading, _ in pipes]
        for reader in readers:
            os.set_blocking(reader, False)
        page = os.memfd_create("onceflow-page", os.MFD_CLOEXEC)
        os.ftruncate(page, PAGE)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_worker(parent, (lane, side, channel), ACTOR if wish.host else WORKER)
                for listener in listeners:
                    process.adopt(listener)
                output_sender.take_over([writing for _, writing in pipes])
                streams = dict(zip(readers, STANDARD, strict=False))
                worker_process.run(workers_lane, workers_side, workers_channel, page, streams, wish)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)  # a worker leaves by itself; a process that comes here failed to become one
        os.setpgid(pid, pid)  # the worker does so too, whichever is first
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        send(
            self._connection,
            Born(pid, wish.host),
            (lane.fileno(), side.fileno(), channel.fileno(), pidfd, page, *readers),
        )
        for connection in (lane, workers_lane, side, workers_side, channel, workers_channel):
            connection.close()
        for descriptor in (page, *listeners, *[end for ends in pipes for end in ends]):
            os.close(descriptor)

    def _become_worker(self, parent: int, not_mine: tuple[socket.socket, ...], name: str) -> None:
        os.setpgid(0, 0)
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _call_oneself(name)
        memory.raise_descriptor_limit()  # each large object may need one
        if os.getppid() != parent:
            os._exit(0)
        for connection in (self._connection, *not_mine):
            connection.close()
        mine = () if self._leash is None else (self._leash,)
        for descriptor in (self._engine, *mine, *self._workers, *self._porters, *self._left):
            os.close(descriptor)
        if "numpy.random" in sys.modules:  # preloaded: else all workers would draw the same numbers
            sys.modules["numpy.random"].seed()

    def _bury(self, pidfd: int) -> None:
        """This worker has ended."""
        pid = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left, or only other users' processes
            os.killpg(pid, signal.SIGKILL)
        self._ended.append(pid)

    def _reap(self) -> list[tuple[int, int]]:
        """Kills what the workers that have ended left behind. When nothing is left, reaps them and returns their ids
        and exit statuses. Among several at once they are not told apart."""
        if not self._ended:
            return []
        left = [pid for pid, _ in self._left.values()]
        known = {*self._workers.values(), *self._porters.values(), *self._ended, *left, *self._not_ours}
        now = time.monotonic()
        for pid in _children():
            if pid not in known:
                with contextlib.suppress(PermissionError):  # it became another user: nothing can be done about it
                    os.kill(pid, signal.SIGKILL)
                pidfd = os.pidfd_open(pid)
                self._left[pidfd] = (pid, now)
                self._poll.register(pidfd, select.POLLIN)
        if any(now - killed < PATIENCE for _, killed in self._left.values()):
            return []
        ended, self._ended = self._ended, []
        return [(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) for pid in ended]


def _call_oneself(name: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def _children() -> list[int]:
    """The ids of this process's children, zombies included."""
    return [pid for pid, _ in _named_children()]


def _named_children() -> list[tuple[int, str]]:
    """Also what they call themselves."""
    parent = str(os.getpid()).encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    stat = file.read()
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            before, _, after = stat.rpartition(b")")  # "pid (name) state parent …"
            if after.split(None, 2)[1] == parent:
                found.append((int(entry), before.partition(b"(")[2].decode(errors="replace")))
    return found
