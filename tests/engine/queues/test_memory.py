"""Queues by the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import RetryPolicy, TaskFailed, fiber, for_each, task
from onceflow.errors import InvalidOption, NoSuchQueue, QueueFull, TaskTimedOut
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere

world = Ledger()
order: list[Any] = []
"""What ran, as it ran."""


@pytest.fixture(autouse=True)
def _clean() -> None:
    order.clear()


@pytest.fixture
def engine(onceflow_engine: MemoryEngine) -> MemoryEngine:
    return onceflow_engine


@task(queue="q")
def note(x: Any) -> Any:
    order.append(x)
    return x


@task(queue="q", queue_key="{customer}")
def bill(customer: str, number: int) -> str:
    order.append((customer, number))
    return customer


@task
def count(*values: Any) -> int:
    return len(values)


def places(engine: MemoryEngine) -> int:
    return len(engine.get_queue("q").places)


def test_a_queue_that_nobody_declared_has_no_limits(engine: MemoryEngine) -> None:
    assert engine.run(count.bind(*[note.bind(x) for x in range(5)])) == 5
    with pytest.raises(NoSuchQueue, match="onceflow queue list"):
        engine.get_queue("q")


def test_places_are_given_back_when_a_run_has_ended(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=2)
    assert engine.run(count.bind(*[note.bind(x) for x in range(5)])) == 5
    engine.clock.advance(1)
    assert places(engine) == 0


def test_a_rate_is_kept(engine: MemoryEngine) -> None:
    engine.queue("q", rate="2/m")
    begun = engine.clock.now
    engine.run(for_each(note, range(10)))
    assert engine.clock.now - begun == pytest.approx(240.0)


def test_higher_priorities_go_first(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    nodes = [note.options(priority=priority).bind(priority) for priority in (0, -3, 7, 2)]
    engine.run(count.bind(*nodes))
    assert order == [7, 2, 0, -3]


def test_the_priority_of_a_run_is_that_of_all_its_tasks(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    engine.pause_queue("q")
    handles = [engine.run_async(note.bind(priority), priority=priority) for priority in (0, 1, 5, -1)]
    engine.resume_queue("q")
    for handle in handles:
        handle.result()
    assert order == [5, 1, 0, -1]


def test_runs_take_turns(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    engine.pause_queue("q")
    many = engine.run_async(count.bind(*[note.bind(f"many {x}") for x in range(3)]))
    one = engine.run_async(note.bind("one"))
    engine.resume_queue("q")
    assert (many.result(), one.result()) == (3, "one")
    assert order.index("one") <= 1


def test_a_key_is_made_of_the_arguments(engine: MemoryEngine) -> None:
    engine.queue("q", per_key=1, rate="1/m")
    assert engine.run(count.bind(*[bill.bind(customer, n) for n in (1, 2) for customer in "ab"])) == 4
    assert {customer for customer, _ in order[:2]} == {"a", "b"}


def test_a_key_may_be_a_function_and_items_of_loops_have_theirs(engine: MemoryEngine) -> None:
    engine.queue("q", per_key=1)
    keyed = note.options(queue_key=lambda x: x % 2)
    assert engine.run(for_each(keyed, range(6))) == list(range(6))


def test_a_key_cannot_depend_on_what_is_not_known_yet(engine: MemoryEngine) -> None:
    with pytest.raises(InvalidOption, match="output of another task"):
        engine.run(bill.bind(count.bind(), 1))
    with pytest.raises(InvalidOption, match="no parameter of it"):
        engine.run(bill.options(queue_key="{nobody}").bind("a", 1))
    with pytest.raises(InvalidOption, match="needs queue="):
        task(queue_key="x")(len)


def test_a_paused_queue_says_why_and_goes_on(engine: MemoryEngine) -> None:
    engine.pause_queue("q")
    handle = engine.run_async(note.bind(1))
    engine.clock.advance(1000)
    (obstacle,) = engine.why(handle.id).obstacles
    assert obstacle.text == "waits for a place in queue q: it is paused"
    engine.resume_queue("q")
    assert handle.result() == 1


def test_limits_change_while_tasks_wait(engine: MemoryEngine) -> None:
    begun = engine.clock.now
    engine.queue("q", rate="1/h")
    handle = engine.run_async(for_each(note, range(3)))
    engine.clock.advance(10)
    assert order == [0]
    engine.set_queue("q", rate=None)
    assert handle.result() == [0, 1, 2]
    assert engine.clock.now == begun + 10


def test_declaring_the_same_again_keeps_what_was_changed(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=2)
    engine.set_queue("q", concurrency=5)
    assert engine.queue("q", concurrency=2).concurrency == 5
    assert engine.queue("q", concurrency=3, per_key=1).concurrency == 3
    assert [info.name for info in engine.list_queues()] == ["q"]
    engine.delete_queue("q")
    assert engine.list_queues() == []


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"per_key": "2"}, {"rate": "fast"}, {"rate": 10}, {"max_pending": -1}]
)
def test_wrong_limits_are_refused(engine: MemoryEngine, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="queue 'q'"):
        engine.queue("q", **wrong)


def test_wrong_options_are_refused(engine: MemoryEngine) -> None:
    with pytest.raises(InvalidOption, match="name of a queue"):
        note.options(queue="")
    with pytest.raises(InvalidOption, match="priority must be an int"):
        note.options(priority=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="priority must be an int"):
        engine.run(note.bind(1), priority="high")  # type: ignore[arg-type]


@task(queue="q", retry=RetryPolicy(2, delay=5))
def fails_twice(x: int) -> int:
    order.append(x)
    if len(order) < 3:
        raise ValueError(x)
    return x


def test_an_attempt_that_raised_gives_its_place_back_while_it_waits(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    handle = engine.run_async(fails_twice.bind(1))
    assert engine.run(count.bind(*[note.bind(9)])) == 1
    assert handle.result() == 1
    engine.clock.advance(1)
    assert places(engine) == 0


def test_a_timeout_gives_the_place_back(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)

    @task(queue="q", timeout=10)
    def sleeps() -> None:
        engine.clock.sleep(100.0)

    with pytest.raises(TaskFailed) as caught:
        engine.run(sleeps.bind())
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert engine.run(note.bind(1)) == 1


def test_a_run_that_is_cancelled_leaves_its_places_and_its_wishes(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    engine.pause_queue("q")
    waiting = engine.run_async(count.bind(note.bind(1), note.bind(2)))
    engine.clock.advance(1)
    assert waiting.cancel() == "cancelled"
    engine.resume_queue("q")
    assert engine.run(note.bind(3)) == 3
    assert order == [3]


@task(queue="q")
def charge(x: int) -> int:
    world.enter(x)
    return x


@task(queue="q", rollback=lambda x: None)
def reserve(x: int) -> int:
    return x


def test_a_crash_at_any_moment_leaves_nobody_waiting() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.queue("q", concurrency=1)
        held = reserve.bind(1)
        assert engine.run(count.bind(charge.bind(held), charge.bind(2), held), name="one") == 3
        world.assert_holds(1, 2)

    crash_everywhere(scenario)


@fiber
async def bill_all(customers: list[str]) -> int:
    sent = 0
    for number, customer in enumerate(customers):
        await bill.call(customer, number)
        sent += 1
    return sent


def test_what_a_fiber_calls_waits_as_well(engine: MemoryEngine) -> None:
    engine.queue("q", rate="1/m")
    begun = engine.clock.now
    assert engine.run(bill_all.bind(["ann", "bob", "cat"])) == 3
    assert engine.clock.now - begun == pytest.approx(120.0)


# -- runs --------------------------------------------------------------------------------------------------------------


@task
def step(x: Any) -> Any:
    order.append(x)
    return x


def test_runs_of_a_queue_wait_for_each_other(engine: MemoryEngine) -> None:
    engine.queue("reports", concurrency=1)
    engine.pause_queue("reports")
    handles = [engine.run_async(step.bind(x), queue="reports", priority=x) for x in range(3)]
    assert [handle.status for handle in handles] == ["pending"] * 3
    assert "the run waits for a place in queue reports" in engine.why(handles[0].id).obstacles[0].text
    engine.resume_queue("reports")
    assert [handle.result() for handle in handles] == [0, 1, 2]
    assert order == [2, 1, 0]


def test_a_task_needs_no_place_of_its_own_in_the_queue_of_its_run(engine: MemoryEngine) -> None:
    engine.queue("q", concurrency=1)
    assert engine.run(count.bind(note.bind(1), note.bind(2)), queue="q") == 2


def test_a_run_that_has_not_begun_can_be_cancelled_and_paused(engine: MemoryEngine) -> None:
    engine.pause_queue("reports")
    first, second = (engine.run_async(step.bind(x), queue="reports") for x in range(2))
    assert first.cancel() == "cancelled"
    assert engine.pause(second.id) == "paused"
    engine.resume_queue("reports")
    assert engine.resume(second.id) == 1
    assert order == [1]


def test_a_run_too_many_is_refused_and_nothing_has_happened(engine: MemoryEngine) -> None:
    engine.queue("reports", concurrency=1, max_pending=1)
    engine.pause_queue("reports")
    waiting = engine.run_async(step.bind(1), queue="reports")
    with pytest.raises(QueueFull, match="onceflow queue set reports --max-pending") as caught:
        engine.run_async(step.bind(2), name="two", queue="reports")
    assert (caught.value.queue, caught.value.limit) == ("reports", 1)
    assert engine.list_runs(name="two") == []
    engine.resume_queue("reports")
    assert waiting.result() == 1


def test_a_crash_at_any_moment_of_a_run_in_a_queue() -> None:
    def scenario(engine: MemoryEngine) -> None:
        world.clear()
        engine.queue("q", concurrency=1)
        assert engine.run(count.bind(charge.bind(1), charge.bind(2)), name="one", queue="q") == 2
        world.assert_holds(1, 2)

    crash_everywhere(scenario)
