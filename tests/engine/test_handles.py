"""Handles of `run_async`: waiting, awaiting, events, statuses; and `run_many`."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, TaskFailed, UnsafeGraph, task
from onceflow.errors import NameTaken
from tests.engine.common import add, double, fail_while, keep, pass_door, trace
from tests.helpers.doors import Door
from tests.helpers.traces import traces


@task
def fail(text: str) -> None:
    raise ValueError(text)


@task(checkpoint=False, can_rollback=True)
def draw() -> int:
    return 1


def summary(events: Any) -> list[tuple[str, str]]:
    return [(event.kind, event.task or event.detail) for event in events]


def test_a_handle_gives_the_result(engine: Engine) -> None:
    assert engine.run_async(add.bind(1, 2)).result() == 3


def test_a_handle_gives_the_result_as_often_as_it_is_asked(engine: Engine) -> None:
    handle = engine.run_async(add.bind(1, 2))
    assert [handle.result(60) for _ in range(3)] == [3, 3, 3]


def test_a_handle_raises_the_failure_as_often_as_it_is_asked(engine: Engine) -> None:
    handle = engine.run_async(fail.bind("x"))
    for _ in range(2):
        with pytest.raises(TaskFailed) as caught:
            handle.result(60)
        assert str(caught.value.__cause__) == "x"


def test_a_failure_does_not_grow_when_it_is_asked_for_again(engine: Engine) -> None:
    handle = engine.run_async(fail.bind("x"))
    for _ in range(3):
        with pytest.raises(TaskFailed) as caught:
            handle.result(60)
    assert len(caught.value.__cause__.__notes__) == 1  # type: ignore[union-attr]


def test_a_handle_knows_id_and_name(engine: Engine) -> None:
    handle = engine.run_async(add.bind(1, 2), name="known")
    assert handle.name == "known"
    assert handle.id == engine.list_runs(name="known")[0].id
    handle.result(60)


def test_a_run_is_durable_when_run_async_returns(engine: Engine, home: Path, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    with Engine(home, workers=1) as other:
        assert other.status(handle.id) == "running"
    door.open()
    handle.result(60)


def test_a_timeout_leaves_the_run_going(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    # when
    with pytest.raises(TimeoutError, match="goes on"):
        handle.result(timeout=0.01)
    # then
    assert not handle.done()
    assert handle.status == "running"
    door.open()
    assert handle.result(60) == "through"
    assert handle.done()
    assert handle.status == "succeeded"


def test_a_timeout_of_zero_does_not_wait(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    with pytest.raises(TimeoutError):
        handle.result(timeout=0)
    door.open()
    handle.result(60)


def test_many_threads_wait_for_one_handle(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(pass_door.bind(door.path))
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(handle.result(60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    # when
    door.open()
    for thread in threads:
        thread.join(60)
    # then
    assert results == ["through"] * 4


def test_a_handle_can_be_awaited(engine: Engine) -> None:
    async def main() -> int:
        return await engine.run_async(add.bind(1, 2))

    assert asyncio.run(main()) == 3


def test_many_handles_are_awaited_at_once(engine: Engine) -> None:
    async def main() -> list[int]:
        return await asyncio.gather(*[engine.run_async(double.bind(number)) for number in range(20)])

    assert asyncio.run(main()) == [2 * number for number in range(20)]


def test_the_event_loop_goes_on_while_a_handle_is_awaited(engine: Engine, door: Door) -> None:
    async def main() -> str:
        waiting = asyncio.ensure_future(_await(engine.run_async(pass_door.bind(door.path))))
        await asyncio.sleep(0)
        door.open()
        return await waiting

    assert asyncio.run(main()) == "through"


async def _await(handle: Any) -> Any:
    return await handle


def test_an_awaited_failure_is_raised(engine: Engine) -> None:
    async def main() -> None:
        await engine.run_async(fail.bind("awaited"))

    with pytest.raises(TaskFailed, match="awaited"):
        asyncio.run(main())


def test_a_handle_that_has_ended_can_be_awaited(engine: Engine) -> None:
    handle = engine.run_async(add.bind(1, 2))
    handle.result(60)
    assert asyncio.run(_await(handle)) == 3


def test_awaiting_can_be_given_up_without_harm(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(pass_door.bind(door.path))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_await(handle), 0.01)

    # when
    asyncio.run(main())
    door.open()
    # then
    assert handle.result(60) == "through"


def test_two_event_loops_await_one_handle(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(asyncio.run(_await(handle)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    door.open()
    for thread in threads:
        thread.join(60)
    assert results == ["through"] * 2


# -- events and statuses -----------------------------------------------------------------------------------------------


def test_events_come_in_order_and_end_with_the_run(engine: Engine) -> None:
    handle = engine.run_async(add.bind(keep.bind(1), 2))
    assert summary(handle) == [
        ("started", "keep"),
        ("finished", "keep"),
        ("started", "add"),
        ("finished", "add"),
        ("status", "succeeded"),
    ]
    assert handle.done()
    assert handle.result(0) == 3


def test_each_event_is_given_once(engine: Engine) -> None:
    handle = engine.run_async(keep.bind(1))
    assert summary(handle) != []
    assert summary(handle) == []


def test_events_tell_attempts_and_times(engine: Engine) -> None:
    before = time.time()
    events = [event for event in engine.run_async(keep.bind(1)) if event.task]
    assert all(before <= event.time <= time.time() for event in events)
    assert len({event.attempt for event in events}) == 1
    assert events[0].attempt.startswith("1.")


def test_events_come_while_the_run_goes_on(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(add.bind(keep.bind(1), pass_door.bind(door.path, 2)))
    events = iter(handle)
    # when
    seen = [next(events) for _ in range(3)]
    # then both have started and one has finished, while the other waits
    assert sorted(summary(seen)) == [("finished", "keep"), ("started", "keep"), ("started", "pass_door")]
    assert not handle.done()
    door.open()
    assert handle.result(60) == 3


def test_events_of_a_failed_run_tell_the_failure(engine: Engine) -> None:
    assert summary(engine.run_async(fail.bind("x"))) == [("started", "fail"), ("failed", "fail"), ("status", "failed")]


def test_a_status_event_is_true_when_it_is_told(engine: Engine, home: Path) -> None:
    with Engine(home, workers=1) as other:
        for event in (handle := engine.run_async(keep.bind(1))):
            if event.kind == "status":
                assert other.status(handle.id) == event.detail


def test_events_of_a_stored_result_end_at_once(engine: Engine) -> None:
    engine.run(keep.bind(1), name="stored")
    handle = engine.run_async(keep.bind(1), name="stored")
    assert summary(handle) == []
    assert handle.result(60) == 1


def test_whoever_joins_a_run_sees_its_events_from_then_on(engine: Engine, door: Door) -> None:
    # given
    first = engine.run_async(keep.bind(pass_door.bind(door.path)), name="events joined")
    door.wait()
    second = engine.run_async(keep.bind(pass_door.bind(door.path)), name="events joined")
    while len(engine._hub.find(first.id).feeds) < 2:  # type: ignore[union-attr]
        time.sleep(0.001)
    # when
    door.open()
    # then
    assert summary(second)[-2:] == [("finished", "keep"), ("status", "succeeded")]
    assert summary(first)[0] == ("started", "pass_door")


def test_events_of_a_resumed_run(engine: Engine, tmp_path: Path) -> None:
    # given
    fault = tmp_path / "fault"
    fault.touch()
    with pytest.raises(TaskFailed) as caught:
        engine.run(keep.bind(fail_while.bind(str(fault))))
    fault.unlink()
    # when
    handle = engine.resume_async(caught.value.run)
    told = summary(handle)
    # then
    assert ("finished", "fail_while") in told
    assert told[-1] == ("status", "succeeded")


def test_the_status_of_a_run_changes_as_it_goes(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    assert handle.status == engine.status(handle.id) == "running"
    door.open()
    handle.result(60)
    assert handle.status == "succeeded"


def test_the_status_of_a_failed_run(engine: Engine) -> None:
    handle = engine.run_async(fail.bind("x"))
    with pytest.raises(TaskFailed):
        handle.result(60)
    assert handle.status == "failed"


def test_an_unsafe_graph_is_refused_by_run_async(engine: Engine) -> None:
    with pytest.raises(UnsafeGraph):
        engine.run_async(add.bind(draw.bind(), 1))


# -- run_many ----------------------------------------------------------------------------------------------------------


def test_many_results_come_in_order(engine: Engine) -> None:
    assert engine.run_many([double.bind(number) for number in range(50)]) == [2 * number for number in range(50)]


def test_many_of_none(engine: Engine) -> None:
    assert engine.run_many([]) == []


def test_many_from_a_generator(engine: Engine) -> None:
    assert engine.run_many(add.bind(number, 1) for number in range(3)) == [1, 2, 3]


def test_a_failure_among_many_is_raised_when_all_have_ended(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    nodes: list[Any] = [fail.bind("first"), trace.bind(path, "other"), fail.bind("second")]
    # when
    with pytest.raises(TaskFailed) as caught:
        engine.run_many(nodes)
    # then
    assert str(caught.value.__cause__) == "first"
    assert traces(path) == ["other"]


def test_failures_among_many_stand_where_their_results_would(engine: Engine) -> None:
    one, two, three = engine.run_many([keep.bind(1), fail.bind("two"), keep.bind(3)], return_exceptions=True)
    assert (one, three) == (1, 3)
    assert isinstance(two, TaskFailed)
    assert str(two.__cause__) == "two"


def test_many_runs_have_names(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    names = [f"many {number}" for number in range(3)]
    # when
    for _ in range(2):
        assert engine.run_many([trace.bind(path, name) for name in names], names=names) == names
    # then
    assert sorted(traces(path)) == names
    assert engine.run(trace.bind(path, "many 1"), name="many 1") == "many 1"


def test_a_taken_name_among_many_is_a_failure_of_that_one(engine: Engine) -> None:
    engine.run(keep.bind(1), name="many taken")
    two, one = engine.run_many([keep.bind(2), keep.bind(2)], names=["many free", "many taken"], return_exceptions=True)
    assert two == 2
    assert isinstance(one, NameTaken)


def test_too_few_names_for_many_are_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="1 names for 2 graphs"):
        engine.run_many([keep.bind(1), keep.bind(2)], names=["one"])


def test_a_name_used_twice_for_many_is_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="a name of its own"):
        engine.run_many([keep.bind(1), keep.bind(2)], names=["same", "same"])


def test_an_unsafe_graph_among_many_does_not_concern_the_others(engine: Engine) -> None:
    one, bad, two = engine.run_many([keep.bind(1), add.bind(draw.bind(), 1), keep.bind(2)], return_exceptions=True)
    assert (one, two) == (1, 2)
    assert isinstance(bad, UnsafeGraph)


def test_an_unsafe_graph_among_many_is_raised_when_the_others_have_ended(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")
    with pytest.raises(UnsafeGraph):
        engine.run_many([trace.bind(path, "x"), add.bind(draw.bind(), 1), trace.bind(path, "x")])
    assert traces(path) == ["x", "x"]


def test_many_are_undone_each_on_its_own(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")

    def act(number: int) -> int:
        return number

    def take_back(number: int) -> None:
        with open(path, "a") as file:
            file.write(f"{number}\n")

    undoable = task(rollback=take_back)(act)
    refuse = task(can_rollback=True, name="refuse")(lambda number: 1 // (number - 1))
    results = engine.run_many(
        [refuse.bind(undoable.bind(number)) for number in range(3)], on_failure="undo", return_exceptions=True
    )
    assert [isinstance(result, TaskFailed) for result in results] == [False, True, False]
    assert traces(path) == ["1"]
