"""A parked run that two threads load at the same time: one of them drives it, and the other one takes nothing away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "home", workers=1) as made:
        yield made


class Gate:
    """Holds a thread that has loaded a run and is about to hand it over, by its name."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, thread: str) -> None:
        self.opened = threading.Event()
        self.handed_over: list[str] = []
        adopt: Any = engine._hub.adopt

        def late(*runs: Any) -> None:
            name = threading.current_thread().name
            self.handed_over.append(name)
            if name == thread:
                self.opened.wait(LONG)
            adopt(*runs)

        monkeypatch.setattr(engine._hub, "adopt", late)
        monkeypatch.setattr(engine._hub.parked, "may_delegate", lambda short: False)

    def wait_for(self, thread: str) -> None:
        until(lambda: thread in self.handed_over)


def in_thread(name: str, action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(action()), name=name, daemon=True)
    thread.start()
    return thread, found


def begin(engine: Engine) -> str:
    run = engine.run_async(waiting.bind()).id
    until(lambda: engine._hub.is_parked(run))
    return run


def test_two_that_resume_a_parked_run_at_once_both_learn_its_result(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(engine)
    gate = Gate(engine, monkeypatch, "late")
    late, found_late = in_thread("late", lambda: engine.resume(run))
    gate.wait_for("late")
    early, found = in_thread("early", lambda: engine.resume(run))
    gate.wait_for("early")
    until(lambda: engine._hub.is_parked(run))
    gate.opened.set()
    until(lambda: gate.handed_over.count("late") > 1 or len(gate.handed_over) > 2)
    engine.send_event(run, "number", 7)
    late.join(LONG / 6)
    early.join(LONG / 6)
    assert found_late == found == [7]


def test_a_run_that_is_parked_while_it_is_being_woken_stays_parked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(engine)
    gate = Gate(engine, monkeypatch, "onceflow waker")
    engine.send_event(run, "another", 1)
    gate.wait_for("onceflow waker")
    early, found = in_thread("early", lambda: engine.resume(run))
    gate.wait_for("early")
    until(lambda: engine._hub.is_parked(run))
    gate.opened.set()
    engine.send_event(run, "number", 8)
    early.join(LONG / 6)
    assert found == [8]
    assert engine.status(run) == "succeeded"
