"""Events and time in the memory engine, with a crash at every moment."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from onceflow import TaskFailed, send_event, sleep, sleep_until, task
from onceflow import wait_event as wait
from onceflow.errors import EventRefused, EventTimedOut, InvalidOption
from onceflow.testing import MemoryEngine, crash_everywhere

asked: list[str] = []


@task
def ask(order: str) -> str:
    asked.append(order)
    return order


@task(can_rollback=True)
def decide(order: str, approved: bool) -> str:
    return f"{order}: {'yes' if approved else 'no'}"


def approval(order: str, **how: Any) -> str:
    asking = ask.bind(order)
    return decide.bind(asking, wait("approval", bool, after=[asking], **how))


def test_an_event_that_comes_later_is_waited_for_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        handle = engine.run_async(approval("tea"), name="order")
        engine.send_event("order", "approval", True, id="once")
        assert handle.result() == "tea: yes"

    crash_everywhere(scenario, seeds=[None, 1, 2])


def test_an_event_is_there_once_though_it_was_sent_twice() -> None:
    @task(can_rollback=True)
    def both(first: int, second: int) -> tuple[int, int]:
        return first, second

    first = wait("number", int)
    engine = MemoryEngine()
    handle = engine.run_async(
        both.bind(first, wait("number", int, after=[first], timeout=60, default=-1)), name="twice"
    )
    engine.send_event("twice", "number", 1, id="a")
    engine.send_event("twice", "number", 1, id="a")
    assert handle.result() == (1, -1)


def test_events_are_given_in_the_order_in_which_they_were_sent() -> None:
    @task(can_rollback=True)
    def listed(*numbers: int) -> tuple[int, ...]:
        return numbers

    waits: list[Any] = []
    for _ in range(3):
        waits.append(wait("number", int, after=waits[-1:]))
    engine = MemoryEngine()
    handle = engine.run_async(listed.bind(*waits), name="three")
    for number in (3, 1, 2):
        engine.send_event("three", "number", number)
    assert handle.result() == (3, 1, 2)


def test_without_an_event_in_time_a_wait_fails_or_has_its_default() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    with pytest.raises(TaskFailed) as caught:
        engine.run(approval("tea", timeout=3600))
    assert isinstance(caught.value.__cause__, EventTimedOut)
    assert engine.clock.now - began == 3600
    assert engine.run(approval("tea", timeout=60, default=False)) == "tea: no"


def test_time_goes_on_while_the_engine_is_dead() -> None:
    """Given a wait of an hour, when the engine dies after half of it, then it goes on for the other half."""
    engine = MemoryEngine(on_crash="raise")
    handle = engine.run_async(decide.options(after=[sleep(3600)]).bind("tea", True), name="later")
    began = engine.clock.now
    engine.clock.advance(1800)
    assert not handle.done()
    engine.crash()
    engine.clock.advance(600)
    assert engine.resume("later") == "tea: yes"
    assert engine.clock.now - began == 3600


def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    engine.run(decide.options(after=[sleep_until(began - 10)]).bind("tea", True))
    assert engine.clock.now == began
    moment = datetime.datetime.fromtimestamp(began + 90, datetime.UTC)
    engine.run(decide.options(after=[sleep_until(moment)]).bind("tea", True))
    assert engine.clock.now == began + 90


def test_an_event_of_a_wait_that_is_dropped_is_there_again_for_the_next() -> None:
    """Given a wait below what is lost before it is saved, when that runs again, then the wait takes the event again."""

    @task(checkpoint=False, can_rollback=True)
    def loose() -> int:
        return 1

    @task(can_rollback=True)
    def add(number: int, event: int) -> int:
        return number + event

    def scenario(engine: MemoryEngine) -> None:
        first = loose.bind()
        engine.lose_output(loose, before=add)
        handle = engine.run_async(add.bind(first, wait("number", int, after=[first])), name="dropped")
        engine.send_event("dropped", "number", 2, id="the one")
        assert handle.result() == 3

    crash_everywhere(scenario)


def test_a_task_sends_an_event_once_however_often_it_runs() -> None:
    @task(can_rollback=True)
    def count(first: int, second: int) -> tuple[int, int]:
        return first, second

    @task
    def send(run: str) -> None:
        send_event(run, "number", 7)

    def scenario(engine: MemoryEngine) -> None:
        first = wait("number", int)
        second = wait("number", int, after=[first], timeout=60, default=0)
        handle = engine.run_async(count.bind(first, second), name="receiver")
        engine.run(send.bind("receiver"), name="sender")
        assert handle.result() == (7, 0)

    crash_everywhere(scenario)


def test_what_does_not_fit_is_refused_when_it_is_sent() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(approval("tea"), name="typed")
    with pytest.raises(EventRefused, match="it waits for bool"):
        engine.send_event("typed", "approval", "perhaps")
    engine.send_event("typed", "approval", False)
    assert handle.result() == "tea: no"
    with pytest.raises(EventRefused, match=r"it has ended \(succeeded\)"):
        engine.send_event("typed", "approval", True)


def test_a_run_that_waits_can_be_cancelled() -> None:
    engine = MemoryEngine()
    engine.run_async(approval("tea"), name="cancelled")
    assert engine.cancel("cancelled") == "cancelled"


def test_what_cannot_be_waited_for_is_refused() -> None:
    with pytest.raises(InvalidOption, match="seconds must be a number"):
        sleep(-1)
    with pytest.raises(InvalidOption, match="has no time zone"):
        sleep_until(datetime.datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidOption, match="a default is for when a timeout is over"):
        wait("x", int, default=1)
