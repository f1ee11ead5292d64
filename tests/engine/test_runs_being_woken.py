"""Runs that were parked and are about to be driven again: whatever goes wrong then concerns nobody else, and whoever
waits for them is told."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RunInterrupted, fiber, wait_event
from onceflow.errors import StorageError
from tests.engine.common import LONG, until


@fiber
async def waiting() -> int:
    number: int = await wait_event("number", int)
    return number


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
    load: Any = hub.parking.load  # type: ignore[attr-defined]
    loading, closed = threading.Event(), threading.Event()

    def late(batch: Any) -> None:
        loading.set()
        closed.wait(LONG)
        load(batch)

    monkeypatch.setattr(hub.parking, "load", late)  # type: ignore[attr-defined]
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

    monkeypatch.setattr(hub.parking, "load", fail)  # type: ignore[attr-defined]
    engine.send_event(handle.id, "number", 7)
    until(lambda: hub.parking._postponed)  # type: ignore[attr-defined]
    engine.close()
    with pytest.raises(RunInterrupted):
        handle.result(timeout=LONG / 6)


def test_a_run_that_cannot_be_loaded_keeps_no_other_from_being_woken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = begin(engine), begin(engine)
    load: Any = engine._attaching._load

    def fail(row: Any, *args: Any) -> Any:
        if row.id == bad.id:
            raise ValueError("this is not what was expected")
        return load(row, *args)

    monkeypatch.setattr(engine._attaching, "_load", fail)
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
    load: Any = engine._attaching._load
    troubles = iter([StorageError("s3://far", "it did not answer")])

    def fail(*args: Any) -> Any:
        for trouble in troubles:
            raise trouble
        return load(*args)

    monkeypatch.setattr(engine._attaching, "_load", fail)
    monkeypatch.setattr(engine._hub, "may_delegate", lambda short: False)
    if not is_waited_for:
        del handle
        gc.collect()
    engine.send_event(run, "number", 7)
    until(lambda: engine.status(run) == "succeeded")
    if is_waited_for:
        assert handle.result(timeout=LONG / 6) == 7
