"""Found by reading: what the real driver tells core, with real programs."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import task, transaction
from onceflow.errors import TaskTimedOut
from onceflow.handlers import handler, ignore, retry
from onceflow.testing import MemoryEngine, crash_everywhere

again = handler(TaskTimedOut, retry(1, delay=5))
late = handler(TaskTimedOut, ignore("late"))


def take_back(key: str) -> None:
    pass


@task(rollback=take_back)
def book() -> str:
    return "room"


@task(can_rollback=True, total_timeout=10)
def look(room: str) -> str:
    return room


@task(rollback=take_back, total_timeout=10)
def pay(room: str) -> str:
    return room


@transaction
def trip(last: Any) -> str:
    return last.bind(book.bind())


@pytest.mark.parametrize("last", [look, pay])
def test_the_time_of_a_task_begins_anew_when_the_transaction_around_it_is_tried_again(last: Any) -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.delay(last, 100, times=1)
        assert engine.run(trip.options(handlers=[again, late]).bind(last)) == "room"

    crash_everywhere(scenario)


@task
def through(last: Any) -> str:
    return trip.options(handlers=[again, late]).bind(last)  # type: ignore[no-any-return]


def test_so_it_does_if_the_transaction_is_the_result_of_another_graph() -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.delay(pay, 100, times=1)
        assert engine.run(through.bind(pay)) == "room"

    crash_everywhere(scenario)
