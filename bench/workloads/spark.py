"""ETL with Spark: 1 to 8 consumers of a 256 MB frame that is cached in an actor, on one host and on Ray, beside Spark
alone.

What counts is how the time grows with the consumers (Figure 8b of the ExoFlow paper): they share the frame and must not
load it again. Tasks that share it, and Spark alone, take turns on one and the same frame, so that neither has a Java
machine that is warmer than the other's. What Spark alone takes is measured in the process that has the frame, around
nothing but its jobs: one after the other, as a program with a loop runs them, and besides with a thread for each
consumer. What tasks take is all that passes until the next step. Growth is told in seconds, so that what is spent once
does not make it look small.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from bench import venvs
from bench.rows import Row
from bench.workloads import _frames
from bench.workloads._frames import NATIVE, OURS, THREADED, Taken
from onceflow import Engine

CONSUMERS = (1, 2, 4, 8)
ROUNDS = 4
"""After one that warms up, and does not count."""

BACKENDS = {"local": "one host", "ray": "Ray"}

GROWTH = "growth from 1 to 8 consumers"


def measure() -> list[Row]:
    try:
        _frames.provide()
    except venvs.Unavailable as missing:
        return [Row(GROWTH, None, "s", ok=False, note=f"Spark cannot be installed: {missing}")]
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray takes an address that others reach for its own
    return [row for backend, where in BACKENDS.items() for row in _measure(backend, where)]


def _measure(backend: str, where: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder), backend=backend, workers=2) as engine:
        steps = engine.run(_frames.graph(_frames.ROWS, CONSUMERS * (1 + ROUNDS)))
    assert all(one.found == other.found for one in steps.taken for other in steps.taken if one[1] == other[1])
    return _rows(where, steps.taken[len(CONSUMERS) * 3 :])


def _rows(where: str, all: list[Taken]) -> list[Row]:
    rows = []
    growths = {}
    for who in (THREADED, NATIVE, OURS):
        seconds = {
            consumers: [taken.seconds for taken in all if (taken.who, taken.consumers) == (who, consumers)]
            for consumers in CONSUMERS
        }
        rows += [
            Row(
                f"{where}: {who}, consumers: {consumers}",
                statistics.median(taken),
                "s",
                low=min(taken),
                high=max(taken),
            )
            for consumers, taken in seconds.items()
        ]
        growths[who] = [most - least for least, most in zip(seconds[1], seconds[8], strict=True)]
    for who in (THREADED, NATIVE):
        growth = growths[who]
        rows.append(Row(f"{where}: {GROWTH}, {who}", statistics.median(growth), "s", low=min(growth), high=max(growth)))
    own, ours = growths[NATIVE], growths[OURS]
    # What Spark alone needed in one of these very rounds is no more than its own growth.
    limit = f"≤ {statistics.median(own):.2f}, Spark's own (in one of the rounds {max(own):.2f})"
    found = statistics.median(ours)
    return [*rows, Row(f"{where}: {GROWTH}, {OURS}", found, "s", limit, found <= max(own), min(ours), max(ours))]
