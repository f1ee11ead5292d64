"""The fork server also starts the porter, which belongs to the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from onceflow.data.arena import Arena
from onceflow.data.porter.client import Open, Porter
from onceflow.data.porter.messages import Counted
from onceflow.data.porter.startup import Start
from tests.backends.common import Loop, kill, nothing, running_pool, wait_for_end


class Engine:
    """A pool, and a porter that its fork server started."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        self._loop = loop
        start = Start(str(folder / "blobs"), str(folder / "spill"), 1_000)
        self.lost: list[Open] = []
        self.porter = Porter(
            loop.selector,
            lambda connection: loop.pool.start_porter(start, connection),
            lost=self.lost.append,
            refused=lambda number: None,
        )

    def until(self, is_so: Callable[[], object]) -> None:
        self.porter.turn()
        self._loop.until(lambda: bool(is_so()))

    def count(self) -> Counted:
        counted: list[Counted] = []
        self.porter.count(lambda reply, _: counted.append(reply))
        self.until(lambda: counted)
        return counted[0]

    def pidfd(self) -> int:
        self.count()
        assert self.porter.pid is not None
        return os.pidfd_open(self.porter.pid)


def test_a_porter_is_started_beside_the_workers(loop: Loop, tmp_path: Path) -> None:
    engine = Engine(loop, tmp_path)
    arena = Arena(0)
    place = arena.put([b"x" * 5_000_000])
    [(_, descriptor)] = arena.new()
    engine.porter.keep(1, place, descriptor)

    assert engine.count().size == 5_000_000
    assert loop.call(nothing) is None
    pidfd = engine.pidfd()
    engine.porter.close()
    wait_for_end(pidfd)
    assert loop.call(nothing) is None
    arena.close()


def test_the_end_of_a_porter_is_noticed_and_concerns_no_worker(loop: Loop, tmp_path: Path) -> None:
    workers = loop.warm_up()
    engine = Engine(loop, tmp_path)
    pidfd = engine.pidfd()

    kill(engine.porter.pid or 0)
    engine.until(lambda: engine.lost)

    wait_for_end(pidfd)
    assert loop.warm_up() == workers
    second = Engine(loop, tmp_path)
    assert second.count().objects == 0
    second.porter.close()


def test_a_worker_that_dies_takes_no_porter_with_it(loop: Loop, tmp_path: Path) -> None:
    engine = Engine(loop, tmp_path)
    engine.count()

    loop.report(loop.start(os._exit, 7))

    assert engine.count().objects == 0
    engine.porter.close()


def test_a_porter_outlives_its_fork_server(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        engine = Engine(loop, tmp_path)
        pidfd = engine.pidfd()
        kill(loop.pool._servers.all[-1].pid)
        assert loop.call(nothing) is None
        assert engine.count().objects == 0
        engine.porter.close()
        wait_for_end(pidfd)


def test_a_fork_server_that_dies_before_it_has_started_a_porter_loses_it(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        loop.warm_up()
        os.kill(loop.pool._servers.all[-1].pid, signal.SIGSTOP)
        engine = Engine(loop, tmp_path)
        kill(loop.pool._servers.all[-1].pid)

        engine.until(lambda: engine.lost)

        assert loop.call(nothing) is None


ENGINE = """
import sys
from pathlib import Path
from tests.backends.common import Loop
from tests.backends.test_porter import Engine
folder = Path(sys.argv[1])
engine = Engine(Loop(folder), folder)
engine.count()
print(engine.porter.pid, flush=True)
sys.stdin.read()
"""


def test_when_the_engine_is_killed_its_porter_ends(tmp_path: Path) -> None:
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    pidfd = os.pidfd_open(int(engine.stdout.readline()))

    engine.kill()
    engine.wait()

    wait_for_end(pidfd)
    engine.stdin.close()
    engine.stdout.close()
