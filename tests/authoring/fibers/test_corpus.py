"""Tricky functions: saved and reloaded in every way, they do what they do under asyncio."""

from __future__ import annotations

import pytest

from onceflow.authoring.fibers import Fiber
from tests.authoring.fibers import comparing
from tests.authoring.fibers.comparing import WAYS

pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")
"""Of fibers that are dropped while they hold calls which they would have awaited later."""

CASES = [(module, case) for module in comparing.modules() for case in comparing.cases(module)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("module", "case"), CASES, ids=[f"{module}.{case}" for module, case in CASES])
def test_a_fiber_does_what_native_code_does(module: str, case: str, way: str) -> None:
    durable = comparing.run_durable(getattr(comparing.durable_module(module), case), WAYS[way])

    assert durable == comparing.expected(module, case)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 90


@pytest.mark.parametrize(("module", "case"), CASES, ids=[f"{module}.{case}" for module, case in CASES])
def test_dropping_a_fiber_runs_none_of_its_code(module: str, case: str) -> None:
    for fiber in comparing.steps(getattr(comparing.durable_module(module), case)):
        comparing.fork(fiber.fork())
        Fiber.loads(fiber.dumps())
