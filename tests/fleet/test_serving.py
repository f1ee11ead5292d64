"""Engines that serve: they take what was submitted and what the dead have left, never the same, and let go in peace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.errors import NameTaken
from onceflow.testing.servers.postgres import PostgresServer
from tests.fleet.common import LEASE, host, leave_trace, wait_at
from tests.helpers.doors import Door
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG, until
from tests.storage.common import PROJECT

Place = dict[str, Any]
"""Settings of engines that share runs."""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return {"home": tmp_path / "home"}
    return {"home": tmp_path / "home", "journal": request.getfixturevalue("postgres_url"), "lease": LEASE}


@pytest.fixture
def submitter(place: Place) -> Iterator[Engine]:
    with Engine(**place, workers=1) as engine:
        yield engine


class Served:
    """`onceflow serve` in a process of its own."""

    def __init__(self, place: Place, *arguments: str) -> None:
        environment = {**os.environ, "ONCEFLOW_WORKERS": "1"}
        environment |= {f"ONCEFLOW_{name.upper()}": str(value) for name, value in place.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onceflow", "serve", *arguments],
            cwd=PROJECT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.engine = self.process.stderr.readline().split()[2]

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LONG)


def test_what_is_submitted_waits_until_somebody_serves(place: Place, submitter: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "traces")

    handle = submitter.submit(leave_trace.bind(path, 1), name="one")

    assert handle.status == "pending"
    assert traces(path) == []
    with Served(place) as served:
        assert handle.result(LONG) == 1
        assert served.end() == 0
    assert traces(path) == ["1"]
    assert submitter.submit(leave_trace.bind(path, 1), name="one").result(LONG) == 1
    with pytest.raises(NameTaken):
        submitter.submit(leave_trace.bind(path, 2), name="one")


def test_an_engine_takes_no_more_than_its_capacity(place: Place, submitter: Engine, tmp_path: Path, door: Door) -> None:
    path = str(tmp_path / "traces")
    handles = [submitter.submit(wait_at.bind(door.path, path, number)) for number in range(3)]
    with Served(place, "--capacity", "1"):
        for _ in handles:
            door.wait()

            assert sorted(handle.status for handle in handles if not handle.done()).count("running") == 1
            ended = [handle for handle in handles if handle.done()]
            door.open()
            until(lambda ended=ended: len([handle for handle in handles if handle.done()]) > len(ended))

        assert sorted(handle.result(LONG) for handle in handles) == [0, 1, 2]


def test_two_engines_share_the_work_and_none_is_done_twice(place: Place, submitter: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "traces")
    with Served(place), Served(place):
        handles = [submitter.submit(leave_trace.bind(path, number)) for number in range(30)]

        assert [handle.result(LONG) for handle in handles] == list(range(30))
    assert sorted(map(int, traces(path))) == list(range(30))


def test_what_a_killed_engine_drove_goes_on_elsewhere(
    place: Place, submitter: Engine, tmp_path: Path, door: Door
) -> None:
    path = str(tmp_path / "traces")
    with Served(place) as first:
        handle = submitter.submit(wait_at.bind(door.path, path, 1))
        door.wait()
        with Served(place):
            first.process.kill()
            door.wait()
            door.open()

            assert handle.result(LONG) == 1
    assert traces(path) == ["begin 1", "begin 1", "end 1"]


def test_an_engine_that_is_told_to_end_lets_effects_end_and_leaves_the_rest_to_others(
    place: Place, submitter: Engine, tmp_path: Path, door: Door
) -> None:
    path = str(tmp_path / "traces")
    graph = leave_trace.bind(path, wait_at.bind(door.path, path, 1))
    with Served(place) as first:
        handle = submitter.submit(graph)
        door.wait()
        first.process.send_signal(signal.SIGTERM)
        assert first.process.stderr is not None
        until(lambda: "let go" in first.process.stderr.readline())  # type: ignore[union-attr]

        door.open()

        assert first.process.wait(LONG) == 0
    assert handle.status == "interrupted"
    with Served(place):
        assert handle.result(LONG) == 1
    assert traces(path) == ["begin 1", "end 1", "1"]


def test_a_pending_run_can_be_cancelled(submitter: Engine, tmp_path: Path) -> None:
    submitter.submit(leave_trace.bind(str(tmp_path / "traces"), 1), name="one")

    assert submitter.cancel("one") == "cancelled"
    assert submitter.resume_all() == []


def test_engines_are_listed_with_what_they_do(place: Place, submitter: Engine, tmp_path: Path, door: Door) -> None:
    with Served(place, "--capacity", "7") as served:
        submitter.submit(wait_at.bind(door.path, str(tmp_path / "traces"), 1))
        door.wait()
        environment = {**os.environ, **{f"ONCEFLOW_{name.upper()}": str(value) for name, value in place.items()}}
        said = subprocess.check_output([sys.executable, "-m", "onceflow", "engines", "--json"], env=environment)
        table = subprocess.check_output([sys.executable, "-m", "onceflow", "engines"], env=environment, text=True)

        listed = {engine["id"]: engine for engine in json.loads(said)}
        assert listed.keys() == {submitter.id, served.engine}
        found = listed[served.engine]
        assert (found["alive"], found["runs"], found["capacity"], found["pid"]) == (True, 1, 7, served.process.pid)
        assert listed[submitter.id]["capacity"] is None
        assert served.engine in table
        served.process.kill()
        served.process.wait()
        if "journal" in place:
            (dead,) = [info for info in submitter.list_engines() if info.id == served.engine]
            assert not dead.alive
        door.open()


def test_a_run_whose_code_is_missing_is_left_alone(place: Place, submitter: Engine, tmp_path: Path) -> None:
    script = tmp_path / "elsewhere.py"
    script.write_text("from onceflow import task\n\n@task\ndef strange():\n    return 1\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import elsewhere

        handle = submitter.submit(elsewhere.strange.bind())
    finally:
        sys.path.remove(str(tmp_path))
    with Served(place) as served:
        assert served.process.stderr is not None
        until(lambda: "does not go on here" in served.process.stderr.readline())  # type: ignore[union-attr]

        assert handle.status == "pending"


def test_serving_hosts_share_what_one_of_them_was_given(tmp_path: Path, postgres_url: str) -> None:
    """Two hosts, simulated by two homes: whoever submits need not serve."""
    path = str(tmp_path / "traces")
    with host(tmp_path / "a", postgres_url) as first, host(tmp_path / "b", postgres_url) as second:
        second.serve(capacity=2)

        assert first.submit(leave_trace.bind(path, 1)).result(LONG) == 1
        assert first.active == []


def test_who_has_lost_its_database_for_too_long_serves_again_when_it_is_back(tmp_path: Path) -> None:
    path = str(tmp_path / "traces")
    with PostgresServer() as server:
        place = {"home": tmp_path / "home", "journal": server.url, "lease": 1.0}
        with Served(place) as served:
            stderr = served.process.stderr
            assert stderr is not None
            server.stop("crash")
            until(lambda: "another one takes its place" in stderr.readline())
            server.start()
            until(lambda: "serves" in stderr.readline())

            with host(tmp_path / "submitter", server.url) as submitter:
                assert submitter.submit(leave_trace.bind(path, 1)).result(LONG) == 1
