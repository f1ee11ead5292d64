"""Which options a fiber has."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import RetryPolicy
from onceflow.errors import InvalidOption
from onceflow.testing import MemoryEngine
from tests.fibers import common


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"timeout": 1}, "write `async with timeout"),
        ({"total_timeout": 1}, "write `async with timeout"),
        ({"retry": 3}, r"write `with on\(…\)\.retry"),
        ({"catch": True, "retry": RetryPolicy(3)}, r"write `with on\(…\)\.retry"),
        ({"num_returns": 2}, "a fiber returns one value"),
        ({"queue": "shops"}, "give it to those that the fiber awaits, or let the run"),
        ({"checkpoint": False}, "give it to those that the fiber awaits"),
        ({"cpus": 4}, "give it to those that the fiber awaits"),
    ],
)
def test_what_would_count_for_the_first_segment_only_is_refused(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidOption, match=rf"fiber 'doubling': \w+= is for tasks, not for fibers: {hint}"):
        common.doubling.options(**given)


def test_what_does_not_exist_is_refused_as_for_tasks() -> None:
    with pytest.raises(InvalidOption, match="there is no option 'tries'"):
        common.doubling.options(tries=3)


def test_name_metadata_and_what_concerns_a_node_can_be_given() -> None:
    first = common.doubling.options(name="first", metadata={"team": "shop"}).bind(2)
    caught = common.doubling.options(after=[first]).options(catch=True).bind(1)
    assert MemoryEngine().run(common.total.bind([first], caught[0])) == 6  # type: ignore[index]
