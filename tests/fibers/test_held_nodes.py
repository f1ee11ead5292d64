"""Nodes among the variables of fibers: they are values, and carried out when they are awaited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onceflow import Engine
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import holding
from tests.fibers.test_segments import ends


def test_a_node_in_a_variable_is_carried_out_once() -> None:
    crash_everywhere(ends(holding.at_once.bind, "ann", "ann"))


def test_one_that_nobody_awaits_is_not_carried_out() -> None:
    shown = "<node enter>, <call of decline('never')>"
    crash_everywhere(ends(holding.unawaited.bind, shown))


def test_one_can_be_awaited_after_something_else() -> None:
    crash_everywhere(ends(holding.late.bind, ["first", "late", "wrapped"], "first", "late", "wrapped"))


def test_what_it_raises_is_raised_where_it_is_awaited() -> None:
    crash_everywhere(ends(holding.failing_late.bind, "gold was declined, 7"))


def test_so_are_those_in_containers() -> None:
    numbers = [f"number {number}" for number in range(3)]
    result = [numbers, ("a", "b"), "one", "two"]
    crash_everywhere(ends(holding.several.bind, result, *numbers, "a", "b", "one", "two"))


def test_parts_loops_workflows_and_refs_survive_a_pause() -> None:
    result = ["left", "right", ["x", "y"], [4, 8], 16, "room in Rome", 4]
    effects = ["left and right"] * 2 + ["x", "y"] + ["room in Rome"] * 2 + ["read"]
    crash_everywhere(ends(holding.of_many_kinds.bind, result, *effects))


def test_a_node_under_two_names_is_one_node() -> None:
    shared = "shared"
    effects = [shared, "entered ('shared', 'shared')", "entered (['shared', 'shared'], 'shared')"]
    crash_everywhere(ends(holding.one_of_two_names.bind, [[shared, shared], shared], *effects))


def test_each_await_carries_it_out() -> None:
    crash_everywhere(ends(holding.apart.bind, ["each time"] * 2, "each time", "each time"))


def test_refs_in_its_arguments_are_those_of_the_fiber() -> None:
    crash_everywhere(ends(holding.with_refs.bind, [3, 20], "read", "read"))


def test_neither_refs_nor_nodes_are_blamed_for_what_cannot_be_saved() -> None:
    assert MemoryEngine().run(holding.with_a_lock.bind()) == ["local variable 'lock'"]


def test_a_graph_may_be_deep() -> None:
    assert MemoryEngine().run(holding.deep.bind(1_500)) == 1_502


def test_a_fiber_that_is_given_one_awaits_it_itself() -> None:
    crash_everywhere(ends(holding.given_away.bind, ["first", "second", "third"], "first", "second", "third"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("held") / "home", workers=2) as made:
        yield made


@pytest.mark.parametrize("function", [holding.late, holding.several, holding.with_refs])
def test_a_real_engine_does_the_same(function: Any, engine: Engine) -> None:
    assert engine.run(function.bind()) == MemoryEngine().run(function.bind())
