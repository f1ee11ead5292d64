"""Engines on several hosts whose large values are in one object store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy

from onceflow import task
from onceflow.storage.blobs import Author
from onceflow.storage.home import Home
from onceflow.testing.servers.s3 import S3Server
from tests.fleet.common import host
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until
from tests.storage.common import PROJECT

SIZE = 20_000_000


@task
def readings(path: str) -> Any:
    note(path, "readings")
    return numpy.full(SIZE, 3, numpy.uint8)


@task
def total_at(door: str, values: Any) -> int:
    knock(door)
    return int(values.sum(dtype=int))


SCRIPT = """
import sys
from pathlib import Path
from tests.fleet.common import host
from tests.fleet.test_blobs import readings, total_at
_, home, journal, blobs, door, path = sys.argv
engine = host(Path(home), journal, blobs=blobs)
engine.run_async(total_at.bind(door, readings.bind(path)), name="sum")
sys.stdin.read()
"""


def test_what_a_killed_engine_has_saved_is_read_on_another_host(
    tmp_path: Path, postgres_url: str, s3: S3Server, door: Door
) -> None:
    blobs, path = s3.create_bucket(), str(tmp_path / "traces")
    arguments = [tmp_path / "there", postgres_url, blobs, door.path, path]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)], stdin=subprocess.PIPE, cwd=PROJECT
    ) as there:
        door.wait()  # an irrevocable task has begun, so what it reads is saved
        there.kill()
        there.wait()
    with host(tmp_path / "here", postgres_url, blobs=blobs) as here:
        until(lambda: here.status("sum") == "interrupted")
        handle = here.resume_async("sum")
        door.wait()
        door.open()

        assert handle.result() == 3 * SIZE
    assert traces(path) == ["readings"]


def test_what_an_engine_writes_before_its_first_commit_is_no_orphan_to_others(
    tmp_path: Path, postgres_url: str, s3: S3Server
) -> None:
    """Large arguments are written before the run is created, so they are named by nobody for a while."""
    blobs = s3.create_bucket()
    with (
        Home(tmp_path / "here", journal=postgres_url, blobs=blobs) as here,
        Home(tmp_path / "there", journal=postgres_url, blobs=blobs) as there,
    ):
        reference = there.blobs.write(Author("unborn", 1, there.engine), "argument", [b"12345"])

        assert here.collect_orphans().files == 0
        assert here.blobs.read(reference) == b"12345"


def test_what_an_engine_left_that_has_ended_is_an_orphan_to_others(
    tmp_path: Path, postgres_url: str, s3: S3Server
) -> None:
    blobs = s3.create_bucket()
    with Home(tmp_path / "there", journal=postgres_url, blobs=blobs) as there:
        there.blobs.write(Author("unborn", 1, there.engine), "argument", [b"12345"])

    with Home(tmp_path / "here", journal=postgres_url, blobs=blobs) as here:
        assert here.collect_orphans().files == 1
        assert here.blobs.folders() == []
