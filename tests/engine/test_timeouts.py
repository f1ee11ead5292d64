"""Running out of time: an attempt, a task with all its attempts, a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, task
from onceflow.errors import InvalidOption, RunTimedOut, TaskTimedOut
from onceflow.testing import MemoryEngine
from tests.engine.common import add, keep
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces


@task
def wait_at(door: str) -> str:
    knock(door)
    return "through"


def give_back(file: str) -> None:
    note(file, "undone")


@task(rollback=give_back)
def book(file: str) -> None:
    note(file, "booked")


@task
async def forever() -> None:
    import asyncio

    await asyncio.Event().wait()


@task
def fail(file: str) -> None:
    note(file, "tried")
    raise ValueError("no")


@task
def busy() -> None:
    while True:
        pass


def test_an_attempt_that_runs_too_long_is_stopped_and_has_failed(engine: Engine, door: Door) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(wait_at.options(timeout=0.05).bind(door.path))
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert "wait_at ran for more than 0.05 seconds" in str(caught.value)


@pytest.mark.parametrize("what", [busy, forever])
def test_code_that_never_returns_is_stopped_all_the_same(engine: Engine, what: object) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(what.options(timeout=0.05).bind())  # type: ignore[attr-defined]
    assert isinstance(caught.value.__cause__, TaskTimedOut)


def test_an_attempt_that_ran_out_of_time_is_retried(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.delay(add, 60, times=1)
    assert onceflow_engine.run(add.options(timeout=5, retry=RetryPolicy(1, delay=0)).bind(1, 2)) == 3
    assert [attempt.outcome for attempt in onceflow_engine.ran] == ["timed out", "finished"]


def test_an_undoable_attempt_that_ran_out_of_time_is_taken_back(onceflow_engine: MemoryEngine, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    onceflow_engine.delay(book, 60)
    with pytest.raises(TaskFailed):
        onceflow_engine.run(book.options(timeout=5).bind(file))
    assert traces(file) == ["booked", "undone"]


def test_time_in_the_queue_does_not_count(home: Path, door: Door) -> None:
    with Engine(home, workers=1) as single:
        first = single.run_async(wait_at.bind(door.path))
        door.wait()
        second = single.run_async(add.options(timeout=0.2).bind(1, 2))
        with pytest.raises(TimeoutError):
            second.result(timeout=0.5)
        door.open()
        assert first.result() == "through"
        assert second.result() == 3


def test_what_is_done_in_time_is_not_disturbed(engine: Engine) -> None:
    assert engine.run(add.options(timeout=30, total_timeout=30).bind(1, 2), timeout=30) == 3


def test_a_task_that_is_not_done_in_all_its_time_is_not_tried_again(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(add, ValueError("no"))
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(
            add.options(total_timeout=35, retry=RetryPolicy(1000, delay=10, backoff=1, jitter=0)).bind(1, 2)
        )
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert caught.value.__cause__.total
    onceflow_engine.assert_ran(add, times=4)


@task(total_timeout=100, retry=RetryPolicy(10, delay=60, backoff=1, jitter=0))
def fail_patiently() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("moment", ["before", "after effect"])
@pytest.mark.parametrize("nth", [1, 2])
def test_the_time_of_a_task_goes_on_when_another_engine_takes_over(moment: Any, nth: int) -> None:
    # given
    engine = MemoryEngine()
    began = engine.clock.time()
    engine.crash_at(fail_patiently, moment, nth=nth)
    # when
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail_patiently.bind())
    # then
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert engine.clock.time() - began == 100


def test_a_task_that_ran_out_of_time_has_all_of_it_again_when_its_run_is_resumed() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail_patiently.bind())
    began = engine.clock.time()
    with pytest.raises(TaskFailed):
        engine.resume(caught.value.run)
    assert engine.clock.time() - began == 100


def test_a_delay_before_a_retry_ends_when_the_time_is_over(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail.options(total_timeout=0.1, retry=RetryPolicy(3, delay=600)).bind(str(tmp_path / "traces")))
    assert isinstance(caught.value.__cause__, TaskTimedOut)


def test_the_attempt_that_runs_when_the_time_of_its_task_is_over_is_stopped(engine: Engine, door: Door) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(wait_at.options(total_timeout=0.05).bind(door.path))
    assert "all its attempts together" in str(caught.value)


def test_a_run_that_takes_too_long_is_cancelled(engine: Engine, door: Door) -> None:
    handle = engine.run_async(keep.bind(wait_at.bind(door.path)), timeout=0.1)
    with pytest.raises(RunTimedOut, match=r"ran out of time after 0\.1 seconds") as caught:
        handle.result()
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.uncertain == ("wait_at",)
    assert handle.status == "cancelled"


def test_a_run_that_ran_out_of_time_can_be_resumed_with_all_its_time(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.delay(add, 60, times=1)
    onceflow_engine.delay(keep, 50)
    with pytest.raises(RunTimedOut) as caught:
        onceflow_engine.run(keep.bind(add.bind(1, 2)), timeout=55)
    assert onceflow_engine.resume(caught.value.run) == 3


def test_time_in_which_no_engine_drives_a_run_counts(onceflow_engine: MemoryEngine) -> None:
    # given a run that has waited for 40 seconds when its engine dies
    onceflow_engine.fail(add, ValueError("no"), times=1)
    node = add.options(retry=RetryPolicy(1, delay=100, jitter=0)).bind(1, 2)
    handle = onceflow_engine.run_async(node, timeout=60)
    onceflow_engine.clock.advance(40)
    onceflow_engine.crash()
    # when somebody goes on with it, but too late
    onceflow_engine.clock.advance(30)
    # then
    with pytest.raises(RunTimedOut):
        onceflow_engine.resume(handle.id)
    onceflow_engine.assert_ran(add, times=1)


@pytest.mark.parametrize("seconds", [0, -1, True, "1", float("inf"), float("nan")])
def test_a_timeout_is_a_number_of_seconds(engine: Engine, seconds: object) -> None:
    with pytest.raises(InvalidOption, match="timeout"):
        wait_at.options(timeout=seconds)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="timeout"):
        engine.run(add.bind(1, 2), timeout=seconds)  # type: ignore[arg-type]
