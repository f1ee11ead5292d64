"""Found by reading: time that is over while a handler is asked about a failure that the engine has found out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from onceflow import task
from onceflow.errors import TaskTimedOut
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine


@task(timeout=5, total_timeout=6)
def hang() -> str:
    time.sleep(1000)
    return "awake"


@handler(TaskTimedOut)
def judge(error: TaskTimedOut, failure: Any) -> str:
    time.sleep(3)
    return "judged"


def test_a_handler_that_is_asked_when_the_time_is_over_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    assert engine.run(hang.options(handlers=[judge]).bind()) == "judged"


def test_an_error_is_caught_also_if_the_time_is_over_while_that_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    @handler(TaskTimedOut)
    def think(error: TaskTimedOut, failure: Any) -> str:
        time.sleep(3)
        raise error

    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    value, error = engine.run(hang.options(handlers=[think], catch=True).bind())
    assert value is None
    assert isinstance(error, TaskTimedOut)


@handler(TaskTimedOut)
def hesitate(error: TaskTimedOut, failure: Any) -> Any:
    if failure.failures > 1:
        return "judged"
    time.sleep(3)
    return retry(1, delay=300, jitter=0)


def test_nothing_is_waited_for_before_a_task_is_refused_whose_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    monkeypatch.setattr(time, "sleep", engine.clock.sleep)
    began = engine.clock.now
    assert engine.run(hang.options(handlers=[hesitate]).bind()) == "judged"
    assert engine.clock.now - began < 10
