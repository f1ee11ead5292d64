"""Tasks in queues that leave traces."""

from __future__ import annotations

import os
import signal

from onceflow import task
from tests.helpers.doors import knock
from tests.helpers.traces import note


@task(queue="q")
def pass_door(path: str, trail: str, who: str) -> str:
    note(trail, f"+{who}")
    knock(path)
    note(trail, f"-{who}")
    return who


@task(queue="q")
def trace(trail: str, who: str) -> str:
    note(trail, f"+{who}")
    note(trail, f"-{who}")
    return who


@task(queue="q")
def linger(trail: str, who: str) -> str:
    """Long enough to meet others."""
    note(trail, f"+{who}")
    sum(range(300_000))
    note(trail, f"-{who}")
    return who


@task(queue="q", can_rollback=True)
def die_once(trail: str) -> str:
    with open(trail, "a+") as file:
        file.seek(0)
        before = file.read()
    note(trail, "+d")
    if not before:
        os.kill(os.getpid(), signal.SIGKILL)
    note(trail, "-d")
    return "lived"


@task
def gather(*values: object) -> int:
    return len(values)


def most_at_once(trail: list[str]) -> int:
    """How many were there at the same time."""
    there = most = 0
    for line in trail:
        there += 1 if line[0] == "+" else -1
        most = max(most, there)
    return most
