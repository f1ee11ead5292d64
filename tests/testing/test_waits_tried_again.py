"""Waits for events that have run out of time, and are tried again."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed, sleep, task, transaction, wait_event
from onceflow.errors import EventTimedOut
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine


class Busy(Exception):
    pass


@task(can_rollback=True)
def decide(approved: bool) -> str:
    return "yes" if approved else "no"


@task(can_rollback=True, handlers=[handler(EventTimedOut, retry(1, delay=10, jitter=0))])
def ask() -> str:
    return decide.bind(wait_event("approval", bool, timeout=60))  # type: ignore[return-value]


def test_a_wait_that_ran_out_of_time_waits_as_long_again_when_its_run_is_resumed() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed):
        engine.run(decide.bind(wait_event("approval", bool, timeout=60)), name="order")
    began = engine.clock.now
    with pytest.raises(TaskFailed):
        engine.resume("order")
    assert engine.clock.now - began == 60


@pytest.mark.parametrize("crashes", [False, True])
def test_a_wait_that_a_handler_tries_again_waits_as_long_again(crashes: bool) -> None:
    engine = MemoryEngine(on_crash="raise")
    began = engine.clock.now
    handle = engine.run_async(ask.bind(), name="order")
    engine.clock.advance(65)  # it has failed, and has yet to be tried again
    if crashes:
        engine.crash()
    with pytest.raises(TaskFailed):
        engine.resume("order") if crashes else handle.result()
    assert engine.clock.now - began == 130


@task(can_rollback=True)
def check() -> None: ...


@task(can_rollback=True)
def both(approved: bool, checked: None) -> bool:
    return approved


@transaction(handlers=[handler(Busy, retry(1, delay=20, jitter=0))])
def checked() -> bool:
    checks = check.options(after=[sleep(50)]).bind()
    return both.bind(wait_event("approval", bool, timeout=60, default=False), checks)  # type: ignore[return-value]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_wait_in_a_graph_that_is_tried_again_waits_as_long_again(crashes: bool) -> None:
    engine = MemoryEngine(on_crash="raise")
    engine.fail(check, Busy(), times=1)
    began = engine.clock.now
    handle = engine.run_async(checked.bind(), name="order")
    engine.clock.advance(55)  # the graph has failed, and has yet to be tried again
    if crashes:
        engine.crash()
    assert (engine.resume("order") if crashes else handle.result()) is False
    assert engine.clock.now - began == 130
