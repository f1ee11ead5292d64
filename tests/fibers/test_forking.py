"""Fibers that go on beside the one which started them."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import common
from tests.fibers.common import Declined, world
from tests.fibers.test_segments import ends

FORKING = (["quick", "slow", "single"], "slow", "quick", "single", "parent", "forgotten")


def test_children_go_on_beside_their_parent_and_are_joined() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    ends(common.forking.bind, *FORKING)(engine)
    assert engine.clock.now - began == 90  # of one that nobody has joined


def test_children_and_their_parent_survive_whatever_crashes_when() -> None:
    crash_everywhere(ends(common.forking.bind, *FORKING))
    crash_everywhere(ends(common.forking.bind, *FORKING), seeds=[1])


def test_no_more_children_go_on_at_a_time_than_may() -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    names = [f"child {number}" for number in range(5)]
    ends(lambda: common.limited.bind(5), names, *names)(engine)
    assert engine.clock.now - began == 30


def test_a_limit_holds_whatever_crashes_when() -> None:
    names = [f"child {number}" for number in range(3)]
    crash_everywhere(ends(lambda: common.limited.bind(3), names, *names))


def test_what_a_child_raises_is_raised_where_it_is_joined() -> None:
    crash_everywhere(ends(lambda: common.failing_child.bind(True), "declined 9"))


def test_what_a_child_raises_that_nobody_joins_is_raised_at_the_end_of_its_parent() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(common.failing_child.bind(False))
    assert isinstance(caught.value.__cause__, Declined)


def test_children_have_children() -> None:
    effects = ["depth 2", "depth 1", "depth 1"]
    crash_everywhere(ends(lambda: common.nested_forks.bind(2), 4, *effects))
    world.clear()


def test_refs_in_what_children_give_are_given_on_whatever_crashes_when() -> None:
    sizes = [10, 100_000]
    crash_everywhere(ends(lambda: common.collecting.bind(sizes), [*sizes, 7, 8], "forked"))
