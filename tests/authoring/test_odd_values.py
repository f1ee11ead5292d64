"""Names without an encoding and numbers that no float holds are refused where they are given, with a clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceflow import RetryPolicy, sleep, sleep_until, task, wait_event, workflow
from onceflow.authoring.fiber_tasks.blocks import timeout
from onceflow.engine.schedules.declaration import instant_of
from onceflow.errors import InvalidOption
from onceflow.testing import MemoryEngine

HUGE = 10**400
LONE = "a\udcff"


@task.pure
def one() -> int:
    return 1


@pytest.mark.parametrize(
    "given",
    [
        lambda: MemoryEngine().run(one.bind(), name=LONE),
        lambda: one.options(name=LONE),
        lambda: task(name=LONE)(lambda: 1),
        lambda: workflow(name=LONE)(lambda: one.bind()),
        lambda: wait_event(LONE),
        lambda: one.options(timeout=HUGE),
        lambda: one.options(retry=HUGE),
        lambda: one.options(retry=2**31),
        lambda: MemoryEngine().run(one.bind(), timeout=HUGE),
        lambda: sleep(HUGE),
        lambda: sleep_until(HUGE),
        lambda: sleep_until(-HUGE),
        lambda: timeout(HUGE),
        lambda: instant_of(HUGE, "UTC", "start"),
    ],
)
def test_it_is_an_invalid_option(given: Callable[[], Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        given()
    str(caught.value).encode()  # so it can be shown anywhere


@pytest.mark.parametrize("given", [{"count": HUGE}, {"count": 1, "delay": HUGE}, {"count": 1, "backoff": HUGE}])
def test_so_is_a_policy(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="RetryPolicy: "):
        RetryPolicy(**given)


def test_what_is_merely_unusual_is_accepted() -> None:
    assert MemoryEngine().run(one.options(name="ü ☃ 名", timeout=1e300, retry=2**31 - 1).bind(), name="名前 😀") == 1
