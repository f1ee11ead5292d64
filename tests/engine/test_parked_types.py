"""Who sends nonsense to a parked run is told so, also where only a fiber knows what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceflow import Engine
from onceflow.errors import EventRefused
from tests.fibers import asking
from tests.fibers.asking import Answer
from tests.helpers.waiting import LONG, until


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("parked") / "home", workers=2) as made:
        yield made


@pytest.mark.parametrize("function", [asking.asking, asking.in_arguments, asking.returning_for_ever])
def test_one_event_to_a_parked_run_is_looked_at(engine: Engine, function: Any) -> None:
    handle = engine.run_async(function.bind())
    until(lambda: engine.status(handle.id) == "waiting")
    with pytest.raises(EventRefused, match=r"was not sent .*: it waits for Answer: Expected `object`, got `str`"):
        engine.send_event(handle.id, "answer", "hello")
    engine.send_event(handle.id, "another", "hello")
    engine.send_event(handle.id, "answer", {"ok": True})
    assert handle.result(timeout=LONG) == Answer(ok=True)


def test_of_several_waits_one_is_enough(engine: Engine) -> None:
    handle = engine.run_async(asking.either.bind())
    until(lambda: engine.status(handle.id) == "waiting")
    with pytest.raises(EventRefused, match="it waits for"):
        engine.send_event(handle.id, "answer", "hello")
    engine.send_event(handle.id, "answer", 7)
    engine.send_event(handle.id, "answer", 8)
    refused, number = handle.result(timeout=LONG)
    assert "this waits for Answer" in str(refused)
    assert number == 8


def test_what_many_are_sent_at_once_the_fibers_look_at(engine: Engine) -> None:
    handles = [engine.run_async(asking.patient.bind()) for _ in range(2)]
    until(lambda: {engine.status(handle.id) for handle in handles} == {"waiting"})
    engine.send_events([(handle.id, "answer", "hello") for handle in handles])
    engine.send_events([(handle.id, "answer", {"ok": True}) for handle in handles])
    assert [handle.result(timeout=LONG)[1] for handle in handles] == [Answer(ok=True)] * 2
