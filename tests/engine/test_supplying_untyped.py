"""Results that are given by hand for tasks of which nobody can say what they return."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from onceflow import Engine, fiber, sleep, task
from onceflow.errors import ResultRefused
from tests.engine.runs import failed


class Receipt(Protocol):
    def total(self) -> int: ...


@task
def anything() -> Any:
    raise ConnectionError("nobody knows")


@task
def list_of_anything() -> list[Any]:
    raise ConnectionError("nobody knows")


@task
def receipt() -> Receipt:
    raise ConnectionError("nobody knows")


@fiber
async def order() -> str:
    await sleep(0.01)
    raise ConnectionError("nobody knows")


@pytest.mark.parametrize(
    ("function", "task", "value"),
    [
        (anything, "anything", "x"),
        (list_of_anything, "list_of_anything", ["x", 1]),
        (receipt, "receipt", "x"),
        (order, "order/segment", "paid"),
    ],
)
def test_every_value_will_do(engine: Engine, function: Any, task: str, value: object) -> None:
    run = failed(engine, function.bind())
    engine.set_result(run, task, value)
    assert engine.resume(run) == value


def test_what_can_be_said_still_counts(engine: Engine) -> None:
    run = failed(engine, list_of_anything.bind())
    with pytest.raises(ResultRefused, match="it returns list"):
        engine.set_result(run, "list_of_anything", "x")
