"""ETL with Spark (ExoFlow, Figure 8b): a cached frame in an actor, shared by tasks. Spark is installed if need be."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads import _frames
from onceflow import Engine

ROWS = 200_000


@pytest.mark.soak
@pytest.mark.parametrize("consumers", [1, 8])
def test_consumers_of_a_frame_in_an_actor_find_what_they_would_find_in_it_themselves(
    ray_cluster: str, tmp_path: Path, consumers: int
) -> None:
    _frames.provide()
    with Engine(tmp_path, backend=ray_cluster, workers=1) as engine:
        shared = engine.run(_frames.graph(ROWS, consumers))
    assert shared == _frames.natively(ROWS, consumers, 1)
