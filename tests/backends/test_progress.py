"""How far a job is, and whether it has been told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import current
from onceflow.backends.local.messages import Progress
from onceflow.backends.local.progress import INTERVAL, Reporter
from onceflow.backends.local.reports import Ended, Progressed
from onceflow.errors import NotInTask, Stopped
from onceflow.tasks import track
from tests.backends.common import Gate, Loop, pass_gate, running_pool

CONTEXT: dict[str, str | int] = {"run": "r", "task": "t", "attempt": "1.1", "key": "k"}


@pytest.fixture
def told() -> list[Progressed]:
    return []


@pytest.fixture
def alone(tmp_path: Path, told: list[Progressed]) -> Iterator[Loop]:
    """A pool of one worker."""
    with running_pool(tmp_path, 1, progressed=told.append) as made:
        yield made


@pytest.mark.parametrize("options", [{}, {"threads": True}], ids=["lane", "thread"])
def test_the_last_step_is_told_and_few_before_it(alone: Loop, told: list[Progressed], options: dict[str, Any]) -> None:
    token = alone.start(_count, 100_000, context=CONTEXT, **options)

    seconds = alone.result(token)

    assert told[0] == Progressed(token, 1, 100_000, "")
    assert told[-1] == Progressed(token, 100_000, 100_000, "")
    assert len(told) <= 3 + 1.2 * seconds / INTERVAL


def _count(steps: int) -> float:
    begun = time.monotonic()
    for step in range(1, steps + 1):
        current().progress(step, steps)
    return time.monotonic() - begun


def test_an_async_job_tells_as_well(alone: Loop, told: list[Progressed]) -> None:
    token = alone.start(_tell_async, context=CONTEXT, is_async=True)
    alone.result(token)

    assert told == [Progressed(token, 0.5, None, "half")]


async def _tell_async() -> None:
    current().progress(0.5, note="half")


def test_a_step_that_came_too_soon_is_told_although_nothing_follows(
    alone: Loop, told: list[Progressed], door: Gate
) -> None:
    token = alone.start(_tell_twice_and_wait, door.path, context=CONTEXT)
    alone.until(lambda: len(told) == 2)

    assert told == [Progressed(token, 1, None, ""), Progressed(token, 2, None, "")]
    door.open()
    alone.result(token)


def _tell_twice_and_wait(path: str) -> None:
    current().progress(1)
    current().progress(2)
    pass_gate(path)


def test_a_pool_that_does_not_ask_is_told_nothing(tmp_path: Path) -> None:
    with running_pool(tmp_path, 1) as loop:
        assert loop.call(_count, 10, context=CONTEXT) >= 0


def test_track_tells_how_many_items_have_been_dealt_with(alone: Loop, told: list[Progressed]) -> None:
    token = alone.start(_track, context=CONTEXT)

    assert alone.result(token) == [0, 1, 2]

    assert told[0] == Progressed(token, 0, 3, "items")
    assert told[-1] == Progressed(token, 3, 3, "items")


def _track() -> list[int]:
    return list(track(range(3), note="items"))


def test_track_just_yields_outside_of_tasks() -> None:
    assert list(track(iter("abc"), total=3)) == ["a", "b", "c"]
    with pytest.raises(NotInTask):
        current()


def test_code_that_looks_sees_that_it_is_to_stop(tmp_path: Path, alone: Loop, door: Gate) -> None:
    trace = tmp_path / "trace"
    token = alone.start(_look, door.path, str(trace), context=CONTEXT)
    door.wait(alone)

    alone.pool.stop(token)

    assert alone.report(token) == Ended(token, started=True)
    assert trace.read_text() == "False True"


def _look(path: str, trace: str) -> None:
    attempt = current()
    before = attempt.cancelled
    try:
        pass_gate(path)
    except Stopped:
        Path(trace).write_text(f"{before} {attempt.cancelled}")
        raise


def test_a_step_is_never_followed_by_an_older_one() -> None:
    sent: list[Progress] = []
    reporter = Reporter(sent.append)
    steps = iter(range(1, 10_001))
    lock = threading.Lock()

    def tell() -> None:
        while True:
            with lock:
                step = next(steps, None)
                if step is None:
                    return
                reporter.tell(1, step, None, "")

    threads = [threading.Thread(target=tell) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.end(1)

    done = [message.done for message in sent]
    assert done == sorted(done)
    assert done[-1] == 10_000
