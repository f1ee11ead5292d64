"""The program that `idle` looks at: an engine whose two workers have both done something, and which now waits."""

from __future__ import annotations

import sys
import time

from onceflow import Engine, task

WORKERS = 2


@task
def linger(number: int) -> int:
    time.sleep(0.02)
    return number


def main() -> None:
    with Engine(sys.argv[1], workers=WORKERS) as engine:
        for _ in range(5):
            engine.run_many(linger.bind(number) for number in range(4 * WORKERS))
        print("ready", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
