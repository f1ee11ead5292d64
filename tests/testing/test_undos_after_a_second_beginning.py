"""What an undo is given of the inputs, if the task had begun before with others."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed, current, sleep, task, transaction
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine

paid: dict[str, str] = {}
"""Key → the room that was paid."""
wrong: list[str] = []


def give_back(key: str) -> None:
    pass


@task(rollback=give_back)
def book() -> str:
    """Another room each time."""
    return f"room {current().attempt}"


def pay_back(room: str, key: str) -> None:
    if paid.pop(key, room) != room:
        wrong.append(room)


@task(rollback=pay_back)
def pay(room: str) -> str:
    paid[current().key] = room
    return room


class Busy(Exception):
    pass


@task(can_rollback=True)
def check(room: str) -> str:
    return room


@transaction(handlers=[handler(Busy, retry(2, delay=1))])
def trip() -> str:
    return check.bind(pay.bind(book.bind()))  # type: ignore[return-value]


@task(can_rollback=True)
def look() -> None: ...


@task(can_rollback=True)
def both(room: str, looked: None) -> str:
    return room


def test_an_undo_sees_what_its_own_attempt_saw_not_what_an_earlier_one_did() -> None:
    """Given a transaction that is tried again in a run that fails before a task in it has begun for the second time,
    when the run is resumed, and the transaction is taken back once more, then the undo of the task gets the inputs of
    its second attempt."""
    paid.clear()
    wrong.clear()
    engine = MemoryEngine()
    engine.delay(book, 10)
    engine.fail(check, Busy(), times=2)
    engine.fail(look, ValueError(), times=1)
    with pytest.raises(TaskFailed):
        engine.run(both.bind(trip.bind(), look.options(after=[sleep(15)]).bind()), name="trip")
    engine.assert_ran(book, times=2)
    engine.assert_ran(pay, times=1)
    assert engine.resume("trip") in paid.values()
    engine.assert_undone(pay, times=2)
    assert not wrong
