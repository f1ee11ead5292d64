"""Workers that die in the middle of a task."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, WorkerDied, task
from onceflow.driver.driver import MOST_DEATHS
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
        for _ in range(MOST_DEATHS - 1):
            os.kill(door.wait(), signal.SIGKILL)
        door.wait()
        door.open()
        # then
        assert handle.result(timeout=60) == "through"
    assert traces(path) == ["began"] * MOST_DEATHS
    door.close()


def test_a_task_that_always_kills_its_worker_fails(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    with Engine(tmp_path / "home", workers=2) as engine:
        with pytest.raises(TaskFailed) as failure:
            engine.run(kill_own_worker.bind(str(path)))
        assert isinstance(failure.value.__cause__, WorkerDied)
        assert engine.run(task(note).bind(str(tmp_path / "other"), "alive")) is None
    assert traces(path) == ["began"] * MOST_DEATHS


def test_each_death_in_an_undoable_task_is_undone_before_it_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    undoable = kill_own_worker.options(rollback=take_back)
    with Engine(tmp_path / "home", workers=2) as engine, pytest.raises(TaskFailed):
        engine.run(undoable.bind(str(path)))
    assert traces(path) == ["began", "taken back"] * MOST_DEATHS
