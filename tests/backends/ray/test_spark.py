"""ETL with Spark (ExoFlow, Figure 8b): a cached frame in an actor, shared by tasks. Needs pyspark and Java."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from bench.workloads import _frames
from onceflow import Engine

ROWS = 200_000
STAGES = (1, 8)


@pytest.mark.soak
def test_consumers_of_a_frame_in_an_actor_find_what_they_would_find_in_it_themselves(
    ray_cluster: str, tmp_path: Path
) -> None:
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.fail("Spark is not here: `pip install pyspark` into the environment, and install a Java runtime")
    native = _frames.natively(ROWS, STAGES)
    with Engine(tmp_path, backend=ray_cluster, workers=1) as engine:
        shared = engine.run(_frames.graph(ROWS, STAGES))
    assert [shared[count][1] for count in STAGES] == [native[count][1] for count in STAGES]
