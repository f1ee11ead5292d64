"""The programs that `loops` starts: one with a million items, and one that is killed and started again."""

from __future__ import annotations

import os
import resource
import sys
import time

from onceflow import Engine, for_each, task

ITEMS = 2_000
CHUNK = 10
LIMIT = 4
"""Chunks in flight."""
SECONDS = 0.0005
"""What an item takes."""


@task.pure
def pure(value: int) -> int:
    return value


@task
def saved(value: int) -> int:
    return value


@task
def step(item: tuple[str, int]) -> int:
    ledger, index = item
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{index}\n".encode())
    os.close(file)
    time.sleep(SECONDS)
    return index


def loop_over_many(home: str, kind: str, count: int) -> None:
    """Prints the most memory that this process has ever had, in MB."""
    with Engine(home) as engine:
        found = engine.run(for_each({"pure": pure, "saved": saved}[kind], range(count)))
        assert len(found) == count
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)


def loop_with_ledger(home: str, ledger: str) -> None:
    items = [(ledger, index) for index in range(ITEMS)]
    with Engine(home) as engine:
        assert engine.run(for_each(step, items, chunk=CHUNK, spawn_limit=LIMIT), name="items") == list(range(ITEMS))


def main() -> None:
    if sys.argv[1] == "many":
        loop_over_many(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        loop_with_ledger(*sys.argv[2:])
