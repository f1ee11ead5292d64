"""Tasks that run ahead, in the worker that ran what they read: nothing about it can be noticed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, RunCancelled, TaskFailed, current, task
from onceflow.backends.local import stragglers
from onceflow.errors import RunInterrupted, WorkerDied
from onceflow.values.functions import ship
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no worker is asked to give anything back."""
    monkeypatch.setattr(stragglers, "OVERDUE", 60.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    with Engine(home, workers=2) as made:
        yield made


@task.pure
def increase(value: int) -> int:
    return value + 1


@task.pure
def tell(before: list[str]) -> list[str]:
    context = current()
    return [*before, f"{context.task} {context.attempt} {os.getpid()}"]


@task.pure(retry=RetryPolicy(2, delay=0.001))
def hesitate(value: int, path: str) -> int:
    note(path, value)
    if len(traces(path)) < 3:
        raise ConnectionError(value)
    return value


@task.pure
def refuse(value: int) -> int:
    raise ValueError(f"no {value}")


@task.pure
def expand(value: int) -> Any:
    return increase.bind(increase.bind(value))


@task.pure
def die_once(value: int, path: str) -> int:
    if not traces(path):
        note(path, "died")
        os.kill(os.getpid(), signal.SIGKILL)
    return value


@task.pure
def die(value: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


@task.pure
def wait_at(path: str, value: int) -> int:
    knock(path)
    return value


def make_short(engine: Engine, *tasks: Any) -> None:
    """Let the pool believe that it knows these and that they take no time."""
    assert engine.run(increase.bind(0)) == 1  # so that there is a pool
    workers = engine._hub.runs.workers
    assert workers is not None
    for each in tasks:
        workers._pool._dispatcher.estimates.seconds[ship(each.function).hash] = 20e-6


def chain(step: Any, value: Any, length: int) -> Any:
    for _ in range(length):
        value = step.bind(value)
    return value


def test_a_chain_has_the_result_it_always_has(engine: Engine) -> None:
    make_short(engine, increase)
    assert engine.run(chain(increase, 0, 40)) == 40


def test_tasks_that_run_ahead_know_their_attempt_and_share_a_worker(engine: Engine) -> None:
    # given
    make_short(engine, tell)
    handle = engine.run_async(chain(tell, [], 5))
    # when
    told = [line.split() for line in handle.result()]
    # then
    assert len({pid for _, _, pid in told}) == 1
    events = [(event.task, event.attempt) for event in handle if event.kind == "started"]
    assert [(name, attempt) for name, attempt, _ in told] == events


def test_a_task_that_raises_ahead_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    make_short(engine, increase, hesitate)
    node = increase.bind(hesitate.bind(increase.bind(1), str(tmp_path / "traces")))
    assert engine.run(node) == 3
    assert traces(tmp_path / "traces") == ["2", "2", "2"]


def test_a_task_that_fails_ahead_fails_the_run(engine: Engine) -> None:
    make_short(engine, increase, refuse)
    with pytest.raises(TaskFailed, match="refuse") as caught:
        engine.run(increase.bind(refuse.bind(increase.bind(1))))
    assert isinstance(caught.value.__cause__, ValueError)


def test_nothing_runs_ahead_of_a_graph_that_a_task_returns(engine: Engine) -> None:
    make_short(engine, increase, expand)
    assert engine.run(increase.bind(expand.bind(increase.bind(0)))) == 4


def test_a_worker_that_dies_in_a_chain_is_made_up_for(engine: Engine, tmp_path: Path) -> None:
    make_short(engine, increase, die_once)
    assert engine.run(chain(increase, die_once.bind(chain(increase, 0, 3), str(tmp_path / "traces")), 3)) == 6


def test_the_task_that_kills_workers_is_the_one_that_is_blamed(engine: Engine) -> None:
    make_short(engine, increase, die)
    with pytest.raises(TaskFailed, match="die") as caught:
        engine.run(increase.bind(die.options(worker_deaths=2).bind(increase.bind(0))))
    assert isinstance(caught.value.__cause__, WorkerDied)


def test_a_cancelled_run_has_ended_only_when_what_ran_ahead_has(engine: Engine, door: Door) -> None:
    # given a task that runs ahead, while the engine does not know that the one before it has ended
    make_short(engine, increase, wait_at)
    handle = engine.run_async(wait_at.bind(door.path, increase.bind(1)))
    pid = door.wait()
    # when
    assert handle.cancel() == "cancelled"
    # then
    assert not os.path.exists(f"/proc/{pid}")
    assert not engine._hub.is_busy_with(handle.id)
    with pytest.raises(RunCancelled):
        handle.result()


def test_an_engine_that_closes_ends_what_runs_ahead(home: Path, door: Door) -> None:
    # given
    engine = Engine(home, workers=1)
    make_short(engine, increase, wait_at)
    handle = engine.run_async(wait_at.bind(door.path, increase.bind(1)))
    pid = door.wait()
    # when
    engine.close()
    # then
    assert not os.path.exists(f"/proc/{pid}")
    with pytest.raises(RunInterrupted):
        handle.result()
