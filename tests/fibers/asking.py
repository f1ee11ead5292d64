"""Fibers and tasks that wait for events of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceflow import fiber, task, wait_event
from onceflow.errors import EventRefused
from onceflow.fibers import call, gather, timeout
from tests.fibers.common import enter, world


@dataclass
class Answer:
    ok: bool
    by: str = ""


@task
def note(answer: Any) -> Any:
    world.enter(repr(answer))
    return answer


@fiber
async def asking() -> Answer:
    return await call(wait_event("answer", Answer))


@fiber
async def patient() -> list[Any]:
    """It asks once more."""
    refused = []
    while True:
        try:
            return [*refused, await wait_event("answer", Answer)]
        except EventRefused as error:
            refused.append(f"{error.key}: {error}")
            await enter.call("asked again")


@fiber
async def at_once() -> Any:
    return await gather(wait_event("answer", Answer), wait_event("number", int), return_exceptions=True)


@fiber
async def in_time(default: object) -> Any:
    held = wait_event("answer", Answer, timeout=10, default=default)  # type: ignore[arg-type]
    await enter.call("asked")
    return await held


@fiber
async def cut_short() -> str:
    try:
        async with timeout(5):
            await call(wait_event("answer", Answer, timeout=10, default=None))  # type: ignore[arg-type]
    except TimeoutError:
        return "too late"
    return "never"


@fiber
async def in_arguments() -> Any:
    return await note.call(wait_event("answer", Answer))


@task(can_rollback=True)
def returning() -> Any:
    return note.bind(wait_event("answer", Answer, timeout=10, default=None))  # type: ignore[arg-type]


@task(can_rollback=True)
def returning_for_ever() -> Any:
    return note.bind(wait_event("answer", Answer))


@fiber
async def either() -> Any:
    return await gather(wait_event("answer", Answer), wait_event("answer", int), return_exceptions=True)
