"""Schedules that several engines fire, also on several hosts."""

from __future__ import annotations

from pathlib import Path

from onceflow import Engine
from onceflow.engine.schedules import rules
from onceflow.engine.schedules.rules import Every
from tests.engine.schedules import flows
from tests.fleet.common import host
from tests.fleet.test_serving import Place, Served, place  # noqa: F401  # a fixture
from tests.helpers.traces import traces
from tests.helpers.waiting import until


def test_an_engine_that_serves_fires_schedules(place: Place, tmp_path: Path) -> None:  # noqa: F811
    path = str(tmp_path / "traces")
    with Engine(**place, workers=1, schedules=False) as engine:
        engine.schedule("a", flows.trace, args=[path], every=0.2)

        with Served(place) as served:
            until(lambda: len(traces(path)) >= 2)
            assert served.end() == 0

        assert len(traces(path)) == len(set(traces(path)))


def test_each_instant_is_fired_on_one_of_all_hosts(postgres_url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "traces")
    with (
        host(tmp_path / "left", postgres_url) as left,
        host(tmp_path / "middle", postgres_url) as middle,
        host(tmp_path / "right", postgres_url, schedules=False) as right,
    ):
        right.schedule("a", flows.trace, args=[path], every=0.1, catch_up="all", overlap="allow", limit=10_000)
        until(lambda: len(traces(path)) >= 20)
        info = right.pause_schedule("a")
        assert info.last is not None
        expected = list(rules.between(Every(0.1), info.created + 1e-6, info.last + 1e-6))
        until(lambda: [run.status for run in right.list_runs(limit=None)] == ["succeeded"] * len(expected))

        assert right.get_schedule("a").fired == len(traces(path)) == len(set(traces(path))) == len(expected)
        assert {left.id, middle.id} >= {engine.id for engine in right.list_engines()} - {right.id}
