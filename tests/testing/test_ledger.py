"""The ledger: a world outside that knows idempotency keys and forgets nothing."""

from __future__ import annotations

import pickle

import pytest

from onceflow import OnceflowError, task
from onceflow.errors import NotInTask
from onceflow.testing import Effect, Ledger, MemoryEngine


def test_what_is_entered_is_there_once_for_each_key() -> None:
    ledger = Ledger()
    assert ledger.enter("room", "a")
    assert not ledger.enter("room", "a")
    assert ledger.enter("room", "b")
    assert ledger.holds == ["room", "room"]
    assert ledger.repeated == ["room"]
    assert len(ledger) == 2


def test_what_is_taken_back_is_there_no_more_and_does_not_come_again() -> None:
    ledger = Ledger()
    ledger.enter("room", "a")
    assert ledger.take_back("a")
    assert not ledger.take_back("a")
    assert not ledger.enter("room", "a")
    ledger.assert_holds()
    assert ledger.effects == [Effect("room", "a", 2, taken_back=True)]


def test_what_comes_after_it_was_taken_back_is_too_late() -> None:
    ledger = Ledger()
    assert not ledger.take_back("a")
    assert not ledger.enter("room", "a")
    ledger.assert_holds()


def test_the_key_is_that_of_the_task() -> None:
    ledger = Ledger()

    @task
    def book() -> None:
        ledger.enter("room")

    MemoryEngine().run(book.bind())
    assert [effect.key for effect in ledger.effects] == ["run-1/book/0"]


def test_outside_of_tasks_a_key_is_needed() -> None:
    with pytest.raises(NotInTask):
        Ledger().enter("room")


def test_a_ledger_is_itself_as_an_argument_of_a_task() -> None:
    @task
    def book(ledger: Ledger) -> Ledger:
        ledger.enter("room")
        return ledger

    ledger = Ledger()
    assert MemoryEngine().run(book.bind(ledger)) is ledger
    ledger.assert_holds("room")


def test_a_ledger_is_not_to_be_had_in_another_process() -> None:
    ledger = Ledger()
    pickled = pickle.dumps(ledger)
    del ledger
    with pytest.raises(OnceflowError, match="lives in the process of the test that made it"):
        pickle.loads(pickled)


def test_what_does_not_hold_is_told() -> None:
    ledger = Ledger()
    ledger.enter("room", "a")
    ledger.enter("room", "b")
    ledger.enter("flight", "c")
    ledger.take_back("c")
    with pytest.raises(AssertionError) as caught:
        ledger.assert_holds("room", "flight")
    assert str(caught.value) == (
        "'room' is there too often; 'flight' is missing. What happened:\n"
        "  'room' under a, asked for 1 time\n"
        "  'room' under b, asked for 1 time\n"
        "  'flight' under c, asked for 1 time, taken back"
    )
    with pytest.raises(AssertionError, match="'room' is there and should not be"):
        ledger.assert_holds()


def test_an_empty_world_has_nothing_to_tell() -> None:
    with pytest.raises(AssertionError, match=r"'room' is missing\. What happened:\nnothing"):
        Ledger().assert_holds("room")
