"""What a fiber is told that does what cannot be done."""

from __future__ import annotations

import re
from typing import Any

import pytest

from onceflow import TaskFailed
from onceflow.errors import WrongArguments
from onceflow.testing import MemoryEngine
from tests.fibers import mistaken
from tests.fibers.mistaken import Shop

FIRST = "of a method, the object or class is an argument like any other: `Shop."


@pytest.mark.filterwarnings("ignore:coroutine 'to_thread' was never awaited")
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (mistaken.joins_a_fork, "join takes a child, not <call of fork(kid())>: write `child = await fork(…)`"),
        (mistaken.joins_a_text, "join takes a child, not 'kid': write `child = await fork(…)`"),
        (mistaken.forks_a_call, "and its arguments, not what it gives: `fork(kid, …)` instead of `fork(kid(…))`"),
        (mistaken.forks_an_op, "and its arguments, not <call of enter('never')>"),
        (mistaken.calls_a_bound_method, f"{FIRST}add.call(self, …)`"),
        (
            mistaken.runs,
            "would not be part of this one. Await the node instead: `await call(node)`.",
        ),
        (mistaken.writes, "a fiber cannot write there; let it await a task that is declared with writes=[written]"),
        (mistaken.awaits_asyncio, "no running event loop: a fiber cannot await what belongs to asyncio. Let it await"),
    ],
)
def test_it_is_told_what_to_do_instead(function: Any, told: str) -> None:
    with pytest.raises(TaskFailed, match=re.escape(told)):
        MemoryEngine().run(function.bind())


def test_what_the_fiber_catches_is_its_own_business() -> None:
    assert MemoryEngine().run(mistaken.catches_that_itself.bind()) == "no running event loop"


def test_a_bound_method_cannot_be_bound_into_a_graph() -> None:
    with pytest.raises(WrongArguments, match=re.escape(f"{FIRST}found.call(cls, …)`")):
        Shop.found.bind(1)  # type: ignore[attr-defined]


def test_a_method_is_called_with_its_object() -> None:
    assert MemoryEngine().run(mistaken.calls_methods.bind()) == 5
