"""Whatever a job does when it is stopped: it ends, may clean up, and nothing that it started is left running."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.backends.local import forkserver
from onceflow.backends.local.reports import Died, Ended, Finished, Raised
from onceflow.errors import Stopped
from tests.backends.common import Gate, Loop, gate, nothing, pass_gate, running_pool, wait_for_end, write_line

GRACE = 0.5
"""Seconds. On a busy machine the two that stopping may take must not be used up by waiting."""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Loop]:
    """A pool of one worker."""
    with running_pool(tmp_path, workers=1, grace=GRACE) as made:
        yield made


class Held:
    """A named pipe that a job and all that it starts keep open."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def is_free(self) -> bool:
        """Whether all that had it are gone."""
        return bool(select.select([self._reading], [], [], 0)[0]) and os.read(self._reading, 1) == b""

    def close(self) -> None:
        os.close(self._reading)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path / "held")
    yield made
    made.close()


def announce(path: str) -> None:
    with open(path + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())


def shell(command: str, **options: Any) -> Callable[[int], Any]:
    return lambda kept: subprocess.run(["sh", "-c", command], pass_fds=(kept,), check=True, **options)


def spin() -> None:
    while True:
        pass


def become_a_daemon_and_spin() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    spin()


KINDS: dict[str, Callable[[int], Any]] = {
    "a loop": lambda kept: spin(),
    "a sleep": lambda kept: time.sleep(60),
    "a C call": lambda kept: ctypes.CDLL(None).sleep(60),
    "a C call that keeps the interpreter lock": lambda kept: ctypes.PyDLL(None).sleep(60),
    "a lock": lambda kept: threading.Event().wait(),
    "asyncio.run": lambda kept: asyncio.run(asyncio.sleep(60)),
    "a subprocess": shell("exec sleep 60"),
    "a subprocess of a subprocess": shell("sleep 60 & sleep 60"),
    "a subprocess in a session of its own": shell("exec sleep 60", start_new_session=True),
    "a subprocess that hides": shell("env -i setsid sleep 60 & sleep 60", env={"PATH": os.environ["PATH"]}),
    "a daemon": lambda kept: become_a_daemon_and_spin(),
}


def do(kind: str, door: str, held: str) -> None:
    kept = os.open(held, os.O_WRONLY)
    announce(door)
    KINDS[kind](kept)


async def do_async(kind: str, door: str, held: str) -> None:
    kept = os.open(held, os.O_WRONLY)
    if kind == "a subprocess":
        _children.append(await asyncio.create_subprocess_exec("sleep", "60", pass_fds=(kept,)))
    announce(door)
    if kind == "a sleep":
        time.sleep(60)  # noqa: ASYNC251  that is the point
    await asyncio.sleep(60)


_children: list[Any] = []
"""Kept: asyncio ends what nobody refers to any more."""


def stop_and_time(loop: Loop, token: int) -> float:
    begun = time.monotonic()
    loop.pool.stop(token)
    assert loop.report(token) == Ended(token, started=True)
    return time.monotonic() - begun


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_ended_and_nothing_of_it_is_left(alone: Loop, door: Gate, held: Held, kind: str) -> None:
    token = alone.start(do, kind, door.path, held.path)
    door.wait(alone)

    assert stop_and_time(alone, token) < 2

    assert held.is_free
    assert alone.call(nothing) is None
    assert alone.pool.statistics().deaths == 0


@pytest.mark.parametrize("kind", ["a loop", "a sleep", "a subprocess of a subprocess", "a subprocess that hides"])
def test_a_thread_is_ended_and_nothing_of_it_is_left(alone: Loop, door: Gate, held: Held, kind: str) -> None:
    token = alone.start(do, kind, door.path, held.path, threads=True)
    door.wait(alone)

    assert stop_and_time(alone, token) < 2

    assert held.is_free


@pytest.mark.parametrize("kind", ["await", "a subprocess", "a sleep"])
def test_an_async_job_is_ended_and_nothing_of_it_is_left(alone: Loop, door: Gate, held: Held, kind: str) -> None:
    token = alone.start(do_async, kind, door.path, held.path, is_async=True)
    door.wait(alone)

    assert stop_and_time(alone, token) < 2

    assert kind == "await" or held.is_free


