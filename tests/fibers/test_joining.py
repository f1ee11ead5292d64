"""Joining children: what becomes of it when a child is taken back, and of children that cannot be joined."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import RunCancelled, TaskFailed
from onceflow.errors import CannotJoin, InvalidGraph
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import joining
from tests.fibers.common import world
from tests.fibers.test_segments import ends


@pytest.fixture(autouse=True)
def open_shop() -> Any:
    yield
    joining.closed = False
    joining.booked = 0
    joining.tickets.clear()


def closed_first(node: Callable[[], Any], **settings: Any) -> Callable[[MemoryEngine], Any]:
    """A run that fails while the shop is closed, and is resumed when it is open. Gives what became of it."""

    def scenario(engine: MemoryEngine) -> Any:
        world.clear()
        joining.booked = 0
        joining.closed = True
        try:
            engine.run(node(), name="trip", **settings)
        except TaskFailed:
            joining.closed = False
        for _ in range(2):
            try:
                return engine.resume("trip")
            except TaskFailed:  # a crash took it before it was durable that somebody had resumed the run
                pass
        raise AssertionError("the shop is open")

    return scenario


def test_who_joined_a_child_that_was_undone_joins_it_anew() -> None:
    assert closed_first(joining.trip.bind, on_failure="undo")(MemoryEngine()) == "ticket for room 2"
    world.assert_holds("room 2", "ticket for room 2")


def test_so_it_does_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        ticket = closed_first(joining.trip.bind, on_failure="undo")(engine)
        room = ticket.removeprefix("ticket for ")
        world.assert_holds(room, ticket)

    crash_everywhere(scenario)


def test_what_waits_for_a_child_that_nobody_joined_is_undone_with_it() -> None:
    assert closed_first(joining.forgetful.bind, on_failure="undo")(MemoryEngine()) == "done"
    world.assert_holds("room 2")


def test_what_a_fiber_raised_because_of_a_child_is_undone_with_it() -> None:
    assert closed_first(joining.caught_trip.bind, on_failure="undo")(MemoryEngine()) == "room 2"
    world.assert_holds("room 2")


def test_a_child_on_which_something_irrevocable_was_built_is_kept() -> None:
    engine = MemoryEngine()
    joining.closed = True
    with pytest.raises(TaskFailed) as caught:
        engine.run(joining.paid_trip.bind(), name="trip", on_failure="undo")
    assert caught.value.kept == ("paid_trip/fiber/book",)
    world.assert_holds("room 1", "paid for room 1")
    joining.closed = False
    assert engine.resume("trip") == "paid for room 1"


@pytest.mark.parametrize("around", [joining.retried_trip, joining.repeated_trip])
def test_a_transaction_that_is_taken_back_joins_again_what_was_forked_outside_of_it(around: Any) -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        joining.tickets.clear()
        ticket = engine.run(around.bind())
        world.assert_holds(ticket.removeprefix("ticket for "), ticket)

    crash_everywhere(scenario)


def test_a_fiber_cannot_fork_in_a_transaction_which_is_taken_back() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(joining.whole_trip.bind())
    assert isinstance(caught.value.__cause__, InvalidGraph)
    assert "in the transaction 'whole_trip'" in str(caught.value.__cause__)
    assert "`gather`" in str(caught.value.__cause__)
    world.assert_holds()


def test_cancelling_with_undo_takes_back_the_join_with_the_child() -> None:
    engine = MemoryEngine()
    engine.cancel_at(joining.issue, "after effect", undo=True)
    with pytest.raises(RunCancelled):
        engine.run(joining.trip.bind(), name="trip")
    world.assert_holds()
    assert engine.resume("trip") == "ticket for room 2"
    world.assert_holds("room 2", "ticket for room 2")


def test_running_again_from_a_task_of_a_child_runs_again_what_came_of_joining_it() -> None:
    engine = MemoryEngine()
    first = engine.run_async(joining.trip.bind())
    assert first.result() == "ticket for room 1"
    assert engine.rerun(first.id, from_task="trip/fiber/book") == "ticket for room 2"


def test_a_child_that_ended_with_its_parent_cannot_be_joined() -> None:
    message = (
        "CannotJoin: left_behind/leaving/child-1 cannot be joined: it was forked in another run, or was ended with the "
        "fiber that had forked it"
    )
    crash_everywhere(ends(joining.left_behind.bind, message))


def test_a_child_of_another_run_cannot_be_joined() -> None:
    engine = MemoryEngine()
    child = engine.run(joining.giving.bind())
    with pytest.raises(TaskFailed) as caught:
        engine.run(joining.joining.bind(child), name="other")
    assert isinstance(caught.value.__cause__, CannotJoin)
    assert caught.value.__cause__.child == "giving/child-1"


def test_a_fiber_cannot_join_itself() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(joining.circle.bind())
    assert "it would wait for itself" in str(caught.value.__cause__)


@pytest.mark.parametrize("first", [None, "first"])
@pytest.mark.parametrize("around", [joining.calling_what_breaks, joining.forking_what_breaks])
def test_a_break_ends_a_fiber_with_all_its_children(around: Any, first: str | None) -> None:
    effects = [] if first is None else [first]
    crash_everywhere(ends(lambda: around.bind(first), (None, "went on"), *effects))


@pytest.mark.parametrize("first", [None, "first"])
def test_so_it_does_if_the_fiber_is_the_run(first: str | None) -> None:
    ends(lambda: joining.breaking.bind(first), None, *([] if first is None else [first]))(MemoryEngine())


def test_who_waits_for_room_waits_no_longer_than_the_block_says() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.run(joining.without_room.bind()) == ["no room", "waited 1000"]
    assert engine.clock.now - began == 1000
    crash_everywhere(ends(joining.without_room.bind, ["no room", "waited 1000"], "waited 1000"))


def test_a_child_is_not_bound_by_the_block_in_which_it_was_forked() -> None:
    crash_everywhere(ends(joining.outliving.bind, "waited 60", "waited 60"))


def test_a_child_of_a_fiber_that_was_called_in_a_block_is_bound_by_it() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    ends(joining.called_in_time.bind, "too late")(engine)
    assert engine.clock.now - began == 10
