"""Why a run is not done, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, task
from onceflow.engine.inspect.run_info import RunInfo
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.inspect.why import explain
from onceflow.errors import NoSuchTask
from onceflow.runs import Why
from tests.engine.common import pass_door
from tests.helpers.doors import Door


def info(id: str, state: str, *waits_for: str, **others: object) -> TaskInfo:
    return TaskInfo(id, "t", state, "none", False, waits_for=waits_for, live=True, **others)  # type: ignore[arg-type]


RUNNING = RunInfo("r", None, "w", "running", 0.0, 0.0)


def said(why: Why) -> list[tuple[str, str, int]]:
    return [(each.task, each.text, each.behind) for each in why.obstacles]


def test_those_that_wait_for_others_are_counted_behind_them():
    tasks = [
        info("a", "running"),
        info("b", "ready", reason="waits for a worker"),
        info("c", "waiting", "b"),
        info("d", "waiting", "c", "b", "a"),
        info("z", "done"),
    ]
    assert said(explain(RUNNING, tasks, None)) == [("b", "waits for a worker", 2), ("a", "runs", 1)]


def test_of_one_task_only_what_it_waits_for_is_told():
    done = TaskInfo("z", "t", "done", "none", saved=True)
    tasks = [info("a", "running"), info("b", "ready"), info("c", "waiting", "b"), done]
    assert said(explain(RUNNING, tasks, "c")) == [("b", "is about to start", 1)]
    assert said(explain(RUNNING, tasks, "z")) == [("z", "is done and saved", 0)]
    with pytest.raises(
        NoSuchTask, match=r"there is no task 'y' in run r, or not yet, or not any more; it has a, b, c, z"
    ):
        explain(RUNNING, tasks, "y")


def test_what_was_raised_is_told():
    tasks = [info("a", "retrying", reason="raised once, is tried again in 5 s", error="OSError: no")]
    assert said(explain(RUNNING, tasks, None)) == [("a", "raised once, is tried again in 5 s: OSError: no", 0)]


def test_what_a_failed_task_had_read_and_is_gone_is_not_to_blame():
    tasks = [info("a", "ready"), info("b", "failed", "a", error="OSError: no"), info("c", "waiting", "b")]
    failed = RunInfo("r", None, "w", "failed", 0.0, 0.0)
    assert said(explain(failed, tasks, None)) == [("b", "raised OSError: no", 1)]


@task.pure
def fail() -> int:
    raise ValueError("no")


@task.pure
def read(value: object) -> None: ...


def test_a_run_that_failed(engine: Engine):
    with pytest.raises(TaskFailed):
        engine.run(read.bind(fail.bind()), name="f")

    why = engine.why("f")

    assert (why.status, why.text) == ("failed", "it has failed: when the cause is removed, `onceflow retry` goes on")
    assert said(why) == [("fail", "raised ValueError: no", 1)]


def test_a_run_that_goes_on(engine: Engine, tmp_path: Path):
    door = Door(tmp_path / "door")
    handle = engine.run_async(read.bind(pass_door.bind(door.path)))
    door.wait()

    why = engine.why(handle.id)

    assert (why.status, why.text) == ("running", "it goes on")
    ((stands, text, behind),) = said(why)
    assert (stands, behind) == ("pass_door", 1)
    assert text.startswith("runs for ")
    door.open()
    handle.result()
    door.close()
    assert engine.why(handle.id).obstacles == []
