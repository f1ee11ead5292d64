"""What others get of a task that a fiber has called: that its errors are caught for the fiber is nobody's business."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceflow import TaskFailed
from onceflow.errors import NoOutput
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import caught
from tests.fibers.caught import taken_back


@pytest.fixture(autouse=True)
def _nothing_taken_back() -> Iterator[None]:
    taken_back.clear()
    yield
    taken_back.clear()


def test_an_undo_is_given_what_the_function_returned_that_a_fiber_called() -> None:
    with pytest.raises(TaskFailed):
        MemoryEngine().run(caught.trip.bind(), on_failure="undo")
    assert taken_back == [("Oslo", "ref to Oslo"), ("Bern", ("room", "flight")), ("Rome", "booking of Rome")]


def test_so_is_the_undo_of_a_task_whose_errors_are_caught_in_a_workflow() -> None:
    with pytest.raises(TaskFailed):
        MemoryEngine().run(caught.caught_trip.bind(), on_failure="undo")
    assert sorted(taken_back) == [("Bern", ("room", "flight")), ("Rome", "booking of Rome")]


def test_an_undo_that_comes_after_a_crash_is_given_the_same() -> None:
    def scenario(engine: MemoryEngine) -> None:
        taken_back.clear()
        with pytest.raises(TaskFailed):
            engine.run(caught.trip.bind(), on_failure="undo", name="trip")
        finished = {(city, output) for city, output in taken_back if output is not None}
        assert finished == {("Oslo", "ref to Oslo"), ("Bern", ("room", "flight")), ("Rome", "booking of Rome")}

    crash_everywhere(scenario)


def test_people_get_what_the_fiber_got() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed):
        engine.run(caught.tour.bind(), name="tour")
    assert engine.get_output("tour", "tour/book") == "booking of Rome"
    assert engine.get_output("tour", "tour~2/book_both") == ("room", "flight")
    assert engine.get_output("tour", "tour~3/book_by_ref").get() == "ref to Oslo"
    assert engine.get_output("tour", "tour~4/shouted") == "BOOKING OF LIMA"
    assert engine.get_output("tour", "tour~5/graph") == "BOOKING OF CORK"
    assert engine.get_output("tour", "tour~6/book") == ("booking of Nice", None)


def test_of_what_failed_there_is_no_output_but_the_error_is_told() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed):
        engine.run(caught.tour.bind(), name="tour")
    with pytest.raises(NoOutput, match="the fiber that called it was given the error") as told:
        engine.get_output("tour", "tour~7/cannot_book")
    assert isinstance(told.value.__cause__, ConnectionError)
