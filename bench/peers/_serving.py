"""What the programs in this folder have in common: how they are asked, and how they are timed.

Such a program runs in an environment of its own (bench/venvs.py), in which nothing is installed but what it measures.
It uses only the standard library and that. It opens what it measures, says so, and then answers questions until its
input ends. A question and an answer are each a line of JSON:

    ← {"ready": true}
    → {"workload": "trigger", "count": 20, "kind": ""}
    ← {"seconds": [0.0011, …]}                                     one number for each of the 20
    → {"workload": "100x100", "count": 100, "kind": "pure"}
    ← {"seconds": [1.3]}                                           one number for all 100 graphs
    ← {"error": "…"}                                               instead, if it failed; the log has the traceback

Whatever libraries print goes to the log, so that the answers stay readable. All results are checked, here and in the
same way for everyone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

LENGTH = 10
"""Tasks in a chain."""
WIDTH = 100
"""Parallel tasks in a graph of `100x100`, which one more task collects."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""How many worker processes each has."""


def echo(value: int) -> int:
    return value


def count(values: list[int]) -> int:
    return len(values)


class Peer(Protocol):
    def run_one(self, number: int) -> int:
        """A workflow of one task that returns the number."""

    def run_chain(self, number: int) -> int:
        """A workflow of `LENGTH` tasks, each of which gets what the one before it returned."""

    def run_graphs(self, graphs: int) -> list[int]:
        """So many workflows of `WIDTH` tasks and one that counts what they returned, all together."""

    def run_many(self, runs: int) -> list[int]:
        """So many workflows of one task that return their number, all together."""


Kinds = Mapping[str, Peer]
"""Ways to do the same. Most have one, whose name is empty."""


def _measure(peer: Peer, workload: str, size: int) -> list[float]:
    match workload:
        case "trigger":
            return [_seconds(lambda number=number: peer.run_one(number), number) for number in range(size)]
        case "chain":
            return [_seconds(lambda number=number: peer.run_chain(number), number) for number in range(size)]
        case "100x100":
            return [_seconds(lambda: peer.run_graphs(size), [WIDTH] * size)]
        case "10000x1":
            return [_seconds(lambda: peer.run_many(size), list(range(size)))]
    raise ValueError(f"there is no workload {workload}")


def _seconds(work: Callable[[], Any], expected: Any) -> float:
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    if result != expected:
        raise RuntimeError(f"the result is {str(result)[:100]} and not {str(expected)[:100]}")
    return seconds


def serve(
    opened: contextlib.AbstractContextManager[Mapping[str, Any]],
    measure: Callable[[Any, str, int], list[float]] = _measure,
) -> None:
    """Returns, and has closed everything, when the input ends."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.stdout.reconfigure(line_buffering=True)  # in the log things stand in the order in which they happened

        def answer(message: dict[str, Any]) -> None:
            print(json.dumps(message), file=answers, flush=True)

        with opened as kinds:
            answer({"ready": True})
            for line in sys.stdin:
                question = json.loads(line)
                try:
                    seconds = measure(kinds[question["kind"]], question["workload"], question["count"])
                except Exception as error:
                    traceback.print_exc()
                    answer({"error": f"{type(error).__name__}: {error}"})
                else:
                    answer({"seconds": seconds})
