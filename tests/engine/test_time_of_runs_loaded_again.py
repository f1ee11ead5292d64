"""The time that a run may take runs on when it is parked or its engine dies, also after somebody has resumed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, fiber, task, wait_event
from onceflow.errors import RunTimedOut
from onceflow.testing import MemoryEngine
from tests.helpers.waiting import LONG, until


@task
def fail_while_there(path: str) -> None:
    if os.path.exists(path):
        raise ValueError("it is there")


@fiber
async def waiting(path: str) -> int:
    await fail_while_there.call(path)
    number: int = await wait_event("number", int)
    return number


def test_a_resumed_run_that_is_parked_runs_out_of_time(tmp_path: Path) -> None:
    trouble = tmp_path / "trouble"
    trouble.touch()
    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(TaskFailed):
            engine.run(waiting.bind(str(trouble)), name="limited", timeout=3)
        trouble.unlink()
        handle = engine.resume_async("limited")
        until(lambda: engine._hub.is_parked(handle.id))
        try:
            with pytest.raises(RunTimedOut):
                handle.result(timeout=LONG / 6)
        finally:
            engine.cancel("limited")


def test_a_run_that_was_left_to_others_has_all_its_time_when_it_is_woken(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.submit(waiting.bind(str(tmp_path / "trouble")), timeout=4)
        with pytest.raises(TimeoutError):
            handle.result(timeout=3.5)
        engine.serve()
        until(lambda: engine._hub.is_parked(handle.id))
        engine.send_event(handle.id, "another")
        with pytest.raises(TimeoutError):
            handle.result(timeout=1)
        engine.send_event(handle.id, "number", 7)
        assert handle.result(timeout=LONG / 6) == 7


def test_the_time_of_a_resumed_run_runs_on_after_a_crash(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(fail_while_there, ValueError("no"), times=1)
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(waiting.bind("nowhere"), timeout=60)
    run = caught.value.run
    onceflow_engine.clock.advance(1000)
    onceflow_engine.resume_async(run)
    onceflow_engine.clock.advance(40)
    onceflow_engine.crash()
    onceflow_engine.clock.advance(10)
    before = onceflow_engine.clock.now
    with pytest.raises(RunTimedOut):
        onceflow_engine.resume(run)
    assert onceflow_engine.clock.now - before < 60 - 40  # fibers are told when its time is over, and end at once
