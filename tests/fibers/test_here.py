"""What a segment carries out itself: nobody can notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.authoring.fiber_tasks import inline_tasks, live_continuations, segments
from onceflow.authoring.fiber_tasks.state import State
from onceflow.authoring.nodes import TaskNode
from onceflow.testing import MemoryEngine
from onceflow.values import context
from tests.fibers import pure


class Host:
    """A worker that has nothing but a clock."""

    hosts_fibers = True

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def elapse(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host()
    monkeypatch.setattr(context, "_links", [made])
    monkeypatch.setattr(pure, "elapse", [made.elapse])
    monkeypatch.setattr(inline_tasks, "LONG", 600)  # whatever else the machine has to do
    before = context.running.set({"run": "1", "task": "within", "attempt": "1.1", "key": "", "inside": ""})
    yield made
    context.running.reset(before)
    inline_tasks._short.clear()
    inline_tasks._long.clear()


IN_A_SEGMENT = pytest.mark.usefixtures("host")


def begin(coroutine: Any) -> Any:
    """What the first segment returns."""
    return segments._run(coroutine, State())


def go_on(waiting: Any, value: Any) -> Any:
    """What the next segment returns if this is what the engine made of the task."""
    assert isinstance(waiting, TaskNode), waiting
    return segments.resume.function(*waiting._args[:4], (value, None), None)


@IN_A_SEGMENT
def test_what_may_take_long_is_left_to_the_engine_where_a_deadline_is_near() -> None:
    waiting = begin(pure.within(10, 3))
    assert [parent._task.name for parent in waiting._parents()] == ["take"]
    live_continuations.forget(live_continuations.take(waiting._args[2]))  # type: ignore[arg-type]


@IN_A_SEGMENT
def test_what_the_engine_was_quick_with_is_not_left_to_it_the_next_time() -> None:
    assert go_on(begin(pure.within(10, 0, 0, 0)), 0) == [0, 0, 0]


@IN_A_SEGMENT
def test_what_the_engine_was_slow_with_is_left_to_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = begin(pure.within(10, 0, 0))
    monkeypatch.setattr(inline_tasks, "LONG", -1)
    assert go_on(go_on(waiting, 0), 0) == [0, 0]


@IN_A_SEGMENT
def test_a_task_that_was_short_and_takes_too_long_is_too_late() -> None:
    assert begin(pure.without_limit(0)) == 0
    assert begin(pure.within(10, 0, 3, 8, 0)) == [0, 3, "too late"]


def test_a_pure_task_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.run(pure.waiting_too_long.bind()) == "too late"


def test_what_a_pure_task_raises_is_the_same_wherever_it_is_carried_out(tmp_path: Path) -> None:
    seen = ["Unreachable", "example.org", ["__notes__", "host"], "KeyError", ["raised in the task:"], [True]]
    assert MemoryEngine().run(pure.keeping_an_error.bind()) == seen
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.run(pure.keeping_an_error.bind()) == seen