def test_a_worker_goes_on_if_an_async_job_left_nothing_in_it(tmp_path: Path, door: Gate, held: Held) -> None:
    with running_pool(tmp_path, workers=1, grace=600) as loop:
        token = loop.start(do_async, "await", door.path, held.path, is_async=True)
        pid = door.wait(loop)

        stop_and_time(loop, token)

        assert loop.warm_up() == [pid]


@pytest.mark.parametrize("options", [{}, {"threads": True}], ids=["lane", "thread"])
def test_a_stopped_job_cleans_up_and_except_exception_does_not_keep_it(
    alone: Loop, door: Gate, tmp_path: Path, options: dict[str, Any]
) -> None:
    token = alone.start(_clean_up, door.path, str(tmp_path / "trace"), **options)
    door.wait(alone)

    alone.pool.stop(token)

    assert alone.report(token) == Ended(token, started=True)
    assert (tmp_path / "trace").read_text() == "Stopped\ncleaned up\n"


def _clean_up(door: str, trace: str) -> None:
    try:
        announce(door)
        while True:
            try:
                spin()
            except Exception:
                write_line(trace, "swallowed")
    except Stopped as stopped:
        write_line(trace, type(stopped).__name__)
        raise
    finally:
        write_line(trace, "cleaned up")


@pytest.mark.parametrize("options", [{}, {"threads": True}, {"is_async": True}], ids=["lane", "thread", "async"])
@pytest.mark.parametrize("then", ["return", "raise"])
def test_a_job_counts_as_stopped_whatever_it_does_then(
    alone: Loop, door: Gate, options: dict[str, Any], then: str
) -> None:
    token = alone.start(_go_on_async if "is_async" in options else _go_on, door.path, then, **options)
    door.wait(alone)

    alone.pool.stop(token)

    assert alone.report(token) == Ended(token, started=True)


def _go_on(door: str, then: str) -> str:
    try:
        announce(door)
        spin()
    except Stopped:
        if then == "raise":
            raise ValueError("another") from None
    return "a value"


async def _go_on_async(door: str, then: str) -> str:
    announce(door)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        if then == "raise":
            raise ValueError("another") from None
    return "a value"


def test_a_job_that_does_not_want_to_end_is_ended_after_the_grace(alone: Loop, door: Gate) -> None:
    token = alone.start(_refuse, door.path)
    door.wait(alone)
    begun = time.monotonic()
    alone.pool.stop(token)
    door.wait(alone)  # it has caught it

    assert alone.report(token) == Ended(token, started=True)
    assert time.monotonic() - begun >= GRACE


def _refuse(door: str) -> None:
    while True:
        with contextlib.suppress(Stopped):
            announce(door)
            spin()


def test_a_job_that_is_to_end_at_once_cannot_clean_up(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1, grace=600) as loop:
        token = loop.start(_clean_up, door.path, str(tmp_path / "trace"))
        door.wait(loop)

        loop.pool.stop(token, now=True)

        assert loop.report(token) == Ended(token, started=True)


def test_somebody_who_raises_stopped_has_not_been_stopped(alone: Loop) -> None:
    report = alone.report(alone.start(_raise_stopped))

    assert isinstance(report, Raised)
    assert report.permanent


def _raise_stopped() -> None:
    raise Stopped


def test_a_thread_that_is_stopped_leaves_the_others_of_its_worker_alone(
    alone: Loop, door: Gate, tmp_path: Path
) -> None:
    with gate(tmp_path / "other") as other_door:
        thread = alone.start(_clean_up, door.path, str(tmp_path / "trace"), threads=True)
        door.wait(alone)
        other = alone.start(pass_gate, other_door.path)
        pid = other_door.wait(alone)

        alone.pool.stop(thread)

        assert alone.report(thread) == Ended(thread, started=True)
        other_door.open()
        report = alone.report(other)
        assert isinstance(report, Finished)
        assert report.worker == pid
        assert alone.call(os.getpid) != pid  # who knows what the thread held when it was interrupted


