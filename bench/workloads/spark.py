"""ETL with Spark: 1 to 8 consumers of a 256 MB frame that is cached in an actor on Ray, beside Spark alone.

What counts is how the time grows with the consumers, because they share the frame: they must not load it again. Needs
pyspark and Java, and a gigabyte of memory; without them there is nothing to measure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from bench.rows import Row
from bench.workloads import _frames
from onceflow import Engine

STAGES = (1, 1, 2, 4, 8)
"""Consumers at a time. The first one warms up."""

MOST = 1.1
"""Times as much as Spark's own growth from 1 to 8 consumers: so much the machine's speed changes meanwhile."""


def measure() -> list[Row]:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return [Row("growth from 1 to 8 consumers", None, "×", note="pyspark or Java is not installed")]
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else Ray takes an address that others reach for its own
    native = _frames.natively(_frames.ROWS, STAGES)
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder), backend="ray", workers=2) as engine:
        ours = engine.run(_frames.graph(_frames.ROWS, STAGES))
    assert {count: found for count, (_, found) in ours.items()} == {
        count: found for count, (_, found) in native.items()
    }
    growth, own = (found[8][0] / found[1][0] for found in (ours, native))
    return [
        *[Row(f"Spark alone, {count} consumers", native[count][0], "s") for count in sorted(native)],
        *[Row(f"shared through an actor, {count} consumers", ours[count][0], "s") for count in sorted(ours)],
        Row("growth from 1 to 8 consumers: Spark alone", own, "×"),
        Row("growth from 1 to 8 consumers", growth, "×", f"≤ {MOST:g} × Spark's own", growth <= MOST * own),
    ]
