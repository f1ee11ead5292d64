"""Runs that were parked and are about to be driven again: whatever goes wrong then concerns nobody else, and whoever
waits for them is told."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.engine import waking as waking_module
from onceflow.engine.handles import Completion
from onceflow.engine.runtime import parking as parking_module
from onceflow.engine.runtime.parking import Parking, Waking
from onceflow.errors import RunInterrupted, StorageError
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "home", workers=1) as made:
        yield made


def begin(engine: Engine) -> Any:
    handle = engine.run_async(waiting.bind())
    until(lambda: engine._hub.is_parked(handle.id))
    return handle


def test_who_waits_for_a_run_that_is_being_woken_is_told_that_the_engine_was_closed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, hub = begin(engine), engine._hub
    load: Any = hub.parked.parking._load  # type: ignore[attr-defined]
    loading, closed = threading.Event(), threading.Event()

    def late(batch: Any) -> None:
        loading.set()
        closed.wait(LONG)
        load(batch)

    monkeypatch.setattr(hub.parked.parking, "_load", late)  # type: ignore[attr-defined]
    engine.send_event(handle.id, "number", 7)
    assert loading.wait(LONG)
    engine.close()
    closed.set()
    with pytest.raises(RunInterrupted):
        handle.result(timeout=LONG / 6)


def test_who_waits_for_a_run_that_cannot_be_loaded_now_is_told_that_the_engine_was_closed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, hub = begin(engine), engine._hub

    def fail(batch: Any) -> None:
        raise StorageError("journal", "it is not there now")

    monkeypatch.setattr(hub.parked.parking, "_load", fail)  # type: ignore[attr-defined]
    engine.send_event(handle.id, "number", 7)
    until(lambda: hub.parked.parking._postponed)  # type: ignore[attr-defined]
    engine.close()
    with pytest.raises(RunInterrupted):
        handle.result(timeout=LONG / 6)


class Moments:
    """A loop whose time the test moves on."""

    def __init__(self) -> None:
        self.time = 0.0
        self.timers: list[tuple[float, Any]] = []

    def post(self, what: Any) -> None:
        what()

    def later(self, seconds: float, then: Any) -> None:
        self.timers.append((self.time + seconds, then))

    def go_on(self) -> float:
        """To the next timer. How long that took."""
        self.timers.sort(key=lambda timer: timer[0])
        moment, then = self.timers.pop(0)
        passed, self.time = moment - self.time, moment
        then()
        return passed


def test_a_run_that_can_never_be_loaded_is_tried_less_and_less_often_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Moments()
    parking = Parking(loop, lambda: loop.time, list)
    completion = Completion("r", None)
    broken = Waking("r", completion, here=False)
    pauses = []
    for _ in range(9):
        parking.wake_later([broken], StorageError("journal", "the disk is broken"))
        pauses.append(loop.go_on())
        broken = parking._waking.get_nowait()  # type: ignore[assignment]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(caplog.records) == 1
    assert "run r is due and cannot be loaded" in caplog.text
    assert broken.completion is None
    assert isinstance(completion.error, StorageError), "the waiter was told"
    parking.wake_later([broken], StorageError("journal", "the disk is gone"))
    assert len(caplog.records) == 2
    loop.go_on()
    caplog.set_level("INFO")
    parking._loaded([broken])
    assert caplog.records[-1].message == "run r can be loaded again"
    parking.wake_later([broken], StorageError("journal", "the disk is gone"))
    assert len(caplog.records) == 4
    assert loop.go_on() == 1


def test_a_waiter_is_not_told_of_trouble_that_is_over_soon() -> None:
    loop = Moments()
    parking = Parking(loop, lambda: loop.time, list)
    completion = Completion("r", None)
    broken = Waking("r", completion, here=False)
    for _ in range(3):
        parking.wake_later([broken], StorageError("journal", "locked"))
        loop.go_on()
        broken = parking._waking.get_nowait()  # type: ignore[assignment]
    parking._loaded([broken])
    assert broken.completion is completion
    assert completion.error is None


def test_whoever_waits_for_a_run_that_can_never_be_loaded_is_told_why(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking_module, "PATIENCE", 0.0)
    handle = begin(engine)

    def fail(*args: Any, **options: Any) -> Any:
        raise StorageError("journal", "it is not there")

    with monkeypatch.context() as patch:
        patch.setattr(waking_module, "load", fail)
        engine.send_event(handle.id, "number", 7)
        with pytest.raises(StorageError, match="it is not there"):
            handle.result(timeout=LONG)
    assert engine.resume(handle.id) == 7


def test_a_run_that_cannot_be_loaded_keeps_no_other_from_being_woken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = begin(engine), begin(engine)
    load: Any = waking_module.load

    def fail(home: Any, row: Any, **options: Any) -> Any:
        if row.id == bad.id:
            raise ValueError("this is not what was expected")
        return load(home, row, **options)

    monkeypatch.setattr(waking_module, "load", fail)
    engine.send_event(bad.id, "number", 7)
    with pytest.raises(RunInterrupted, match="this is not what was expected"):
        bad.result(timeout=LONG / 6)
    engine.send_event(good.id, "number", 8)
    assert good.result(timeout=LONG / 6) == 8


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_run_of_which_something_cannot_be_read_now_is_woken_later(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_waited_for: bool
) -> None:
    handle = begin(engine)
    run = handle.id
    load: Any = waking_module.load
    troubles = iter([StorageError("s3://far", "it did not answer")])

    def fail(*args: Any, **options: Any) -> Any:
        for trouble in troubles:
            raise trouble
        return load(*args, **options)

    monkeypatch.setattr(waking_module, "load", fail)
    monkeypatch.setattr(engine._hub.parked, "may_delegate", lambda short: False)
    if not is_waited_for:
        del handle
        gc.collect()
    engine.send_event(run, "number", 7)
    until(lambda: engine.status(run) == "succeeded")
    if is_waited_for:
        assert handle.result(timeout=LONG / 6) == 7
