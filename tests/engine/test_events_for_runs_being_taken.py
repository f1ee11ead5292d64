"""An event reaches a run that an engine takes while the event is being sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, wait_event
from tests.engine.common import keep
from tests.engine.runs import waiting
from tests.helpers.waiting import LONG, until


@pytest.fixture
def taker(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "home", workers=1) as made:
        yield made


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "home", workers=1, schedules=False) as made:
        yield made


def test_an_event_reaches_a_run_that_is_taken_before_the_event_is_durable(
    taker: Engine, sender: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = sender.submit(waiting.bind())
    request: Any = sender._mail._request

    def late(*args: Any) -> Any:
        made = request(*args)
        taker.serve()
        until(lambda: taker._hub.is_parked(handle.id))
        return made

    monkeypatch.setattr(sender._mail, "_request", late)
    sender.send_event(handle.id, "number", 7)
    assert handle.result(timeout=LONG / 6) == 7


def test_an_event_reaches_a_run_that_has_looked_for_it_before_it_was_claimed(
    taker: Engine, sender: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = sender.submit(keep.bind(wait_event("number", int)))
    commit: Any = taker._hub.host.commit

    def late(driver: Any, requests: Any) -> None:
        if driver.is_opening:
            assert driver.status == "waiting"
            sender.send_event(handle.id, "number", 7)
        commit(driver, requests)

    monkeypatch.setattr(taker._hub.host, "commit", late)
    taker.serve()
    assert handle.result(timeout=LONG / 6) == 7
