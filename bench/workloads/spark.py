"""ETL with Spark: 1 to 8 consumers of a 256 MB frame that is cached in an actor on Ray, beside Spark alone.

As in Figure 8b of the ExoFlow paper, the time is that of the whole: Java starts, the frame is made and cached, and each
consumer takes a sample of it. What counts is how it grows with the consumers: they share the frame and must not load it
again. Growth is told in seconds, so that what is spent once does not make it look small.

Ours and Spark's alone are measured in turns. Spark runs its jobs one after the other, as a program with a loop does;
beside that it is shown how long it takes with a thread for each consumer.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import venvs
from bench.rows import Row
from bench.workloads import _frames
from onceflow import Engine

CONSUMERS = (1, 2, 4, 8)
ROUNDS = 3

OURS, NATIVE, THREADED = "shared through an actor", "Spark alone", "Spark alone, a thread each"

GROWTH = "growth from 1 to 8 consumers"


def measure() -> list[Row]:
    try:
        _frames.provide()
    except venvs.Unavailable as missing:
        return [Row(GROWTH, None, "s", ok=False, note=f"Spark cannot be installed: {missing}")]
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray takes an address that others reach for its own
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder), backend="ray", workers=2) as engine:
        ways: dict[str, Callable[[int], list[float]]] = {
            OURS: lambda consumers: engine.run(_frames.graph(_frames.ROWS, consumers)),
            NATIVE: lambda consumers: _frames.natively(_frames.ROWS, consumers, 1),
            THREADED: lambda consumers: _frames.natively(_frames.ROWS, consumers, consumers),
        }
        for way in ways.values():
            way(1)  # the cluster is started, and everything has been read from disk once
        seconds: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for consumers in CONSUMERS:
                found = []
                for name, way in ways.items():
                    began = time.perf_counter()
                    found.append(way(consumers))
                    seconds.setdefault((name, consumers), []).append(time.perf_counter() - began)
                assert found[0] == found[1] == found[2]
    return _rows(seconds)


def _rows(seconds: dict[tuple[str, int], list[float]]) -> list[Row]:
    rows = [
        Row(f"{name}, {consumers} consumers", statistics.median(all), "s", low=min(all), high=max(all))
        for (name, consumers), all in sorted(seconds.items())
    ]
    for name in (THREADED, NATIVE, OURS):
        growth = [most - least for least, most in zip(seconds[name, 1], seconds[name, 8], strict=True)]
        row = Row(f"{GROWTH}: {name}", statistics.median(growth), "s", low=min(growth), high=max(growth))
        rows.append(row)
    own, ours = rows[-2], rows.pop()
    assert own.high is not None
    assert ours.value is not None
    # So far Spark's own growth goes in the very same minutes, on the very same machine.
    limit = f"≤ {own.value:.2f}, Spark's own, whose rounds reach {own.high:.2f}"
    return [*rows, Row(ours.name, ours.value, "s", limit, ours.value <= own.high, ours.low, ours.high)]
