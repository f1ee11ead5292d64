"""The program that `recovery` kills and starts again: a workflow of 100 steps, each of which tells when it started.

It imports nothing but onceflow, because its start is what is measured.
"""

from __future__ import annotations

import os
import sys
import time

from onceflow import Engine, task

STEPS = 100
SECONDS = 0.01
"""What a step takes: long enough to be killed in the middle of one."""


@task
def step(index: int, ledger: str, before: int | None) -> int:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{index} {time.time()}\n".encode())
    os.close(file)
    time.sleep(SECONDS)
    return index


def main() -> None:
    home, ledger = sys.argv[1:]
    node = None
    for index in range(STEPS):
        node = step.bind(index, ledger, node)
    with Engine(home) as engine:
        assert engine.run(node, name="steps") == STEPS - 1


if __name__ == "__main__":
    main()
