"""Deaths: of a worker, of the fork server, of the engine. Nothing is lost, doubled or left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow.backends.local import locks
from onceflow.backends.local.reports import Died, Finished
from onceflow.errors import WorkersUnavailable
from tests.backends.common import (
    Gate,
    Loop,
    kill,
    nothing,
    pass_and_write,
    pass_gate,
    running_pool,
    wait_for_end,
)


def test_a_worker_that_is_killed_is_reported_with_what_it_ran(loop: Loop, door: Gate) -> None:
    token = loop.start(pass_gate, door.path)
    pid = door.wait(loop)

    kill(pid)

    assert loop.report(token) == Died((token,), pid, -signal.SIGKILL)
    assert loop.pool.statistics().deaths == 1


def test_of_jobs_that_shared_a_worker_none_is_certain_to_have_killed_it(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1) as loop:
        tokens = [loop.start(pass_gate, door.path, threads=True) for _ in range(2)]
        pid, _ = [door.wait(loop) for _ in tokens]

        kill(pid)

        assert [loop.report(token) for token in tokens] == [Died(tuple(tokens), pid, -9, "possible")] * 2


def test_jobs_that_run_alone_share_no_worker_at_the_same_time(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1) as loop:
        first = loop.start(_pass_gate_later, door.path, is_async=True, alone=True)
        second = loop.start(pass_gate, door.path, threads=True, alone=True)
        pid = door.wait(loop)

        kill(pid)

        assert loop.report(first) == Died((first,), pid, -9, "certain")
        door.wait(loop)
        door.open()
        assert loop.result(second) == "through"


async def _pass_gate_later(path: str) -> str:
    return pass_gate(path)


def test_a_job_that_had_ended_did_not_kill_its_worker(tmp_path: Path, door: Gate) -> None:
    """Its outcome was lost with the worker, because another job came after it at once."""
    with running_pool(tmp_path, workers=1) as loop:
        loop.learn_that_it_is_short(_die_if, False)
        tokens = [loop.start(_die_if, False), loop.start(_die_if, True)]

        ended, killer = [loop.report(token) for token in tokens]

        assert isinstance(killer, Died)
        assert killer.blame == "certain"
        assert isinstance(ended, Finished) or (isinstance(ended, Died) and ended.blame == "none")


def _die_if(is_last: bool) -> None:
    if is_last:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_exits_is_reported_with_its_status(loop: Loop) -> None:
    token = loop.start(os._exit, 7)

    report = loop.report(token)

    assert isinstance(report, Died)
    assert report.status == 7


def test_what_a_dead_worker_had_not_started_runs_elsewhere_once_each(tmp_path: Path, door: Gate) -> None:
    trace = str(tmp_path / "trace")
    with running_pool(tmp_path, workers=1) as loop:
        loop.learn_that_it_is_short(pass_and_write, "", "", "")
        held = loop.start(pass_and_write, door.path, trace, "held")
        others = [loop.start(pass_and_write, "", trace, str(number)) for number in range(30)]
        loop.pool.turn()  # everything is in the worker now
        assert loop.pool.statistics().queued == 0

        kill(door.wait(loop))

        assert isinstance(loop.report(held), Died)
        assert [loop.result(token) for token in others] == [str(number) for number in range(30)]
    assert sorted(map(int, Path(trace).read_text().split())) == list(range(30))


def test_a_worker_whose_sockets_user_code_closed_is_ended(loop: Loop) -> None:
    token = loop.start(_close_everything)

    report = loop.report(token)

    assert isinstance(report, Died)
    assert loop.call(nothing) is None


def _close_everything() -> None:
    os.closerange(3, 100)
    signal.pause()


def test_processes_that_a_killed_job_left_running_are_ended(loop: Loop, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "child")
    alive = os.open(tmp_path / "child", os.O_RDONLY | os.O_NONBLOCK)
    token = loop.start(_start_child_and_die, str(tmp_path / "child"))

    assert isinstance(loop.report(token), Died)

    assert select.select([alive], [], [])[0]  # the end of the pipe is closed: the child is gone
    assert os.read(alive, 10) == b""
    os.close(alive)


def _start_child_and_die(path: str) -> None:
    with open(path, "wb") as held:
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=(held.fileno(),))
    os._exit(1)


def test_a_child_that_user_code_forked_does_not_become_a_second_worker(loop: Loop, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "child")
    alive = os.open(tmp_path / "child", os.O_RDONLY | os.O_NONBLOCK)

    child = loop.call(_fork_carelessly, str(tmp_path / "child"))

    assert child > 0
    select.select([alive], [], [])
    assert os.read(alive, 10) == b""
    os.close(alive)
    assert loop.call(nothing) is None


def _fork_carelessly(path: str) -> int:
    held = os.open(path, os.O_WRONLY)
    child = os.fork()
    if child:
        os.close(held)
    return child


def test_when_the_fork_server_is_killed_its_workers_end_and_the_pool_goes_on(loop: Loop, door: Gate) -> None:
    loop.warm_up()
    token = loop.start(pass_gate, door.path)
    pid = door.wait(loop)
    other = loop.start(nothing)

    kill(loop.pool._servers.all[-1].pid)

    assert loop.report(token) == Died((token,), pid, None)
    assert isinstance(loop.report(other), Finished | Died)
    assert loop.call(nothing) is None


def test_a_pool_that_cannot_start_workers_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with running_pool(tmp_path) as loop, pytest.raises(WorkersUnavailable):
        loop.call(nothing)


def test_a_closed_pool_leaves_nothing_behind(tmp_path: Path, door: Gate) -> None:
    before = _descriptors()
    with running_pool(tmp_path) as loop:
        pids = [loop.pool._servers.all[0].pid, *loop.warm_up()]
        pidfds = [os.pidfd_open(pid) for pid in pids]
        loop.start(pass_gate, door.path)
        door.wait(loop)

    for pidfd in pidfds:
        wait_for_end(pidfd)
    assert _descriptors() == before
    assert locks.all_gone(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {locks.NAME, "door", "door.here"}


def test_deaths_leave_no_descriptors_behind(loop: Loop, door: Gate) -> None:
    for pid in loop.warm_up():
        kill(pid)
    loop.until(lambda: loop.pool.statistics().deaths == 2)
    loop.warm_up()
    before = _descriptors()

    for pid in loop.warm_up():
        kill(pid)
    loop.until(lambda: loop.pool.statistics().deaths == 4)
    loop.warm_up()

    assert len(_descriptors()) == len(before)


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


FORKING = """
import os, sys
from pathlib import Path
from tests.backends.common import nothing, running_pool
with running_pool(Path(sys.argv[1])) as loop:
    loop.call(nothing)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    pids = [loop.pool._servers.all[0].pid, *loop.warm_up()]
