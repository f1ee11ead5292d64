"""One of the programs that `engines` lets compete: as many one-task runs as its engine can do in a given time."""

from __future__ import annotations

import json
import sys
import threading
import time

from onceflow import Engine, task

CALLERS = 16
"""Threads: enough for the engine never to be without work."""
WARM_UP = 50


@task
def echo(value: int) -> int:
    return value


def main() -> None:
    home, seconds = sys.argv[1], float(sys.argv[2])
    with Engine(home, workers=1) as engine:
        engine.run_many(echo.bind(number) for number in range(WARM_UP))
        print("ready", flush=True)
        sys.stdin.readline()
        before = engine._home.journal.statistics().commits
        runs = _saturate(engine, time.monotonic() + seconds)
        commits = engine._home.journal.statistics().commits - before
    print(json.dumps({"runs": runs, "commits": commits}))


def _saturate(engine: Engine, until: float) -> int:
    """How many runs were finished by then."""
    finished: list[float] = []

    def call() -> None:
        while time.monotonic() < until:
            engine.run(echo.bind(0))
            finished.append(time.monotonic())

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return sum(ended <= until for ended in finished)


if __name__ == "__main__":
    main()
