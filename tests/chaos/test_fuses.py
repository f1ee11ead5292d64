"""Every point at which a fuse may burn is one that engines come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, task
from onceflow.driver.driver import Driver
from onceflow.engine.runtime.host import Host
from onceflow.engine.runtime.local_workers import LocalWorkers
from tests.tools.chaos import kills
from tests.tools.chaos.kills import POINTS, Fuse, Point


@task
def large() -> bytes:
    return bytes(200_000)


@pytest.mark.parametrize("point", POINTS)
def test_a_fuse_burns(point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = ((Host, ("commit", "start", "ended")), (LocalWorkers, ("save",)), (Driver, ("committed", "finished")))
    for owner, names in wrapped:
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))  # what is wrapped now is put back afterwards
    burnt: list[str] = []
    monkeypatch.setattr(kills, "assassinate", lambda engine, target, is_engine: burnt.append(target))
    kills.light(Fuse(point, 1, "porter"))
    with Engine(tmp_path, workers=1) as engine:
        assert len(engine.run(large.bind())) == 200_000
    assert burnt == ["porter"]