print(*pids, flush=True)
os.close(writing)
os.waitpid(child, 0)
"""


def test_a_forked_child_of_the_engine_does_not_keep_a_closed_pool_alive(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 3
    assert locks.all_gone(tmp_path)


ENGINE = """
import os, sys
from pathlib import Path
from onceflow.errors import WorkersUnavailable
from tests.backends.common import Gate, Loop, pass_gate
loop = Loop(Path(sys.argv[1]))
gate = Gate(Path(sys.argv[1]) / "door")
pids = loop.warm_up()
loop.start(pass_gate, gate.path)
loop.start(pass_gate, gate.path, threads=True)
gate.wait(loop), gate.wait(loop)
print(loop.pool._servers.all[0].pid, *pids, flush=True)
sys.stdin.read()
"""


def test_when_the_engine_is_killed_everything_ends_and_the_lock_proves_it(tmp_path: Path) -> None:
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    pidfds = [os.pidfd_open(int(pid)) for pid in engine.stdout.readline().split()]
    assert len(pidfds) == 3
    assert not locks.all_gone(tmp_path)

    engine.kill()
    engine.wait()

    assert locks.all_gone(tmp_path, wait=True)
    for pidfd in pidfds:
        wait_for_end(pidfd)
    engine.stdin.close()
    engine.stdout.close()


def test_a_fork_server_that_is_killed_before_its_first_worker_is_replaced(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        kill(loop.pool._servers.all[-1].pid)
        assert loop.call(nothing) is None
