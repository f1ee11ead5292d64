"""Large outputs that stay in the memory of their worker: what runs notice of it, which is nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from onceflow import Engine, task
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note
from tests.helpers.waiting import until

MB = 1_000_000


@task.pure
def make(trace: str) -> Any:
    note(trace, "made")
    array = np.ones(MB)
    return {"array": array, "address": array.ctypes.data, "pid": os.getpid()}


@task.pure
def is_in_place(told: dict[str, Any]) -> bool:
    array = told["array"]
    return not array.flags.writeable and array.ctypes.data == told["address"] and os.getpid() == told["pid"]


@task.pure
def grow(array: Any) -> Any:
    return array + 1


@task.pure
def first_of(array: Any) -> float:
    return float(array[0])


@task.pure
def total_of(told: dict[str, Any]) -> float:
    return float(told["array"].sum())


@task.pure
def ones() -> Any:
    return np.ones(MB)


@task(can_rollback=True)
def save(array: Any) -> Any:
    return array * 2


@task
def pay(trace: str, told: dict[str, Any], _: Any = None) -> float:
    note(trace, "paid")
    return float(told["array"].sum())


@task(can_rollback=True)
def pass_door(path: str) -> None:
    knock(path)


@task.pure
def add(*numbers: float) -> float:
    return sum(numbers)


def count_live(engine: Engine) -> int:
    return len(engine._hub.ask(lambda: list(engine._hub.runs.workers._pool.shelf._live)))


def live_makers(engine: Engine) -> list[int]:
    """Process ids of the workers that alone have something."""
    return engine._hub.ask(lambda: [it.maker for it in engine._hub.runs.workers._pool.shelf._live.values()])


def test_a_task_reads_what_another_one_made_in_place(engine: Engine, tmp_path: Path):
    assert engine.run(is_in_place.bind(make.bind(str(tmp_path / "trace"))))


def test_a_chain_of_large_values(engine: Engine):
    node: Any = ones.bind()
    for _ in range(40):
        node = grow.bind(node)
    assert engine.run(first_of.bind(node)) == 41.0


def test_a_large_value_that_is_saved_is_published_for_that(engine: Engine):
    assert engine.run(first_of.bind(save.bind(save.bind(ones.bind())))) == 4.0


def test_a_large_result_is_the_users_own(engine: Engine):
    result = engine.run(grow.bind(ones.bind()))
    assert result[0] == 2.0
    result[0] = 3.0


def test_one_array_and_eight_tasks_that_read_it(engine: Engine, tmp_path: Path):
    told = make.bind(str(tmp_path / "trace"))
    assert engine.run(add.bind(*[total_of.bind(told) for _ in range(8)])) == 8.0 * MB


def test_nothing_stays_after_a_run(engine: Engine, tmp_path: Path):
    engine.run(is_in_place.bind(make.bind(str(tmp_path / "trace"))))
    until(lambda: not count_live(engine))
    until(lambda: engine._hub.ask(lambda: engine._hub.runs.workers._pool.shelf.size) == 0)


def test_what_a_killed_worker_alone_had_is_made_again_and_its_effect_happens_once(tmp_path: Path, door: Door):
    # given: a large value that only its maker has, and a task that waits for it and for another one
    trace = str(tmp_path / "trace")
    with Engine(tmp_path / "home", workers=2) as engine:
        handle = engine.run_async(pay.bind(trace, make.bind(trace), pass_door.bind(door.path)))
        busy = door.wait()
        (maker,) = until(lambda: live_makers(engine))
        # when
        os.kill(maker, signal.SIGKILL)
        if maker == busy:
            door.wait()
        until(lambda: live_makers(engine) not in ([], [maker]))
        door.open()
        # then
        assert handle.result() == MB
        assert Path(trace).read_text().splitlines() == ["made", "made", "paid"]


def test_a_run_is_cancelled_while_it_holds_live_values(engine: Engine, tmp_path: Path, door: Door):
    trace = str(tmp_path / "trace")
    handle = engine.run_async(pay.bind(trace, make.bind(trace), pass_door.bind(door.path)))
    door.wait()
    until(lambda: live_makers(engine))
    engine.cancel(handle.id, grace=0)
    until(lambda: not count_live(engine))
    assert "paid" not in Path(trace).read_text()
