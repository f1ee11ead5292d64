"""Tasks that know where in a cluster they run, and leave traces."""

from __future__ import annotations

import os
from typing import Any

import ray

from onceflow import actor, current, fiber, task
from onceflow.actors import Exclusive, const, create
from tests.helpers.doors import knock
from tests.helpers.traces import note

LARGE = 300_000

THERE = {"there": 0.01}
"""What only the node has that is going to be killed."""

HERE = {"here": 0.01}


def node() -> str:
    return str(ray.get_runtime_context().get_node_id())


@task(can_rollback=True, deterministic=True, checkpoint=False, resources=THERE)
def draw(ledger: str) -> bytes:
    note(ledger, "drawn")
    return bytes(LARGE)


@task(resources=HERE)
def wait_here(door: str) -> str:
    knock(door)
    return node()


@task(can_rollback=True, resources=HERE)
def pick(value: bytes, _: str) -> int:
    return len(value)


@task
def stroll() -> str:
    """It may be anywhere."""
    return node()


@task(resources={"telescope": 1})
def observe() -> str:
    return "stars"


@task(resources=THERE)
def charge(ledger: str, door: str) -> str:
    note(ledger, current().key)
    knock(door)
    return node()


@fiber
async def wander(first: str, second: str) -> tuple[str, str]:
    """Where it was before it waited, and where it went on."""
    knock(first)
    before = node()
    await wait_here.call(second)
    return before, node()


@actor(memory="300MB")
class Till:
    def __init__(self) -> None:
        self.cents = 0

    def put_in(self, cents: int) -> None:
        self.cents += cents

    @const
    def look(self) -> tuple[int, str, int]:
        return self.cents, node(), os.getpid()


@task(can_rollback=True)
def open_till(ledger: str) -> Any:
    note(ledger, "opened")
    return create(Till)


@task(can_rollback=True)
def pay(till: Exclusive[Till], cents: int) -> Till:
    till.put_in(cents)
    return till


@task(can_rollback=True, resources=HERE)
def look_into(till: Till, _: str) -> int:
    return till.look()[0]
