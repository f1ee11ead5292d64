"""Tests for trip_booking.py, to copy from: a first one, faults, time, and a crash at every moment.

    pytest examples/test_trip_booking.py

Nothing here starts a process or waits. The world outside, an SQLite file, is replaced by a ledger in memory.
"""

from __future__ import annotations

import pytest
import trip_booking
from trip_booking import CardRefused, book_flight, book_room, pay, send_tickets, trip

from onceflow import TaskFailed
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere

OFFER = trip_booking.Offer("flight to Rome", "room in Rome", 200)

BOOKED = [
    "flight to Rome for ann",
    "room in Rome for ann",
    "400 euros of ann reserved",
    "400 euros of ann paid",
    "sent to ann: flight to Rome for ann, room in Rome for ann",
]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Airline, hotel and bank."""
    world = Ledger()

    def book(key: str, what: str) -> str:
        world.enter(what, key)
        return what

    monkeypatch.setattr(trip_booking, "book", book)
    monkeypatch.setattr(trip_booking, "cancel", world.take_back)
    monkeypatch.setattr(trip_booking.random, "randint", lambda low, high: OFFER.euros)
    return world


def test_a_trip_is_booked(onceflow_engine: MemoryEngine, world: Ledger) -> None:
    assert onceflow_engine.run(trip.bind("ann", "Rome")) == BOOKED[-1]
    world.assert_holds(*BOOKED)
    onceflow_engine.assert_ran(book_flight, pay, send_tickets, in_order=True)


def test_a_refused_card_leaves_nothing_behind(onceflow_engine: MemoryEngine, world: Ledger) -> None:
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(trip.bind("bob", "Rome"), on_failure="undo")
    assert isinstance(caught.value.__cause__, CardRefused)
    onceflow_engine.assert_undone(book_flight, book_room)
    onceflow_engine.assert_not_ran(pay, send_tickets)
    world.assert_holds()


def test_an_airline_that_is_out_of_reach_is_asked_again(onceflow_engine: MemoryEngine, world: Ledger) -> None:
    onceflow_engine.fail(book_flight, ConnectionError("no line"), times=3)
    began = onceflow_engine.clock.now
    onceflow_engine.run(trip.bind("ann", "Rome"))
    onceflow_engine.assert_ran(book_flight, times=4)
    assert onceflow_engine.clock.now > began + 6  # 1, 2 and 4 seconds, give or take: none of them real
    world.assert_holds(*BOOKED)


def test_a_payment_whose_answer_is_lost_is_made_once(onceflow_engine: MemoryEngine, world: Ledger) -> None:
    onceflow_engine.crash_at(pay, when="after effect")
    onceflow_engine.run(trip.bind("ann", "Rome"))
    world.assert_holds(*BOOKED)
    assert world.repeated == ["400 euros of ann paid"]  # asked for twice with one key, and so paid once


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_trip_survives_a_crash_at_every_moment(world: Ledger, seed: int | None) -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.run(trip.bind("ann", "Rome"))
        world.assert_holds(*BOOKED)

    crash_everywhere(scenario, seeds=[seed])


def test_taking_back_survives_a_crash_at_every_moment(world: Ledger) -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        with pytest.raises(TaskFailed):
            engine.run(trip.bind("bob", "Rome"), on_failure="undo")
        world.assert_holds()

    crash_everywhere(scenario)