def test_a_job_that_cannot_be_interrupted_does_not_die_for_one_behind_it(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1, grace=0) as loop:
        loop.learn_that_it_is_short(_keep_interpreter_lock, "", 0)
        deaf = loop.start(_keep_interpreter_lock, door.path, 300)
        behind = loop.start(_keep_interpreter_lock, "", 0)
        door.wait(loop)

        loop.pool.stop(behind)

        assert loop.result(deaf) == 300
        assert isinstance(loop.report(behind), Ended | Finished)


def _keep_interpreter_lock(door: str, milliseconds: int) -> int:
    if door:
        announce(door)
    ctypes.PyDLL(None).usleep(1000 * milliseconds)
    return milliseconds


def test_stopping_at_any_moment_harms_no_other_job(tmp_path: Path) -> None:
    with running_pool(tmp_path, workers=2) as loop:
        loop.learn_that_it_is_short(_count, 1)
        stopped = set()
        for number in range(300):
            token = loop.start(_count, number % 7, threads=number % 3 == 0)
            if number % 2:
                loop.pool.turn()
            if number % 5 == 0:
                loop.pool.stop(token)
                stopped.add(token)
            loop.until(lambda token=token: loop.count - len(loop.reports) < 5)  # type: ignore[misc]
        loop.until(lambda: len(loop.reports) == loop.count)

        for token, report in loop.reports.items():
            if token in stopped:
                assert isinstance(report, Finished | Ended)
            else:
                assert isinstance(report, Finished), (token, report)
        assert loop.pool.statistics().deaths == 0


def _count(thousands: int) -> int:
    total = 0
    for number in range(1_000 * thousands):
        total += number
    return total


def test_daemons_of_a_worker_that_died_are_ended(alone: Loop, held: Held) -> None:
    token = alone.start(_leave_daemon_and_die, held.path)

    assert isinstance(alone.report(token), Died)

    assert held.is_free


def _leave_daemon_and_die(held: str) -> None:
    kept = os.open(held, os.O_WRONLY)
    subprocess.run(["sh", "-c", "setsid sleep 60 & setsid sleep 60 &"], pass_fds=(kept,), check=True)
    os._exit(1)


def test_a_daemon_of_a_worker_that_lives_is_left_alone_when_another_one_dies(tmp_path: Path, held: Held) -> None:
    with running_pool(tmp_path, workers=2) as loop:
        loop.warm_up()
        daemons, survivor = loop.call(_start_daemon, held.path)
        others = [pid for pid in loop.warm_up() if pid != survivor]

        loop.pool._workers[others[0]].kill()
        loop.until(lambda: others[0] not in loop.pool._workers)

        assert Path(f"/proc/{daemons}").exists()
        pidfd = os.pidfd_open(daemons)
    wait_for_end(pidfd)
    assert held.is_free


def _start_daemon(held: str) -> tuple[int, int]:
    kept = os.open(held, os.O_WRONLY)
    command = "setsid sleep 60 >/dev/null 2>&1 & echo $!"
    done = subprocess.run(["sh", "-c", command], pass_fds=(kept,), check=True, stdout=subprocess.PIPE)
    os.close(kept)
    return int(done.stdout), os.getpid()


ENGINE = """
import sys
from pathlib import Path
from tests.backends.common import Loop
from tests.backends.test_stopped_code import _start_daemon
loop = Loop(Path(sys.argv[1]), 1)
print(loop.call(_start_daemon, sys.argv[2])[0], flush=True)
sys.stdin.read()
"""


def test_daemons_end_when_the_engine_is_killed(tmp_path: Path, held: Held) -> None:
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path), held.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    daemon = os.pidfd_open(int(engine.stdout.readline()))

    engine.kill()
    engine.wait()

    wait_for_end(daemon)
    engine.stdin.close()
    engine.stdout.close()


def test_the_children_of_this_process_are_found() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in forkserver._children()
        assert os.getpid() not in forkserver._children()
    finally:
        child.kill()
        child.wait()
