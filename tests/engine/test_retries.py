"""Retries: how often, after which errors, and what a new attempt is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task
from onceflow.errors import UnpicklableOutput, WrongParts
from tests.engine.common import keep
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces

QUICK = RetryPolicy(2, delay=0.001)


class Flaky(ConnectionError):
    pass


def fail_until(path: str, enough: int, kind: type[BaseException] = Flaky) -> int:
    """Leaves a trace for each call; raises until there are enough."""
    note(path, f"{current().key} {current().attempt}")
    if len(traces(path)) < enough:
        raise kind(f"call {len(traces(path))}")
    return len(traces(path))


flaky = task(retry=QUICK)(fail_until)


def take_back(path: str) -> None:
    note(path + ".undone", len(traces(path)))


undoable = task(retry=QUICK, rollback=take_back)(fail_until)


@task(retry=RetryPolicy(2, delay=0.001, on=(KeyError, Flaky)))
def choosy(path: str, enough: int, kind: Any) -> int:
    return fail_until(path, enough, kind)


@task(retry=QUICK, num_returns=2)
def wrong_parts(path: str) -> Any:
    note(path, "called")
    return 1


@task(retry=RetryPolicy(1, delay=0.001))
async def flaky_async(path: str) -> int:
    return fail_until(path, 2)


@task(retry=RetryPolicy(1, delay=3600, jitter=0))
def retry_in_an_hour(path: str) -> str:
    note(path, "called")
    if len(traces(path)) == 1:
        raise Flaky("later")
    return "done"


@task(retry=RetryPolicy(1, delay=0.001))
def fail_behind_a_door(path: str, door: str) -> str:
    note(path, current().key)
    if len(traces(path)) == 1:
        raise Flaky("first")
    knock(door)
    return "done"


def test_a_task_that_fails_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    assert engine.run(flaky.bind(str(tmp_path / "trace"), 3)) == 3


def test_a_task_is_tried_no_more_often_than_its_count_says(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(flaky.bind(str(tmp_path / "trace"), 10))
    assert len(traces(tmp_path / "trace")) == 3
    assert str(caught.value.__cause__) == "call 3"


def test_by_default_nothing_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed):
        engine.run(task(fail_until).bind(str(tmp_path / "trace"), 2))
    assert len(traces(tmp_path / "trace")) == 1


def test_a_number_is_short_for_a_policy(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed):
        engine.run(flaky.options(retry=0).bind(str(tmp_path / "trace"), 2))
    assert len(traces(tmp_path / "trace")) == 1


def test_an_irrevocable_task_has_the_same_key_in_every_attempt(engine: Engine, tmp_path: Path) -> None:
    engine.run(flaky.bind(str(tmp_path / "trace"), 3))
    keys, attempts = zip(*(line.split() for line in traces(tmp_path / "trace")), strict=True)
    assert len(set(keys)) == 1
    assert len(set(attempts)) == 3


def test_only_listed_errors_are_retried(engine: Engine, tmp_path: Path) -> None:
    # when
    with pytest.raises(TaskFailed) as caught:
        engine.run(choosy.bind(str(tmp_path / "trace"), 3, ValueError))
    # then
    assert type(caught.value.__cause__) is ValueError
    assert len(traces(tmp_path / "trace")) == 1


def test_listed_errors_are_retried(engine: Engine, tmp_path: Path) -> None:
    assert engine.run(choosy.bind(str(tmp_path / "trace"), 3, KeyError)) == 3


def test_subclasses_of_listed_errors_are_retried(engine: Engine, tmp_path: Path) -> None:
    node = task(retry=RetryPolicy(2, delay=0.001, on=ConnectionError))(fail_until).bind(str(tmp_path / "trace"), 3)
    assert engine.run(node) == 3


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_is_not_retried_by_default(engine: Engine, tmp_path: Path, kind: type[BaseException]) -> None:
    with pytest.raises(TaskFailed):
        engine.run(flaky.bind(str(tmp_path / "trace"), 3, kind))
    assert len(traces(tmp_path / "trace")) == 1


def test_an_output_that_cannot_be_pickled_is_not_retried(engine: Engine, tmp_path: Path) -> None:
    import threading

    path = str(tmp_path / "trace")

    def lock() -> Any:
        note(path, "called")
        return threading.Lock()

    with pytest.raises(TaskFailed) as caught:
        engine.run(task(retry=QUICK)(lock).bind())
    assert type(caught.value.__cause__) is UnpicklableOutput
    assert traces(path) == ["called"]


def test_wrong_parts_are_not_retried(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(wrong_parts.bind(str(tmp_path / "trace")))
    assert type(caught.value.__cause__) is WrongParts
    assert traces(tmp_path / "trace") == ["called"]


def test_async_tasks_are_retried(engine: Engine, tmp_path: Path) -> None:
    assert engine.run(flaky_async.bind(str(tmp_path / "trace"))) == 2


def test_an_undoable_task_is_undone_before_each_new_attempt(engine: Engine, tmp_path: Path) -> None:
    # when
    result = engine.run(undoable.bind(str(tmp_path / "trace"), 3))
    # then each failed call was taken back, and only then the next one began
    assert result == 3
    assert traces(tmp_path / "trace.undone") == ["1", "2"]


def test_an_undone_attempt_has_another_key_than_the_next_one(engine: Engine, tmp_path: Path) -> None:
    engine.run(undoable.bind(str(tmp_path / "trace"), 3))
    keys = [line.split()[0] for line in traces(tmp_path / "trace")]
    assert len(set(keys)) == 3


def test_a_run_that_waits_for_a_retry_is_waiting(engine: Engine, tmp_path: Path) -> None:
    # given
    handle = engine.run_async(retry_in_an_hour.bind(str(tmp_path / "trace")))
    # when
    for event in handle:
        if event.kind == "status" and event.detail == "waiting":
            break
    # then
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)
    assert engine.list_runs(status="waiting", limit=1000)[0].id == handle.id


def test_other_runs_go_on_while_one_waits_for_a_retry(engine: Engine, tmp_path: Path) -> None:
    engine.run_async(retry_in_an_hour.bind(str(tmp_path / "trace")))
    assert engine.run(keep.bind(1)) == 1


def test_a_retried_run_is_running_again(engine: Engine, tmp_path: Path, door: Door) -> None:
    # given
    handle = engine.run_async(fail_behind_a_door.bind(str(tmp_path / "trace"), door.path))
    # when the second attempt runs
    door.wait()
    # then
    assert handle.status in ("running", "waiting")
    door.open()
    assert handle.result(60) == "done"


def test_retries_count_anew_after_resume(engine: Engine, tmp_path: Path) -> None:
    # given
    with pytest.raises(TaskFailed) as caught:
        engine.run(flaky.bind(str(tmp_path / "trace"), 5))
    # when
    result = engine.resume(caught.value.run)
    # then
    assert result == 5


def test_a_retry_policy_goes_with_a_lambda(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")
    shaky = task(retry=QUICK, name="shaky")(lambda: fail_until(path, 2))
    assert engine.run(shaky.bind()) == 2
