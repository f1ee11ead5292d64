"""Workers run no longer than their leash, also if their engine does nothing."""

from __future__ import annotations

import math
import os
import select
import selectors
import signal
import subprocess
import time
from pathlib import Path

import pytest

from onceflow.backends.local import locks, worker_deadline
from onceflow.backends.local.forkserver import WORKER
from onceflow.backends.local.forkserver_client import Server
from onceflow.backends.local.messages import Born, Spawn
from onceflow.backends.local.worker_deadline import Leash
from tests.backends.common import nothing, running_pool, wait_for_end
from tests.helpers.waiting import until
from tests.tools.chaos.kills import children


def test_a_leash_tells_what_is_left_of_it(tmp_path: Path) -> None:
    held = Leash(tmp_path)
    descriptor = worker_deadline.find(tmp_path)
    assert descriptor is not None

    assert worker_deadline.left(descriptor) is None
    held.lengthen(time.clock_gettime(time.CLOCK_BOOTTIME) + 1000)
    left = worker_deadline.left(descriptor)
    assert left is not None
    assert 0 < left <= 1000
    held.lengthen(1.0)
    assert (worker_deadline.left(descriptor) or math.inf) < 0
    held.close()
    held.lengthen(2.0)  # whoever renews it may be late


def test_without_one_there_is_no_end(tmp_path: Path) -> None:
    assert worker_deadline.find(tmp_path) is None


def test_a_fork_server_ends_with_its_leash(tmp_path: Path) -> None:
    """Given a worker that waits for work, when the leash ends, then server and worker do, although nobody asked."""
    held = Leash(tmp_path)
    server, worker, ways = start_with_worker(tmp_path)

    held.lengthen(1.0)

    assert server._process.wait(60) == 128 + signal.SIGKILL
    wait_for_end(worker)
    assert locks.all_gone(tmp_path)
    held.close()
    close_all(server, ways)


@pytest.mark.parametrize("stopped", ["the fork server", "the fork server, its reaper and the worker"])
def test_workers_end_with_the_leash_although_their_fork_server_is_stopped(tmp_path: Path, stopped: str) -> None:
    """Given processes that can do nothing any more, when the leash ends, then the kernel ends the worker."""
    held = Leash(tmp_path)
    server, worker, ways = start_with_worker(tmp_path)
    (forker,) = children(server.pid)
    held.lengthen(time.clock_gettime(time.CLOCK_BOOTTIME) + 3)
    for _ in range(2):  # when it forks the second, it has looked at the leash after it forked the first
        server.spawn(Spawn(False, 20, False))
        born = server.receive()
        assert born is not None
        ways += born[1]

    # A worker calls itself so when the kernel knows that it dies with the fork server. Before, it runs nothing.
    until(lambda: all(Path(f"/proc/{pid}/comm").read_text().strip() == WORKER[:15] for pid in children(forker)))

    os.kill(forker, signal.SIGSTOP)
    if stopped != "the fork server":
        for pid in (server.pid, *children(forker)):
            os.kill(pid, signal.SIGSTOP)

    wait_for_end(worker)
    if stopped != "the fork server":
        os.kill(server.pid, signal.SIGCONT)
    assert server._process.wait(60) == 128 + signal.SIGKILL
    assert locks.all_gone(tmp_path)
    held.close()
    close_all(server, ways)


def test_what_a_worker_started_ends_with_the_leash(tmp_path: Path) -> None:
    """Also if it has left the worker's process group: the reaper, which the kernel leaves alive, looks for it."""
    (tmp_path / "workers").mkdir()
    held = Leash(tmp_path / "workers")
    os.mkfifo(tmp_path / "pids")
    with running_pool(tmp_path / "workers", workers=1) as loop:
        loop.start(start_program_and_wait, str(tmp_path / "pids"))
        reader = os.open(tmp_path / "pids", os.O_RDWR)
        loop.selector.register(reader, selectors.EVENT_READ, lambda: None)
        loop.until(lambda: bool(select.select([reader], [], [], 0)[0]))
        loop.selector.unregister(reader)
        program = os.pidfd_open(int(os.read(reader, 8)))
        os.close(reader)

        held.lengthen(1.0)

        wait_for_end(program)
        held.lengthen(0.0)
        assert loop.call(nothing) is None
    held.close()


def start_program_and_wait(pids: str) -> None:
    """A job."""
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(pids, "wb", buffering=0) as file:
        file.write(b"%8d" % program.pid)
    program.wait()


def start_with_worker(directory: Path) -> tuple[Server, int, list[int]]:
    """A fork server, the pidfd of a worker that it has forked, and the ways to it: it leaves when they are closed."""
    server = Server(directory, [], {})
    server.connection.setblocking(True)
    server.spawn(Spawn(False, 20, False))
    assert server.receive() is not None  # it is ready
    born = server.receive()
    assert born is not None
    assert isinstance(born[0], Born)
    return server, os.pidfd_open(born[0].pid), list(born[1])


def close_all(server: Server, ways: list[int]) -> None:
    for descriptor in ways:
        os.close(descriptor)
    server.connection.close()
