"""Generated programs: saved and reloaded at every await, they do what they do under asyncio."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.authoring.fibers import generated, programs

pytestmark = pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning")

QUIET = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])


@settings(QUIET, max_examples=100)
@given(programs.expressions())
def test_expressions(source: str) -> None:
    generated.check(source)


@settings(QUIET, max_examples=100)
@given(programs.control())
def test_control_flow(source: str) -> None:
    generated.check(source)


@settings(QUIET, max_examples=40)
@given(programs.generators())
def test_generators(source: str) -> None:
    generated.check(source)


@pytest.mark.soak
@settings(QUIET, max_examples=10_000)
@given(programs.expressions())
def test_many_expressions(source: str) -> None:
    generated.check(source)


@pytest.mark.soak
@settings(QUIET, max_examples=10_000)
@given(programs.control())
def test_much_control_flow(source: str) -> None:
    generated.check(source)
