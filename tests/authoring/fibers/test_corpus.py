"""Tricky functions: saved and reloaded in every way, they do what they do under asyncio."""

from __future__ import annotations

import pytest

from tests.authoring.fibers import comparing
from tests.authoring.fibers.comparing import WAYS

pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")
"""Of fibers that are dropped while they hold calls which they would have awaited later."""

CASES = [(module, case) for module in comparing.modules() for case in comparing.cases(module)]


@pytest.mark.parametrize(("module", "case"), CASES, ids=[f"{module}.{case}" for module, case in CASES])
def test_a_fiber_does_what_native_code_does(module: str, case: str) -> None:
    native = comparing.expected(module, case)
    function = getattr(comparing.durable_module(module), case)

    for way, change in WAYS.items():
        assert comparing.run_durable(function, change) == native, way


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 90
