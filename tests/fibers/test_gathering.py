"""What can be gathered, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow.testing import MemoryEngine
from tests.fibers import gathered
from tests.fibers.common import world


@pytest.mark.parametrize("limit", [1, 10])
def test_forks_are_awaited_one_by_one(limit: int) -> None:
    told, *results = MemoryEngine().run(gathered.forks.bind(limit))
    assert "cannot be gathered, since it gives its child at once: write `children = [await fork(" in told
    assert results == ["one", "two"]
    world.assert_holds("one", "two")


@pytest.mark.parametrize(
    ("function", "told", "effects"),
    [
        (gathered.same_call, "<call of enter('once')> is gathered twice: call it once for each, once", ["once"]),
        (gathered.same_call_in_another, "<call of enter('once')> is gathered twice: call it once for each", []),
        (gathered.same_coroutine, "<call of kid()> is gathered twice: call it once for each, once", ["once"]),
    ],
)
def test_a_call_is_gathered_once(function: Any, told: str, effects: list[str]) -> None:
    assert MemoryEngine().run(function.bind()) == told
    world.assert_holds(*effects)


def test_so_is_one_that_was_awaited_before() -> None:
    told = [
        "<call of enter('one')> was awaited before: call it once more",
        "kid() was awaited before: call it once more",
    ]
    assert MemoryEngine().run(gathered.awaited_before.bind()) == told
    world.assert_holds("one", "two")


def test_a_node_is_carried_out_for_each() -> None:
    assert MemoryEngine().run(gathered.same_node.bind()) == ("each", "each")
    world.assert_holds("each", "each")
