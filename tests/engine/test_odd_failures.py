"""Failures and times that are unusual, and concern nobody but their run."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, task
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until

NOT_UTF8 = "cannot read caf\udce9.txt"
"""As a message about the name of a file that is not UTF-8."""

MONTH = 30 * 86_400.0
"""Longer than an operating system lets anything sleep (2^31 ms)."""


@task
def pay(ledger: str) -> None:
    note(ledger, "paid")
    raise ValueError(NOT_UTF8)


@task(threads=True)
def pay_in_a_thread(ledger: str) -> None:
    note(ledger, "paid")
    raise ValueError(NOT_UTF8)


@task
async def pay_async(ledger: str) -> None:
    note(ledger, "paid")
    raise ValueError(NOT_UTF8)


@task
def double(number: int) -> int:
    return 2 * number


@task(retry=RetryPolicy(1, delay=MONTH, max_delay=MONTH))
def fail() -> None:
    raise ValueError


@pytest.mark.parametrize("how", [pay, pay_in_a_thread, pay_async])
def test_an_exception_whose_text_has_no_encoding_fails_its_task_once(how, engine: Engine, tmp_path: Path) -> None:
    """It killed the worker ten times, or the run never ended."""
    ledger = str(tmp_path / "ledger")
    with pytest.raises(TaskFailed) as failed:
        engine.run_async(how.bind(ledger)).result(timeout=30)
    assert str(failed.value.__cause__) == NOT_UTF8
    assert traces(ledger) == ["paid"]


def test_a_run_may_take_longer_than_the_loop_may_sleep(engine: Engine) -> None:
    """The engine failed, with all its runs."""
    assert engine.run(double.bind(1), timeout=MONTH) == 2
    waiting = engine.run_async(fail.bind(), timeout=12 * MONTH)
    until(lambda: engine.list_tasks(waiting.id)[0].state == "retrying")
    assert engine.run(double.bind(2)) == 4
    engine.cancel(waiting.id)
