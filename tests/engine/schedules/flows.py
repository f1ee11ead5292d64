"""Workflows for schedules, where engines can import them."""

from __future__ import annotations

from datetime import datetime

from onceflow import current, fiber, sleep, task, workflow
from tests.helpers.traces import note


@task
def leave(path: str, what: str) -> str:
    note(path, what)
    return what


@workflow
def trace(path: str, scheduled: datetime) -> str:
    """Leaves a trace of the instant that it was fired for."""
    return leave.bind(path, scheduled.isoformat())


@task.pure
def tell(scheduled: datetime) -> str:
    return scheduled.isoformat()


@workflow
def telling(scheduled: datetime) -> str:
    return tell.bind(scheduled)


@task.pure
def greet(name: str = "world") -> str:
    return f"hello {name}, from {current().run}"


@fiber
async def slowly(scheduled: datetime) -> str:
    await sleep(60)
    return await tell.call(scheduled)
