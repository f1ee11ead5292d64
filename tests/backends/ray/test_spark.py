"""ETL with Spark (ExoFlow, Figure 8b): a cached frame in an actor, shared by tasks. Spark is installed if need be."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads import _frames
from onceflow import Engine

ROWS = 200_000


@pytest.mark.soak
def test_consumers_of_a_frame_in_an_actor_find_what_they_would_find_in_it_themselves(
    ray_cluster: str, tmp_path: Path
) -> None:
    _frames.provide()
    with Engine(tmp_path, backend=ray_cluster, workers=1) as engine:
        steps = engine.run(_frames.graph(ROWS, (1, 8)))
    found = _frames.natively(ROWS, 8)
    assert [taken.found for taken in steps.taken] == [found[: taken.consumers] for taken in steps.taken]
    assert {(taken.who, taken.consumers) for taken in steps.taken} >= {(_frames.OURS, 1), (_frames.OURS, 8)}
