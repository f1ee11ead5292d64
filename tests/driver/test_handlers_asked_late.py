"""Found by reading: time that is over while a handler is asked about a failure that the engine has found out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from onceflow import TaskTimedOut, handler, task
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
