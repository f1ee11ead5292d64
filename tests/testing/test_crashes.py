"""A crash at every moment."""

from __future__ import annotations

import random

import pytest

from onceflow import TaskFailed, task
from onceflow.testing import CrashPoint, Ledger, MemoryEngine, crash_everywhere, crash_points
from tests.testing.common import ROME, trip, world


def make_trip(engine: MemoryEngine) -> None:
    world.clear()
    assert engine.run(trip.bind("Rome")) == ROME
    world.assert_holds("room in Rome", "400 cents")


def take_trip_back(engine: MemoryEngine) -> None:
    world.clear()
    with pytest.raises(TaskFailed) as caught:
        engine.run(trip.bind("Rome", declined=True), on_failure="undo")
    assert caught.value.undone
    world.assert_holds()


def test_a_trip_survives_a_crash_at_every_moment() -> None:
    lives = crash_everywhere(make_trip)
    assert lives == 1 + len(crash_points(make_trip)) > 15


def test_a_trip_survives_a_crash_at_every_moment_of_its_recovery_from_another() -> None:
    assert crash_everywhere(make_trip, crashes=2) > crash_everywhere(make_trip)


def test_a_trip_survives_a_crash_at_every_moment_in_many_orders() -> None:
    crash_everywhere(make_trip, seeds=range(10))


def test_what_was_done_is_taken_back_whatever_crashes_when() -> None:
    crash_everywhere(take_trip_back, crashes=2)


@pytest.mark.parametrize("point", crash_points(make_trip), ids=str)
def test_each_moment_can_be_a_test(point: CrashPoint) -> None:
    make_trip(point.engine())


def test_moments_are_told_in_words() -> None:
    places = [str(point) for point in crash_points(make_trip)]
    assert places[0].startswith("before the commit of the new run")
    assert "after charge" in places
    assert str(CrashPoint((1, 2), ("before a", "after b"), seed=7)) == "before a, then after b (seed 7)"
    assert str(CrashPoint((), ())) == "nowhere"


shop = Ledger()
orders = 0


@task
def order() -> str:
    """Wrong: the key is its own and new each time, so that a repeated request is a second order."""
    global orders
    orders += 1
    shop.enter("book", key=f"order {orders}")
    return "ordered"


def test_a_task_that_is_not_idempotent_is_caught_and_the_moment_told() -> None:
    def scenario(engine: MemoryEngine) -> None:
        shop.clear()
        assert engine.run(order.bind()) == "ordered"
        shop.assert_holds("book")

    with pytest.raises(AssertionError, match="'book' is there too often") as caught:
        crash_everywhere(scenario)
    (note,) = caught.value.__notes__
    assert note.startswith("This was with a crash after order. What happened:\n")
    assert "order, attempt 1.1: crashed" in note


def test_a_scenario_that_fails_without_a_crash_says_so() -> None:
    def scenario(engine: MemoryEngine) -> None:
        assert engine.run(trip.bind("Rome")) == "something else"

    with pytest.raises(AssertionError) as caught:
        crash_everywhere(scenario)
    assert caught.value.__notes__[-1].startswith("This was without any crash.")


def test_a_scenario_that_depends_on_chance_is_refused() -> None:
    chance = random.Random(3)

    def scenario(engine: MemoryEngine) -> None:
        for _ in range(chance.randrange(4)):
            engine.run(trip.bind("Rome"))

    with pytest.raises(AssertionError, match="does not do the same each time"):
        crash_everywhere(scenario)


def test_a_scenario_may_use_faults() -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.fail("charge", ConnectionError("x"), times=2)
        make_trip(engine)

    crash_everywhere(scenario)


def test_a_fault_that_never_happens_is_told() -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.fail("chrage", ConnectionError("x"))
        make_trip(engine)

    with pytest.raises(AssertionError, match=r"chrage.* never happened"):
        crash_everywhere(scenario)


def test_a_scenario_may_have_many_runs() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        assert engine.run_many([trip.bind("Rome"), trip.bind("Oslo")], names=["rome", "oslo"])[0] == ROME
        assert engine.run(trip.bind("Rome"), name="rome") == ROME
        world.assert_holds("room in Rome", "400 cents", "room in Oslo", "400 cents")

    crash_everywhere(scenario)


@task
def step(number: int) -> object:
    shop.enter(number)
    return step.bind(number - 1) if number else "landed"


def test_returned_graphs_survive_a_crash_at_every_moment() -> None:
    def scenario(engine: MemoryEngine) -> None:
        shop.clear()
        assert engine.run(step.bind(3)) == "landed"
        shop.assert_holds(3, 2, 1, 0)

    crash_everywhere(scenario, crashes=2)
