"""Any safe graph survives a crash at every moment: each effect is there once, and belongs to the final values.

This is the whole of it below the workers: what `authoring` builds, `core` decides, the driver carries out and the
journal keeps. The simulation of `core` looks at far more schedules; here the code around it is real.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onceflow import UnsafeGraph, check, task
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere

world = Ledger()
chance = itertools.count()


def take_back(*, key: str) -> None:
    world.take_back(key)


@task
def act(name: str, effect: str, deterministic: bool, *inputs: Any) -> Any:
    """Its output tells everything that led to it. What is not deterministic returns something new each time."""
    if effect != "none":
        world.enter((name, inputs))
    return name, effect, None if deterministic else next(chance), inputs


EFFECTS: dict[str, dict[str, Any]] = {
    "none": {"can_rollback": True},
    "undoable": {"rollback": take_back},
    "irrevocable": {},
}


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    """A safe graph; the last node reads all that nobody else reads."""
    made: list[Any] = []
    unread: set[int] = set()
    count = draw(st.integers(2, 6))
    for number in range(count):
        parents = set(range(number)) & draw(st.sets(st.integers(0, count), max_size=3))
        if number == count - 1:
            parents |= unread
        unread = (unread - parents) | {number}
        effect, deterministic = draw(st.sampled_from(sorted(EFFECTS))), draw(st.booleans())
        options = EFFECTS[effect] | {"checkpoint": draw(st.booleans()), "deterministic": deterministic}
        name = f"n{number}"
        made.append(
            act.options(name=name, **options).bind(name, effect, deterministic, *[made[one] for one in parents])
        )
    try:
        check(made[-1])
    except UnsafeGraph:
        assume(False)
    return made[-1]


def effects_of(output: Any, found: dict[str, Any]) -> None:
    """The effects that belong to an output. Whatever is read by several was the same for all of them."""
    name, effect, value, inputs = output
    assert found.setdefault(name, (effect, value, inputs)) == (effect, value, inputs)
    for one in inputs:
        effects_of(one, found)


def run_and_look(node: Any, engine: MemoryEngine) -> None:
    world.clear()
    found: dict[str, Any] = {}
    effects_of(engine.run(node), found)
    world.assert_holds(*[(name, inputs) for name, (effect, _, inputs) in found.items() if effect != "none"])


@given(nodes(), st.integers(0, 99))
@settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_any_safe_graph_survives_a_crash_at_every_moment(node: Any, seed: int) -> None:
    crash_everywhere(partial(run_and_look, node), seeds=[None, seed])


@pytest.mark.soak
@given(nodes(), st.integers(0, 2**31))
@settings(max_examples=300)
def test_any_safe_graph_survives_two_crashes(node: Any, seed: int) -> None:
    crash_everywhere(partial(run_and_look, node), seeds=[seed], crashes=2)
