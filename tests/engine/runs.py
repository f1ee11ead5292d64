"""Runs that several tests of the engine need."""

from __future__ import annotations

import pytest

from onceflow import Engine, TaskFailed, fiber, wait_event
from tests.helpers.waiting import LONG


def failed(engine: Engine, node: object) -> str:
    handle = engine.run_async(node)
    with pytest.raises(TaskFailed):
        handle.result(LONG)
    return handle.id


@fiber
async def waiting() -> int:
    number: int = await wait_event("number", int)
    return number
