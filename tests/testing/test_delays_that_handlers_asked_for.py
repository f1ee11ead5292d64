"""Delays that a handler asked for, and later failures of the same task."""

from __future__ import annotations

import pytest

from onceflow import RetryPolicy, task, transaction
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine


class Busy(Exception):
    pass


class Broken(Exception):
    pass


def take_back(key: str) -> None:
    pass


@task(rollback=take_back)
def book() -> str:
    return "room"


@task(can_rollback=True, retry=RetryPolicy(1, delay=100, jitter=0), handlers=[handler(Busy, retry(2, delay=1))])
def check(room: str) -> str:
    return room


@task(can_rollback=True)
def look(room: str) -> str:
    return room


@transaction(handlers=[handler(Broken, retry(1, delay=1))])
def trip() -> str:
    return look.bind(check.bind(book.bind()))  # type: ignore[return-value]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_delay_that_a_handler_asked_for_is_over_when_the_task_starts_afresh(crashes: bool) -> None:
    """Given a task that a handler had tried again after a short time, when its transaction is tried again and it fails
    once more, then its own policy says when it is tried again."""

    engine = MemoryEngine()
    engine.fail(check, Busy(), times=2)
    engine.fail(check, Busy(), times=1, nth=2)
    engine.fail(look, Broken(), times=1)
    if crashes:
        engine.crash_at(look, "before")
    began = engine.clock.now
    assert engine.run(trip.bind()) == "room"
    assert engine.clock.now - began > 200
    engine.assert_ran(check, times=5)
    engine.assert_faults_happened()
