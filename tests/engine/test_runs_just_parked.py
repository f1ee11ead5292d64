"""A run is parked as soon as it only waits: whoever wants something of it in that moment is heard all the same."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.engine.handles import Completion
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "home", workers=1) as made:
        yield made


def in_time(action: Callable[[], Any]) -> Any:
    """What it gives, if it ever comes to its end."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(action()), daemon=True)
    thread.start()
    thread.join(LONG / 6)
    assert found, "it never came to its end"
    return found[0]


def delay(engine: Engine, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    """What is asked of the hub reaches it when the run is parked, though it was driven when the caller looked."""
    hub: Any = engine._hub
    driven = hub.expect(run, None)
    looks = iter([driven])
    find, ask = hub.find, hub.command

    def late(*args: Any) -> Any:
        until(lambda: hub.is_parked(run))
        return ask(*args)

    monkeypatch.setattr(hub, "find", lambda wanted: next(looks, None) or find(wanted))
    monkeypatch.setattr(hub, "command", late)


@pytest.mark.parametrize(("method", "status"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_run_that_is_parked_before_it_hears_of_a_command_obeys_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, method: str, status: str
) -> None:
    handle = engine.run_async(waiting.bind())
    delay(engine, monkeypatch, handle.id)
    assert in_time(lambda: getattr(engine, method)(handle.id)) == status
    assert engine.status(handle.id) == status


def test_who_finds_a_run_that_is_then_parked_learns_its_result(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Completion.follow

    def late(self: Completion, other: Completion) -> None:
        until(lambda: engine._hub.is_parked(self.run))
        follow(self, other)

    found: list[int] = []
    run = engine.run_async(waiting.bind()).id
    with monkeypatch.context() as patch:
        patch.setattr(Completion, "follow", late)
        waiter = threading.Thread(target=lambda: found.append(engine.resume(run)), daemon=True)
        waiter.start()
        until(lambda: engine._hub.is_parked(run))
        waiter.join(0.1)
    gc.collect()
    engine.send_event(run, "number", 7)
    waiter.join(LONG / 6)
    assert found == [7]
