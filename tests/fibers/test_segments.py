"""Fibers as chains of segments and ops, in the memory engine, with a crash at every moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceflow import TaskFailed
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import common
from tests.fibers.common import world


def ends(node: Callable[[], Any], result: Any, *effects: str) -> Callable[[MemoryEngine], None]:
    """A scenario: this runs in a new world, gives this result, and leaves these effects, each once."""

    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        assert engine.run(node()) == result
        world.assert_holds(*effects)

    return scenario


def test_a_fiber_awaits_tasks_one_after_the_other_whatever_crashes_when() -> None:
    result = {"customer": "ann", "receipts": ["ann 0: 2", "ann 1: 4"]}
    lives = crash_everywhere(ends(lambda: common.order.bind("ann", [1, 2]), result, "ann 0: 2", "ann 1: 4"))
    assert lives > 20


def test_what_a_task_raises_is_raised_at_the_await() -> None:
    scenario = ends(lambda: common.paying.bind("gold"), "unpaid", "gold was declined with 7", "done")
    crash_everywhere(scenario, crashes=2)


def test_a_durable_function_that_is_awaited_is_a_call_like_any_other() -> None:
    crash_everywhere(ends(lambda: common.stacked.bind(3), 26, "total 8"))


def test_several_are_awaited_at_once() -> None:
    result = [("a", "bb", 8), (14, 20)]
    scenario = ends(lambda: common.together.bind(["a", "bb"]), result, "a", "bb", "total 4", "total 6")
    crash_everywhere(scenario, seeds=[None, 1])


def test_a_fiber_awaits_loops_workflows_graphs_and_other_fibers() -> None:
    result = [[2, 4], ["one", "two"], 26, ["three", 16]]
    crash_everywhere(ends(lambda: common.mixed.bind([1, 2]), result, "one", "two", "three", "total 8"))


def test_an_event_comes_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        handle = engine.run_async(common.approval.bind("tea"), name="tea")
        engine.send_event("tea", "approval", True, id="once")
        assert handle.result() == "yes"
        world.assert_holds("asked for tea", "tea: True")

    crash_everywhere(scenario, seeds=[None, 1])


def test_an_event_that_does_not_come_in_time_is_its_default() -> None:
    crash_everywhere(ends(lambda: common.approval.bind("tea"), "no", "asked for tea", "tea: False"))


def test_what_a_fiber_raises_fails_its_run() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(common.order.bind("ann", ["x", None]))  # type: ignore[list-item]
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_fiber_may_have_much_with_it_whatever_crashes_when() -> None:
    size = 100_000
    effects = "began", "weighed 0", "weighed 1", "weighed 2", "weighed 0"
    crash_everywhere(ends(lambda: common.laden.bind(size), [size] * 4, *effects))
