"""Running out of time: an attempt, a task with all its attempts, a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, InvalidOption, Retry, RunTimedOut, TaskFailed, TaskTimedOut, task
from tests.engine.common import Door, add, keep, knock, note, traces

ENOUGH = 2.0
"""Seconds in which even a new worker on a busy machine has come to where a test wants it."""


@task
def wait_at(door: str, file: str = "") -> str:
    if file:
        note(file, "here")
    knock(door)
    return "through"


def give_back(file: str) -> None:
    note(file, "undone")


@task(rollback=give_back)
def book(file: str, door: str) -> None:
    note(file, "booked")
    knock(door)


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


def test_an_attempt_that_ran_out_of_time_is_retried(engine: Engine, door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    handle = engine.run_async(wait_at.options(timeout=ENOUGH, retry=Retry(1, delay=0)).bind(door.path, file))
    door.wait()
    door.wait()
    door.open()
    assert handle.result() == "through"
    assert traces(file) == ["here", "here"]


def test_an_undoable_attempt_that_ran_out_of_time_is_taken_back(engine: Engine, door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    with pytest.raises(TaskFailed):
        engine.run(book.options(timeout=ENOUGH).bind(file, door.path))
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


def test_a_task_that_is_not_done_in_all_its_time_is_not_tried_again(engine: Engine, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail.options(total_timeout=ENOUGH, retry=Retry(1000, delay=0.2, backoff=1)).bind(file))
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert caught.value.__cause__.total
    assert 1 < len(traces(file)) < 20


def test_a_delay_before_a_retry_ends_when_the_time_is_over(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail.options(total_timeout=0.1, retry=Retry(3, delay=600)).bind(str(tmp_path / "traces")))
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


def test_a_run_that_ran_out_of_time_can_be_resumed_with_all_its_time(engine: Engine, door: Door) -> None:
    handle = engine.run_async(wait_at.bind(door.path), timeout=ENOUGH)
    door.wait()
    with pytest.raises(RunTimedOut):
        handle.result()
    again = engine.resume_async(handle.id)
    door.wait()
    door.open()
    assert again.result() == "through"


@pytest.mark.parametrize("seconds", [0, -1, True, "1", float("inf"), float("nan")])
def test_a_timeout_is_a_number_of_seconds(engine: Engine, seconds: object) -> None:
    with pytest.raises(InvalidOption, match="timeout"):
        wait_at.options(timeout=seconds)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="timeout"):
        engine.run(add.bind(1, 2), timeout=seconds)  # type: ignore[arg-type]
