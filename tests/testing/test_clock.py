"""Virtual time: it stands still while code runs, and passes when somebody waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from onceflow import RetryPolicy, TaskFailed, current, task
from onceflow.errors import Stopped, TaskTimedOut
from onceflow.testing import Clock, MemoryEngine
from tests.testing.common import charge, quote

YEAR = 365 * 86400.0


@task(can_rollback=True, retry=RetryPolicy(1, delay=3600, max_delay=3600, jitter=0))
def try_again_in_an_hour() -> str:
    if current().attempt.endswith(".1"):
        raise ConnectionError("later")
    return "done"


def test_time_begins_where_it_is_told() -> None:
    assert MemoryEngine().clock.now == MemoryEngine().clock.now
    assert MemoryEngine(now=5).clock.time() == 5


def test_time_passes_while_a_run_waits_for_a_retry(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    began = onceflow_clock.now
    assert onceflow_engine.run(try_again_in_an_hour.bind()) == "done"
    assert onceflow_clock.now == began + 3600


def test_a_test_can_let_time_pass_and_look(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    # given
    handle = onceflow_engine.run_async(try_again_in_an_hour.bind())
    # when
    onceflow_clock.advance(3599)
    # then
    assert handle.status == "waiting"
    assert not handle.done()
    # when
    onceflow_clock.advance(1)
    # then
    assert handle.done()
    assert handle.result() == "done"


def test_waiting_for_a_result_takes_no_longer_than_told(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    handle = onceflow_engine.run_async(try_again_in_an_hour.bind())
    began = onceflow_clock.now
    with pytest.raises(TimeoutError):
        handle.result(timeout=60)
    assert onceflow_clock.now <= began + 60
    assert handle.result() == "done"


def test_time_does_not_go_back(onceflow_clock: Clock) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        onceflow_clock.advance(-1)


def test_the_journal_has_virtual_times(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    onceflow_clock.advance(YEAR)
    onceflow_engine.run(quote.options(checkpoint=True).bind("Rome"), name="rome")
    assert onceflow_engine.list_runs()[0].created == onceflow_clock.now


def test_a_delay_outlives_a_crash(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    # given a run that waits, half an hour of which have passed when the engine dies
    began = onceflow_clock.now
    handle = onceflow_engine.run_async(try_again_in_an_hour.bind())
    onceflow_clock.advance(1800)
    onceflow_engine.crash()
    # when
    assert onceflow_engine.resume(handle.id) == "done"
    # then
    assert onceflow_clock.now == began + 3600


def test_sleeping_in_a_task_takes_virtual_time(
    onceflow_engine: MemoryEngine, onceflow_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @task
    def poll() -> float:
        began = time.time()
        time.sleep(3600)
        return time.time() - began

    monkeypatch.setattr(time, "sleep", onceflow_clock.sleep)
    monkeypatch.setattr(time, "time", onceflow_clock.time)
    assert onceflow_engine.run(poll.bind()) == 3600


def test_a_task_that_sleeps_for_too_long_is_stopped(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    seen: list[object] = []

    @task(timeout=5)
    def sleep() -> None:
        try:
            onceflow_clock.sleep(60)
        except Stopped:
            seen.append((current().cancelled, onceflow_clock.now))
            raise

    began = onceflow_clock.now
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(sleep.bind())
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert seen == [(True, began + 5)]


def test_a_task_that_does_not_want_to_stop_counts_as_stopped(
    onceflow_engine: MemoryEngine, onceflow_clock: Clock
) -> None:
    @task(timeout=5)
    def stay() -> str:
        with contextlib.suppress(Stopped):
            onceflow_clock.sleep(60)
        return "still here"

    with pytest.raises(TaskFailed):
        onceflow_engine.run(stay.bind())


def test_async_tasks_sleep_in_virtual_time(onceflow_engine: MemoryEngine, onceflow_clock: Clock) -> None:
    @task
    async def sleep() -> str:
        await asyncio.gather(asyncio.sleep(YEAR), asyncio.sleep(2 * YEAR))
        return "awake"

    began = onceflow_clock.now
    assert onceflow_engine.run(sleep.bind()) == "awake"
    assert onceflow_clock.now == began + 2 * YEAR


def test_an_async_task_that_takes_too_long_is_cancelled(onceflow_engine: MemoryEngine) -> None:
    seen: list[str] = []

    @task(timeout=5)
    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(sleep.bind())
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert seen == ["cancelled"]


def test_timeouts_of_asyncio_take_virtual_time(onceflow_engine: MemoryEngine) -> None:
    @task
    async def give_up() -> str:
        try:
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        except TimeoutError:
            return "gave up"
        return "unreachable"

    assert onceflow_engine.run(give_up.bind()) == "gave up"


def test_what_is_real_is_waited_for_in_real_time(onceflow_engine: MemoryEngine) -> None:
    """A thread answers over a socket; the timeout of an hour does not pass meanwhile."""

    @task
    async def ask() -> bytes:
        here, there = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=here)
        async with asyncio.timeout(3600):
            await asyncio.to_thread(there.sendall, b"answer")
            answer = await reader.readexactly(6)
        writer.close()
        await writer.wait_closed()
        there.close()
        return answer

    assert onceflow_engine.run(ask.bind()) == b"answer"


def test_async_tasks_run_in_async_tests(onceflow_engine: MemoryEngine) -> None:
    @task
    async def sleep() -> str:
        await asyncio.sleep(60)
        return current().task

    async def test() -> list[str]:
        return [onceflow_engine.run(sleep.bind()), await onceflow_engine.run_async(sleep.bind())]

    assert asyncio.run(test()) == ["sleep", "sleep"]


def test_events_of_a_run_can_be_iterated_over(onceflow_engine: MemoryEngine) -> None:
    handle = onceflow_engine.run_async(charge.bind(1, "x"))
    assert [event.kind for event in handle if event.task] == ["started", "finished"]


def test_events_of_a_run_can_be_iterated_over_in_async_tests(onceflow_engine: MemoryEngine) -> None:
    async def test() -> list[str]:
        return [event.kind async for event in onceflow_engine.run_async(charge.bind(1, "x")) if event.task]

    assert asyncio.run(test()) == ["started", "finished"]
