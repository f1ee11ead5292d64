"""Events are what fibers, and graphs that tasks return, say they wait for."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import TaskFailed
from onceflow.errors import EventRefused
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import asking
from tests.fibers.asking import Answer
from tests.fibers.common import world

REFUSED = "event 'answer' cannot be used, and is taken: this waits for Answer: Expected `object`, got `str`"


def sent(function: Any, *events: tuple[str, object]) -> Any:
    """What comes of it if these are sent."""
    engine = MemoryEngine()
    handle = engine.run_async(function.bind(), name="asked")
    for key, payload in events:
        engine.send_event("asked", key, payload)
    return handle.result()


@pytest.mark.parametrize("function", [asking.asking, asking.in_arguments, asking.returning])
def test_plain_data_become_what_is_waited_for(function: Any) -> None:
    assert sent(function, ("answer", {"ok": True})) == Answer(ok=True)
    assert sent(function, ("answer", Answer(ok=False, by="ann"))) == Answer(ok=False, by="ann")


def test_what_does_not_fit_is_raised_at_the_await() -> None:
    with pytest.raises(TaskFailed, match=REFUSED) as failed:
        sent(asking.asking, ("answer", "hello"))
    assert isinstance(failed.value.__cause__, EventRefused)


def test_a_fiber_may_wait_for_the_next_one_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        handle = engine.run_async(asking.patient.bind(), name="asked")
        engine.send_event("asked", "answer", "hello", id="first")
        engine.send_event("asked", "answer", {"ok": True, "by": "bob"}, id="second")
        assert handle.result() == [f"answer: {REFUSED}", Answer(ok=True, by="bob")]
        world.assert_holds("asked again")

    crash_everywhere(scenario)


def test_those_that_are_gathered_are_looked_at_one_by_one() -> None:
    answer, error = sent(asking.at_once, ("answer", {"ok": False}), ("number", "seven"))
    assert answer == Answer(ok=False)
    assert "this waits for int" in str(error)


@pytest.mark.parametrize("default", [None, {"ok": False}, Answer(ok=False), "x" * 100_000])
def test_a_default_is_given_as_it_is(default: object) -> None:
    assert MemoryEngine().run(asking.in_time.bind(default)) == default


def test_a_default_is_not_for_those_whose_own_time_is_over() -> None:
    assert MemoryEngine().run(asking.cut_short.bind()) == "too late"


def test_in_a_graph_that_a_task_returned_the_run_fails() -> None:
    with pytest.raises(TaskFailed, match=REFUSED):
        sent(asking.returning, ("answer", "hello"))
    assert MemoryEngine().run(asking.returning.bind()) is None
