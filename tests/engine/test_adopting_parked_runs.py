"""Runs that only wait, and whose engine is dead: another engine claims them, and wakes them when it is time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceflow import Engine
from onceflow.engine.run_commands.cancel import Cancelling
from onceflow.storage.journal import RunRow, SendCommand, commit
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a parked run, `left`, whose engine is no more."""
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(waiting.bind(), name="left")
        until(lambda: engine._hub.is_parked(handle.id))
    return tmp_path / "home"


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    with Engine(home, workers=1) as made:
        yield made


def row_of(engine: Engine) -> RunRow:
    row = engine._home.journal.find_name("left")
    assert row is not None
    return row


def test_a_command_that_a_dead_engine_has_not_carried_out_is_carried_out(engine: Engine) -> None:
    row = row_of(engine)
    how = msgspec.msgpack.encode(Cancelling(epoch=row.epoch))
    assert commit(engine._home.journal, [SendCommand(row.id, Cancelling.kind, how)]).ok
    engine._hub.adopt_parked([row])
    until(lambda: engine.status("left") == "cancelled")


def resume_while_it_is_claimed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The run is resumed, and parked again, after it was claimed and before it is parked by whoever claimed it."""
    hub: Any = engine._hub
    handles: list[Any] = []
    park_claimed = hub._loop.post
    held: list[Any] = []

    def post(what: Any) -> None:
        if threading.current_thread() is adopter and not handles:
            held.append(what)
        else:
            park_claimed(what)

    adopter = threading.Thread(target=lambda: hub.adopt_parked([row_of(engine)]))
    monkeypatch.setattr(hub._loop, "post", post)
    adopter.start()
    adopter.join(LONG)
    handle = engine.resume_async("left")
    handles.append(handle)
    until(lambda: hub.is_parked(handle.id))
    for what in held:
        park_claimed(what)
    return handle


def test_whoever_resumes_a_run_that_is_just_being_adopted_is_told_its_result(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = resume_while_it_is_claimed(engine, monkeypatch)
    engine.send_event("left", "number", 7)
    assert handle.result(timeout=LONG / 6) == 7


def test_a_run_that_is_driven_is_not_parked_by_whoever_claimed_it_before(engine: Engine) -> None:
    hub: Any = engine._hub
    row = row_of(engine)
    parked: list[Any] = []

    class Driven:
        """Stands for its driver, whose claim is durable."""

    answered = threading.Event()

    def check() -> None:
        hub.runs.active[row.id] = (Driven(), None)
        try:
            hub.parked.park_claimed([(row.id, 1e15), ("another", 1e15)])
            parked.extend(run for run in (row.id, "another") if run in hub.parked.parking)
        finally:
            del hub.runs.active[row.id]
            hub.parked.parking.take("another")
            answered.set()

    hub._loop.post(check)
    assert answered.wait(LONG)
    assert parked == ["another"]
