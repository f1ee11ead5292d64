"""What ran and what was undone, and assertions about it whose messages help."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed
from onceflow.testing import MemoryEngine
from tests.testing.common import book_room, charge, check_card, quote, trip


@pytest.fixture
def engine() -> MemoryEngine:
    """One that has made a trip."""
    made = MemoryEngine()
    made.run(trip.bind("Rome"), name="rome")
    return made


@pytest.fixture
def undone() -> MemoryEngine:
    """One whose trip was taken back."""
    made = MemoryEngine()
    with pytest.raises(TaskFailed):
        made.run(trip.bind("Rome", declined=True), on_failure="undo")
    return made


def test_attempts_are_recorded_in_order(engine: MemoryEngine) -> None:
    assert engine.ran.tasks == ["quote", "book_room", "check_card", "charge"]
    assert len(engine.ran) == 4
    assert engine.ran[1].key == "run-1/book_room/0"
    assert {attempt.outcome for attempt in engine.ran} == {"finished"}
    assert [attempt.run for attempt in engine.ran[1:3]] == ["run-1", "run-1"]


def test_attempts_of_a_task_are_found_by_task_name_and_id(engine: MemoryEngine) -> None:
    assert engine.ran.of(charge) == engine.ran.of("charge") == engine.ran[3:]
    assert engine.ran.times(charge) == 1
    assert engine.ran.times("nobody") == 0


def test_a_failed_attempt_tells_what_it_raised(undone: MemoryEngine) -> None:
    assert str(undone.ran.of(check_card)[0]) == "check_card, attempt 1.3: raised (Declined: no money)"


def test_undos_are_recorded_apart(undone: MemoryEngine) -> None:
    assert undone.undone.tasks == ["book_room"]
    assert "book_room" in undone.ran.tasks


def test_assertions_that_hold(engine: MemoryEngine, undone: MemoryEngine) -> None:
    engine.assert_ran(quote, charge, in_order=True)
    engine.assert_ran("charge", times=1)
    engine.assert_not_ran("nobody")
    engine.assert_not_undone()
    undone.assert_undone(book_room, times=1)
    undone.assert_not_ran(charge)
    undone.assert_not_undone(charge)


def test_a_task_that_never_ran_is_told_with_the_story(engine: MemoryEngine) -> None:
    with pytest.raises(AssertionError) as caught:
        engine.assert_ran(charge, "send_mail")
    assert str(caught.value) == (
        "send_mail was never run. What happened:\n"
        "  1. quote, attempt 1.1: finished\n"
        "  2. book_room, attempt 1.2: finished\n"
        "  3. check_card, attempt 1.3: finished\n"
        "  4. charge, attempt 1.4: finished"
    )


def test_the_wrong_order_is_told(engine: MemoryEngine) -> None:
    with pytest.raises(AssertionError, match="quote was not run after charge"):
        engine.assert_ran(charge, quote, in_order=True)


def test_the_wrong_number_is_told(engine: MemoryEngine) -> None:
    with pytest.raises(AssertionError, match="charge was run once, not twice"):
        engine.assert_ran(charge, times=2)


def test_what_should_not_have_run_is_told(engine: MemoryEngine, undone: MemoryEngine) -> None:
    with pytest.raises(AssertionError, match="charge was run once"):
        engine.assert_not_ran(quote.options(name="other"), charge)
    with pytest.raises(AssertionError, match="book_room was undone"):
        undone.assert_not_undone()
    with pytest.raises(AssertionError, match="charge was never undone"):
        undone.assert_undone(charge)


def test_an_engine_that_did_nothing_says_so() -> None:
    with pytest.raises(AssertionError, match="nothing ran"):
        MemoryEngine().assert_ran(charge)


def test_the_story_tells_of_crashes() -> None:
    engine = MemoryEngine()
    engine.crash_at(charge)
    engine.run(trip.bind("Rome"))
    assert "charge, attempt 1.4: crashed\n  5. the engine crashed after charge\n" in engine.story
