"""A fiber that takes longer to clean up than it may."""

from __future__ import annotations

from onceflow import fiber, sleep, wait_event
from onceflow.errors import Cancelled
from onceflow.fibers import call


@fiber
async def tidying() -> int:
    try:
        return await call(wait_event("number", int))
    except Cancelled:
        await call(sleep(3600))
        raise
