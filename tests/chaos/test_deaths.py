"""Workers that die in the middle of a task."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, TaskFailed, WorkerDied, task
from onceflow.engine.settings import WORKER_DEATHS
from tests.engine.common import Door, knock, note, traces


@task
def pass_door_and_note(door: str, path: str) -> str:
    note(path, "began")
    knock(door)
    return "through"


@task
def kill_own_worker(path: str) -> None:
    note(path, "began")
    os.kill(os.getpid(), signal.SIGKILL)


def take_back(path: str) -> None:
    note(path, "taken back")


def test_a_worker_killed_in_the_middle_of_a_task_does_not_fail_the_run(tmp_path: Path) -> None:
    # given
    door = Door(tmp_path / "door")
    path = tmp_path / "traces"
    with Engine(tmp_path / "home", workers=2) as engine:
        handle = engine.run_async(pass_door_and_note.bind(door.path, str(path)))
        # when
        for _ in range(3):
            os.kill(door.wait(), signal.SIGKILL)
        door.wait()
        door.open()
        # then
        assert handle.result(timeout=60) == "through"
    assert traces(path) == ["began"] * 4
    door.close()


def test_a_task_that_always_kills_its_worker_fails(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    with Engine(tmp_path / "home", workers=2) as engine:
        with pytest.raises(TaskFailed) as failure:
            engine.run(kill_own_worker.bind(str(path)))
        assert isinstance(failure.value.__cause__, WorkerDied)
        assert failure.value.__cause__.deaths == WORKER_DEATHS
        assert engine.run(task(note).bind(str(tmp_path / "other"), "alive")) is None
    assert traces(path) == ["began"] * WORKER_DEATHS


@pytest.mark.parametrize(("deaths", "option"), [(2, None), (2, 1), (2, 3)])
def test_how_many_deaths_fail_a_task_is_a_setting_and_an_option(
    tmp_path: Path, deaths: int, option: int | None
) -> None:
    path = tmp_path / "traces"
    with Engine(tmp_path / "home", workers=1, worker_deaths=deaths) as engine:
        with pytest.raises(TaskFailed) as failure:
            engine.run(kill_own_worker.options(worker_deaths=option).bind(str(path)))
        assert isinstance(failure.value.__cause__, WorkerDied)
        assert failure.value.__cause__.deaths == len(traces(path)) == (option or deaths)


def test_each_death_in_an_undoable_task_is_undone_before_it_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    undoable = kill_own_worker.options(rollback=take_back, worker_deaths=3)
    with Engine(tmp_path / "home", workers=2) as engine, pytest.raises(TaskFailed):
        engine.run(undoable.bind(str(path)))
    assert traces(path) == ["began", "taken back"] * 3


def add(folder: str, number: int, *parents: int) -> int:
    """Kills its worker in every fourth execution of each node."""
    descriptor = os.open(f"{folder}/{number}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b".")
    executions = os.fstat(descriptor).st_size
    os.close(descriptor)
    if (executions + number) % 4 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number + sum(parents)


async def add_async(folder: str, number: int, *parents: int) -> int:
    return add(folder, number, *parents)


ADDERS: dict[str, Any] = {
    "not saved": task.pure(add),
    "irrevocable": task(add),
    "in threads": task(threads=True)(add),
    "async": task(add_async),
}


@pytest.mark.parametrize("kind", ADDERS)
def test_a_run_survives_the_death_of_a_worker_in_every_fourth_execution_of_each_of_its_tasks(
    tmp_path: Path, kind: str
) -> None:
    """Given layers of tasks, each of which reads two of the layer before it, when workers are killed all the time, then
    all of it is done, with the default limit: nobody is blamed for what others in the same worker have done."""
    adder, folder, width = ADDERS[kind], str(tmp_path), 8
    layer = [adder.bind(folder, number) for number in range(width)]
    values = list(range(width))
    for start in range(width, 3 * width, width):
        pairs = [(place, (place + 1) % width) for place in range(width)]
        layer = [adder.bind(folder, start + place, layer[place], layer[other]) for place, other in pairs]
        values = [start + place + values[place] + values[other] for place, other in pairs]

    with Engine(tmp_path / "home", workers=2) as engine:
        result = engine.run(adder.bind(folder, 3 * width, *layer))

    assert result == 3 * width + sum(values)


@pytest.mark.parametrize("shared", ["threads", "async"])
def test_a_task_that_kills_the_worker_that_it_shares_is_found_among_the_others(tmp_path: Path, shared: str) -> None:
    """Given tasks that share workers, and one of them that kills each, then that one fails, and the others do not."""
    path = tmp_path / "traces"
    killer = ({"threads": task(threads=True)(kill), "async": task(kill_async)}[shared]).options(catch=True)
    others = [ADDERS["in threads" if shared == "threads" else "async"].bind(str(tmp_path), n) for n in range(8)]
    with Engine(tmp_path / "home", workers=1, worker_deaths=3) as engine:
        outcome, values = engine.run(gather.bind(killer.bind(str(path)), others))

    assert isinstance(outcome[1], WorkerDied)
    assert values == list(range(8))


def kill(path: str) -> None:
    note(path, "began")
    os.kill(os.getpid(), signal.SIGKILL)


async def kill_async(path: str) -> None:
    kill(path)


@task
def gather(outcome: Any, values: Any) -> Any:
    return outcome, values
