"""Runs that fail because a fiber lets an error through: when somebody resumes them, what had failed is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceflow import RunCancelled, TaskFailed
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import letting_through
from tests.fibers.common import world
from tests.fibers.letting_through import Rejected, broken


@pytest.fixture(autouse=True)
def _everything_works() -> Iterator[None]:
    broken.clear()
    yield
    broken.clear()


def failed(engine: MemoryEngine, node: Any, *names: str) -> TaskFailed:
    """Why a run fails in which these do not work. When this returns, they do."""
    broken.update(names)
    with pytest.raises(TaskFailed) as told:
        engine.run(node, name="order")
    broken.clear()
    return told.value


def test_the_task_is_named_that_failed_and_may_have_happened() -> None:
    problem = failed(MemoryEngine(), letting_through.buying.bind("ann"), "ann")
    assert problem.task == "buying~2/pay"
    assert problem.failed == ("buying~2/pay", "buying~2/segment")
    assert problem.uncertain == ("buying~2/pay",)
    assert isinstance(problem.__cause__, ConnectionError)


def test_whoever_asks_later_is_told_the_same() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.buying.bind("ann"), "ann")
    broken.add("ann")
    with pytest.raises(TaskFailed) as told:
        engine.resume("order")
    assert told.value.failed == ("buying~2/pay", "buying~2/segment")
    assert told.value.uncertain == ("buying~2/pay",)


def test_it_is_tried_again_and_what_was_done_before_stays() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.buying.bind("ann"), "ann")
    assert engine.resume("order") == "ann"
    world.assert_holds("ordered", "ann paid")


def test_as_often_as_it_takes() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.buying.bind("ann"), "ann")
    broken.add("ann")
    with pytest.raises(TaskFailed):
        engine.resume("order")
    broken.clear()
    assert engine.resume("order") == "ann"


def test_an_undoable_task_was_taken_back_and_is_tried_again() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.reserving.bind("room"), "room")
    assert problem.uncertain == ()
    world.assert_holds()
    assert engine.resume("order") == "room"
    world.assert_holds("room reserved")


def test_all_that_failed_together_is_tried_again() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.splitting.bind("ann", "bob", "cyd"), "ann", "cyd")
    assert problem.failed == ("splitting/pay", "splitting/pay_2", "splitting/segment")
    assert engine.resume("order") == ("ann", "bob", "cyd")
    world.assert_holds("bob paid", "ann paid", "cyd paid")


def test_what_is_raised_from_the_error_counts_as_well() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.rejecting.bind("ann"), "ann")
    assert isinstance(problem.__cause__, Rejected)
    assert engine.resume("order") == "ann"


def test_an_error_that_the_fiber_took_is_not_tried_again() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.replying.bind("ann"), "ann", "reply")
    assert problem.failed == ("replying/segment",)
    assert engine.resume("order") == "unpaid"
    engine.assert_ran(letting_through.pay, times=1)


def test_it_is_tried_again_where_it_is_however_many_fibers_let_it_through() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.asking.bind("ann"), "ann")
    assert problem.failed == ("asking/buying", "asking/segment")
    assert engine.resume("order") == "asked ann"
    world.assert_holds("ordered", "ann paid")


def test_of_a_workflow_only_what_failed_is_tried_again() -> None:
    engine = MemoryEngine()
    problem = failed(engine, letting_through.composing.bind("workflow"), "bob")
    assert problem.failed == ("composing/both", "composing/segment")
    assert engine.resume("order") == ["ann", "bob"]
    world.assert_holds("ann paid", "bob paid")


def test_a_transaction_that_was_taken_back_starts_afresh() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.composing.bind("transaction"), "bob")
    assert engine.resume("order") == "bob"


def test_what_others_may_have_joined_stays() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.sending.bind("ann"), "ann")
    with pytest.raises(TaskFailed):
        engine.resume("order")
    engine.assert_ran(letting_through.pay, times=1)


@pytest.mark.parametrize("how", ["buying", "reserving", "asking", "workflow"])
def test_whatever_crashes_when_it_is_done_in_the_end(how: str) -> None:
    nodes = {
        "buying": lambda: letting_through.buying.bind("ann"),
        "reserving": lambda: letting_through.reserving.bind("ann"),
        "asking": lambda: letting_through.asking.bind("ann"),
        "workflow": lambda: letting_through.composing.bind("workflow"),
    }

    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        failed(engine, nodes[how](), "ann")
        try:
            engine.resume("order")
        except TaskFailed:  # the crash came before anybody knew that it was to go on
            engine.resume("order")
        assert engine.status("order") == "succeeded"

    crash_everywhere(scenario)


def test_nothing_is_tried_again_for_a_fiber_whose_result_was_given() -> None:
    engine = MemoryEngine()
    failed(engine, letting_through.buying.bind("ann"), "ann")
    engine.set_result("order", "buying~2/segment", "by hand")
    world.clear()
    assert engine.resume("order") == "by hand"
    world.assert_holds()


def test_what_fails_while_a_fiber_cleans_up_is_tried_again() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(letting_through.refunding.bind("ann"), name="order")
    engine.clock.advance(1)
    broken.add("ann")
    engine.cancel("order")
    world.assert_holds()
    with pytest.raises(TaskFailed) as told:
        engine.resume("order")
    assert told.value.task == "refunding~2/pay"
    broken.clear()
    with pytest.raises(RunCancelled):
        engine.resume("order")
    world.assert_holds("ann paid")
    assert handle.done()


def test_a_run_is_cancelled_while_the_outcome_of_a_graph_is_made() -> None:
    """What makes it is not stopped, again and again; the fiber is told at its next await."""
    engine = MemoryEngine()
    engine.cancel_at("counting/ones/caught", "before")
    with pytest.raises(RunCancelled):
        engine.run(letting_through.counting.bind())
