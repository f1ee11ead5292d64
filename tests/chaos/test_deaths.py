"""Workers that die in the middle of a task."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onceflow import Engine, TaskFailed, task
from onceflow.engine.settings import WORKER_DEATHS
from onceflow.errors import WorkerDied
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces


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


SEED = 50
"""With which one task has six deaths in a row, before it has ended once."""


def is_deadly(number: int, execution: int) -> bool:
    """Of one in four executions, by chance, and the same ones each time."""
    return Random(f"{SEED} {number} {execution}").random() < 1 / 4


def deaths_in_a_row(number: int, first: int = 1) -> int:
    """From this execution on."""
    return next(later for later in itertools.count() if not is_deadly(number, first + later))


def add(folder: str, number: int, *parents: int) -> int:
    """Kills its worker in one of four executions of each node."""
    descriptor = os.open(f"{folder}/{number}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b".")
    executions = os.fstat(descriptor).st_size
    os.close(descriptor)
    if is_deadly(number, executions):
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


WIDTH, LAYERS = 8, 3


def layers(kind: str, folder: str) -> tuple[Any, int]:
    """Layers of tasks, each of which reads two of the layer before it, and one that reads all; and what that gives."""
    adder, last = ADDERS[kind], WIDTH * LAYERS
    layer = [adder.bind(folder, number) for number in range(WIDTH)]
    values = list(range(WIDTH))
    for start in range(WIDTH, last, WIDTH):
        pairs = [(place, (place + 1) % WIDTH) for place in range(WIDTH)]
        layer = [adder.bind(folder, start + place, layer[place], layer[other]) for place, other in pairs]
        values = [start + place + values[place] + values[other] for place, other in pairs]
    return adder.bind(folder, last, *layer), last + sum(values)


@pytest.mark.parametrize("kind", ADDERS)
def test_a_run_survives_the_death_of_a_worker_in_one_of_four_executions_of_its_tasks(tmp_path: Path, kind: str) -> None:
    """When workers are killed all the time, and a task has many deaths in a row, then all of it is done, with the
    default limit: nobody is blamed for what others in the same worker have done."""
    numbers = range(WIDTH * LAYERS + 1)
    assert max(map(deaths_in_a_row, numbers)) == 6
    assert max(deaths_in_a_row(number, first) for number in numbers for first in range(1, 200)) < WORKER_DEATHS
    last, expected = layers(kind, str(tmp_path))

    with Engine(tmp_path / "home", workers=2) as engine:
        result = engine.run(last)

    assert result == expected


@pytest.mark.parametrize("kind", ["not saved", "irrevocable"])
@pytest.mark.parametrize("limit", [3, 6, 7])
def test_so_many_deaths_in_a_row_fail_a_task_of_that_run_as_the_limit_says(
    tmp_path: Path, kind: str, limit: int
) -> None:
    last, expected = layers(kind, str(tmp_path))

    with Engine(tmp_path / "home", workers=2, worker_deaths=limit) as engine:
        if limit > 6:
            assert engine.run(last) == expected
            return
        with pytest.raises(TaskFailed) as failure:
            engine.run(last)

    assert isinstance(failure.value.__cause__, WorkerDied)
    assert failure.value.__cause__.deaths == limit


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
