"""What a node holds and has not started can be taken back, and what runs there ends with the lease."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray

from onceflow.backends.local.reports import Died, Ended
from onceflow.backends.ray.nodes import RESERVE, Station
from onceflow.backends.ray.pool import RayPool
from onceflow.values.functions import ship
from tests.backends.common import Gate, Loop, pass_gate, write_line

LEASE = 5.0


class RayLoop(Loop):
    def open_pool(self, directory: Path, workers: int, **options: Any) -> RayPool:
        return RayPool(
            "ray",
            directory,
            workers,
            preload=(),
            environment={},
            printed=None,
            progressed=lambda _: None,
            died=lambda pid, status: None,
            lost=lambda objects: None,
            variable=lambda token, name, tell: None,
            log_level=logging.INFO,
            store=None,
            silence=LEASE,
            until=lambda: None,
            **options,
        )

    @property
    def station(self) -> Station:
        (station,) = self.pool._stations.values()
        assert isinstance(station, Station)
        return station

    def learn_that_it_is_short(self, function: Any, *args: Any) -> None:
        self.call(function, *args)
        self.pool._estimates.seconds[ship(function).hash] = 20e-6

    def hold(self, door: Gate, trace: Path, count: int) -> tuple[int, list[int]]:
        """A job that runs at the door, and so many more that the node has, and that wait behind it."""
        self.learn_that_it_is_short(_step, "", str(trace), "short")
        trace.unlink()
        held = self.start(_step, door.path, str(trace), "held")
        behind = [self.start(_step, "", str(trace), str(number)) for number in range(count)]
        door.wait(self)
        assert {held, *behind} <= self.pool._holders.keys()
        return held, behind


@contextmanager
def running_pool(directory: Path) -> Iterator[RayLoop]:
    loop = RayLoop(directory, workers=1)
    try:
        yield loop
    finally:
        loop.pool.close()


@pytest.fixture(scope="module")
def shared(ray_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLoop]:
    """For tests that do not harm it: the first worker takes seconds."""
    with running_pool(tmp_path_factory.mktemp("pool")) as loop:
        yield loop


def test_what_a_node_holds_and_has_not_started_is_withdrawn_and_what_runs_goes_on(
    shared: RayLoop, door: Gate, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    held, behind = shared.hold(door, trace, 4)

    for token in (held, behind[1], behind[2]):
        shared.pool.withdraw(token)
    for token in (behind[1], behind[2]):
        assert shared.report(token) == Ended(token, started=False)
    door.open()

    assert shared.result(held) == "held"
    assert [shared.result(behind[0]), shared.result(behind[3])] == ["0", "3"]
    assert sorted(trace.read_text().split()) == ["0", "3", "held"]


def test_a_job_with_a_worker_of_its_own_is_withdrawn_before_that_has_joined(shared: RayLoop, tmp_path: Path) -> None:
    job = shared.start(write_line, str(tmp_path / "trace"), "started", cpus=1.0)
    shared.until(lambda: shared.pool.has(job))  # the node expects it; the worker connects later

    shared.pool.withdraw(job)

    assert shared.report(job) == Ended(job, started=False)
    assert shared.call(os.getpid)  # Ray has the cpu again
    assert not (tmp_path / "trace").exists()


def test_a_node_starts_nothing_of_what_it_holds_after_a_halt(ray_cluster: str, door: Gate, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with running_pool(tmp_path) as loop:
        held, behind = loop.hold(door, trace, 30)
        alone = loop.start(write_line, str(trace), "alone", cpus=1.0)

        loop.pool.halt()
        ray.get(loop.station.agent.beat.remote(0.0, False))  # it comes after what the node was told, and says nothing
        late = loop.start(_step, "", str(trace), "late")
        door.open()

        assert loop.result(held) == "held"
        for token in (*behind, alone, late):
            loop.pool.stop(token)
            assert loop.report(token) == Ended(token, started=False)
    assert trace.read_text() == "held\n"


def test_workers_and_what_they_started_end_with_the_lease_although_their_agent_is_stopped(
    ray_cluster: str, door: Gate, tmp_path: Path
) -> None:
    """Given a worker that is stopped, too: the kernel ends it."""
    with running_pool(tmp_path) as loop:
        job = loop.start(_start_program_and_wait, door.path)
        program = door.wait(loop)
        worker = _parent(program)
        ends = [os.pidfd_open(worker), os.pidfd_open(program)]
        agent = ray.get(loop.station.agent.about.remote())[1]

        os.kill(worker, signal.SIGSTOP)
        os.kill(agent, signal.SIGSTOP)

        for end in ends:
            assert select.select([end], [], [], LEASE * (1 + RESERVE))[0], "it has outlived the lease"
            os.close(end)
        assert isinstance(loop.report(job), Died)
        assert loop.call(os.getpid) != worker  # another agent takes its place


def _step(door: str, trace: str, line: str) -> str:
    """A job."""
    if door:
        pass_gate(door)
    return write_line(trace, line)


def _start_program_and_wait(door: str) -> None:
    """A job. What it starts is in a session of its own."""
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(door + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % program.pid)
    program.wait()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
