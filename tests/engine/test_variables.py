"""Task variables with real workers: shared, committed with outputs, cheap to read."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, Variable, task
from onceflow.errors import InvalidVariable, RunPaused
from tests.engine.common import pass_door
from tests.helpers.doors import Door

done = Variable("done", 0)
flag = Variable("exit flag", False)


@task(writes=[done], can_rollback=True)
def step(number: int, trap: str) -> int:
    done.update(lambda count: count + 1)
    if not os.path.exists(trap):
        Path(trap).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@task
def gather(*numbers: Any) -> tuple[int, int]:
    return len(numbers), done.get()


def test_updates_of_many_tasks_count_once_each_though_workers_are_killed(engine: Engine, tmp_path: Path) -> None:
    traps = [str(tmp_path / f"trap{number // 10}") for number in range(30)]
    handle = engine.run_async(gather.bind(*[step.bind(number, trap) for number, trap in enumerate(traps)]))
    assert handle.result() == (30, 30)
    assert handle.variables == {"done": 30}


def test_a_task_that_runs_sees_what_another_one_has_committed(engine: Engine, door: Door) -> None:
    """Given a task that looks at the exit flag, when another one sets it, then the first one sees that."""

    @task(can_rollback=True)
    def work(path: str) -> list[bool]:
        seen = [flag.get()]
        pass_door(path)
        while not flag.get():
            pass
        return [*seen, flag.get()]

    @task(writes=[flag])
    def stop(path: str) -> None:
        pass_door(path)
        flag.set(True)

    @task
    def both(seen: list[bool], stopped: None) -> list[bool]:
        return seen

    handle = engine.run_async(both.bind(work.bind(door.path), stop.bind(door.path)))
    door.wait()
    door.wait()
    door.open(2)
    assert handle.result() == [False, True]


def test_threads_and_coroutines_have_variables_too(engine: Engine) -> None:
    @task(writes=[done], threads=True)
    def in_thread() -> int:
        done.update(lambda count: count + 1)
        return done.get()

    @task(writes=[done])
    async def in_loop(before: int) -> int:
        done.update(lambda count: count + 10)
        return done.get()

    handle = engine.run_async(in_loop.bind(in_thread.bind()))
    assert handle.result() == 11
    assert handle.variables == {"done": 11}


def test_a_large_output_and_what_its_task_wrote_count_together(engine: Engine) -> None:
    @task(writes=[done], can_rollback=True, num_returns=2)
    def make() -> tuple[bytes, bytes]:
        done.update(lambda count: count + 1)
        return b"x" * 500_000, b"small"

    @task
    def measure(large: bytes, small: bytes) -> tuple[int, int]:
        return len(large) + len(small), done.get()

    large, small = make.bind()
    assert engine.run(measure.bind(large, small)) == (500_005, 1)


def test_an_undo_may_read_and_not_write(engine: Engine) -> None:
    def take_back() -> None:
        assert done.get() == 0
        done.set(1)

    @task(rollback=take_back, retry=RetryPolicy(0, delay=0.001))
    def book() -> str:
        return "room"

    @task(can_rollback=True)
    def decline(room: str) -> None:
        raise ValueError(room)

    with pytest.raises(RunPaused) as caught:
        engine.run(decline.bind(book.bind()), on_failure="undo", name="no writes")
    assert isinstance(caught.value.__cause__, InvalidVariable)


def test_another_engine_goes_on_with_what_was_committed(tmp_path: Path, door: Door) -> None:
    @task
    def at_door(number: int, path: str) -> int:
        pass_door(path)
        return done.get()

    @task(writes=[done], can_rollback=True)
    def bump() -> int:
        done.update(lambda count: count + 1)
        return 1

    first = Engine(tmp_path / "home", workers=1)
    first.run_async(at_door.bind(bump.bind(), door.path), name="shared")
    door.wait()
    first.close()
    with Engine(tmp_path / "home", workers=1) as second:
        assert second.variables("shared") == {"done": 1}
        handle = second.resume_async("shared")
        door.wait()
        door.open()
        assert handle.result() == 1
