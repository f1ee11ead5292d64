"""What can be said of the tasks of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, task
from tests.engine.common import add, fail_while, pass_door
from tests.helpers.doors import Door
from tests.helpers.waiting import LONG, until


@task
def boom(*values: int) -> int:
    raise ValueError("no")


@task
def plan(number: int) -> int:
    return add.bind(number, add.bind(1, 1))


def states(engine: Engine, run: str) -> dict[str, str]:
    return {info.id: info.state for info in engine.list_tasks(run)}


def test_a_run_that_goes_on_tells_what_runs_and_what_waits_for_it(engine: Engine, door: Door) -> None:
    handle = engine.run_async(add.bind(1, pass_door.bind(door.path, 2)))
    door.wait()
    infos = {info.id: info for info in engine.list_tasks(handle.id)}
    assert infos["pass_door"].state == "running"
    assert infos["pass_door"].attempt == "1.1"
    assert infos["add"].state == "waiting"
    assert infos["add"].waits_for == ("pass_door",)
    door.open()
    handle.result()
    assert states(engine, handle.id) == {"pass_door": "done", "add": "done"}


def test_another_engine_tells_the_same(engine: Engine, home: Path, door: Door) -> None:
    handle = engine.run_async(add.bind(plan.bind(3), pass_door.bind(door.path, 2)))
    door.wait()
    with Engine(home) as other:
        assert states(other, handle.id)["add"] == "waiting"
        assert states(other, handle.id)["pass_door"] == "running"
    door.open()
    handle.result()


def test_a_failed_run_tells_which_task_failed_and_which_never_ran(engine: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(add.bind(boom.bind(plan.bind(1)), 2))
    failed = next(info for info in engine.list_tasks(caught.value.run) if info.id == "boom")
    assert (failed.failures, failed.attempt, failed.error) == (1, "", "ValueError: no")
    assert states(engine, caught.value.run) == {
        "plan": "done",
        "plan/add": "done",
        "plan/add_1": "done",
        "boom": "failed",
        "add": "waiting",
    }


@task(retry=RetryPolicy(1, delay=LONG))
def raise_lines(text: str) -> None:
    raise OSError(text)


def test_a_task_that_is_tried_again_tells_what_it_raised_in_one_line(engine: Engine, home: Path) -> None:
    # given
    handle = engine.run_async(raise_lines.bind("first line\n  second line"))
    until(lambda: states(engine, handle.id) == {"raise_lines": "retrying"})
    # when
    (here,) = engine.list_tasks(handle.id)
    with Engine(home) as other:
        (elsewhere,) = other.list_tasks(handle.id)
    # then
    assert here.error == elsewhere.error == "OSError: first line second line"
    handle.cancel()


def test_a_task_that_was_mended_tells_of_no_error(engine: Engine, tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail_while.bind(str(obstacle)))
    obstacle.unlink()
    engine.resume(caught.value.run)
    (info,) = engine.list_tasks(caught.value.run)
    assert (info.state, info.error) == ("done", None)
