"""Engines whose large values are kept in an object store."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy
import pytest

from onceflow import Engine, task
from onceflow.errors import InvalidOption, StorageDamaged, StorageError
from onceflow.storage.home import Home
from onceflow.testing.servers.failing import FailingProxy, Fault, Request
from onceflow.testing.servers.s3 import S3Server
from tests.engine.test_keeping import porters
from tests.helpers.scripts import run_script
from tests.helpers.traces import note, traces

MB = 1_000_000
LARGE = 30 * MB


@task
def array(number: int, size: int = MB) -> Any:
    return numpy.full(size, number, numpy.uint8)


@task
def total(*arrays: Any) -> int:
    return sum(int(values[0]) * len(values) for values in arrays)


@task
def total_of(values: Any, path: str) -> int:
    note(path, "total")
    return int(values.sum(dtype=int))


@task
def fails_until(path: str, values: Any) -> int:
    if not os.path.exists(path):
        raise ValueError("not yet")
    return int(values.sum(dtype=int))


@task(can_rollback=True)
def kill_porter(values: Any, pid: int) -> Any:
    for porter in porters(pid):
        os.kill(porter, signal.SIGKILL)
    return values


def stored(home: Path, blobs: str) -> list[str]:
    with Home(home, blobs=blobs) as opened:
        return [file.reference for run in opened.blobs.folders() for file in opened.blobs.files(run)]


def test_large_values_are_saved_there_and_not_in_the_home_directory(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        result = engine.run(array.bind(7, LARGE), name="array")

        assert (result == 7).all()
        assert len(result) == LARGE
        statistics = engine.statistics().blobs
        assert statistics is not None
        assert (statistics.written, statistics.written_bytes > LARGE) == (1, True)

    (reference,) = stored(tmp_path / "home", blobs)
    assert reference.startswith(blobs.partition("?")[0])
    assert list((tmp_path / "home" / "blobs").iterdir()) == []
    with Engine(tmp_path / "home", blobs=blobs, workers=1) as engine:
        assert (engine.get_output("array") == 7).all()


def test_a_run_that_goes_on_reads_its_inputs_from_there(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    open_door = tmp_path / "open"
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        handle = engine.run_async(fails_until.bind(str(open_door), array.bind(3, LARGE)), name="sum")
        with pytest.raises(Exception, match="not yet"):
            handle.result()
    open_door.touch()

    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        assert engine.resume("sum") == 3 * LARGE


def test_large_arguments_are_stored_there_and_read_again(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    open_door = tmp_path / "open"
    values = numpy.full(2 * MB, 5, numpy.uint8)
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        assert engine.run(total.bind(values, values)) == 20 * MB
        with pytest.raises(Exception, match="not yet"):
            engine.run(fails_until.bind(str(open_door), values), name="sum")
    open_door.touch()

    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        assert engine.resume("sum") == 10 * MB


def test_a_deleted_run_leaves_nothing_there(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        engine.run(total.bind(array.bind(1), array.bind(2)), name="gone")
        engine.run(total.bind(array.bind(1), array.bind(2)), name="kept")
        before = len(stored(tmp_path / "home", blobs))

        engine.delete("gone")

        assert (before, len(stored(tmp_path / "home", blobs))) == (4, 2)


def test_the_death_of_a_porter_costs_nothing(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        arrays = [kill_porter.bind(array.bind(number, 2 * MB), os.getpid()) for number in range(1, 4)]

        assert engine.run(total.bind(*arrays)) == 12 * MB


SCRIPT = """
import os, signal, sys
import numpy
from onceflow import Engine, task

@task
def array(number): return numpy.full(1_000_000, number, numpy.uint8)

@task
def die(*arrays):
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(int(os.environ["ENGINE"]), signal.SIGKILL)
    return sum(int(values.sum(dtype=int)) for values in arrays)

os.environ["ENGINE"] = str(os.getpid())
with Engine("home", workers=2) as engine:
    print(engine.run(die.bind(*[array.bind(number) for number in range(1, 5)]), name="sum"))
"""


def test_what_a_killed_engine_left_there_is_used_again_or_collected(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    run_script(tmp_path, SCRIPT, check=False, ONCEFLOW_BLOBS=blobs)
    with Home(tmp_path / "home", blobs=blobs) as home:
        (run,) = [row.id for row in home.journal.list_runs()]
        left = len(list(home.blobs.files(run)))

    assert run_script(tmp_path, SCRIPT, ONCEFLOW_BLOBS=blobs).strip() == str(10 * MB)

    with Home(tmp_path / "home", blobs=blobs) as home:
        home.collect_orphans()
        files = {file.reference for file in home.blobs.files(run)}
        assert files == home.journal.blobs(run)[1]
        assert left <= len(files) == 4


@pytest.mark.parametrize("fault", ["error", "cut", "no answer", "half an answer"])
def test_faults_that_pass_are_not_noticed(tmp_path: Path, s3: S3Server, fault: Fault) -> None:
    """Every third request suffers."""
    with FailingProxy(s3.address, lambda request: fault if request.number % 3 == 1 else None) as proxy:
        blobs = s3.create_bucket(proxy.address)
        with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
            assert engine.run(total.bind(array.bind(1, LARGE), array.bind(2), array.bind(3))) == LARGE + 5 * MB
            assert proxy.counts[fault] > 0
            (run,) = [info.id for info in engine.list_runs()]
        with Home(tmp_path / "home", blobs=blobs) as home:
            assert {file.reference for file in home.blobs.files(run)} == home.journal.blobs(run)[1]


def test_a_store_that_stays_down_interrupts_the_run_which_goes_on_later(tmp_path: Path, s3: S3Server) -> None:
    down = True

    def fault(request: Request) -> Fault | None:
        return "error" if down and request.method in ("PUT", "POST") else None

    with FailingProxy(s3.address, fault) as proxy:
        blobs = s3.create_bucket(proxy.address, patience="0.3")
        trace = str(tmp_path / "trace")
        with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
            handle = engine.run_async(total_of.bind(array.bind(1), trace), name="sum")
            with pytest.raises(StorageError, match=r"array.* of run .* cannot be saved.*SlowDown") as caught:
                handle.result()
            assert caught.value.path.startswith("s3://")
            assert traces(trace) == []  # nothing irrevocable started on what was not saved
        down = False
        with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
            assert engine.resume("sum") == MB
            assert traces(trace) == ["total"]


def test_a_value_that_is_gone_is_said_to_be(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine:
        engine.run(array.bind(1), name="array")
    with Home(tmp_path / "home", blobs=blobs) as home:
        for run in home.blobs.folders():
            home.blobs.delete_run(run)

    with Engine(tmp_path / "home", blobs=blobs, workers=2) as engine, pytest.raises(StorageDamaged, match="missing"):
        engine.get_output("array")


def test_what_was_saved_in_the_home_directory_before_stays_readable(tmp_path: Path, s3: S3Server) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(array.bind(1), name="before")

    with Engine(tmp_path / "home", blobs=s3.create_bucket(), workers=1) as engine:
        assert (engine.get_output("before") == 1).all()
        engine.run(array.bind(2), name="after")

    with Engine(tmp_path / "home", workers=1) as engine:
        assert (engine.get_output("before") == 1).all()
        with pytest.raises(StorageError, match=r"s3://.*no other place is chosen for blobs"):
            engine.get_output("after")


def test_two_homes_share_a_bucket_without_meeting(tmp_path: Path, s3: S3Server) -> None:
    blobs = s3.create_bucket()
    for name in ("one", "other"):
        with Engine(tmp_path / name, blobs=blobs, workers=1) as engine:
            engine.run(array.bind(1), name="array")

    for name in ("one", "other"):
        with Home(tmp_path / name, blobs=blobs) as home:
            assert home.collect_orphans().files == 0
            assert len(home.blobs.folders()) == 1


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("bucket/prefix", "it is a URL that starts with s3:"),
        ("http://example.org/x", "it is a URL that starts with s3:"),
        ("s3:///prefix", "it names no bucket"),
        ("s3://me:mine@bucket", "credentials belong into the environment"),
        ("s3://bucket?secret_access_key=x", "secret_access_key looks like a credential"),
        ("az://container?sas_token=x", "sas_token looks like a credential"),
        ("file:relative", "file:///its/path"),
        ("memory:///", "must outlive the process"),
    ],
)
def test_what_can_be_no_place_for_blobs_is_refused(tmp_path: Path, url: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        Engine(tmp_path / "home", blobs=url)


@pytest.mark.parametrize("options", ["nonsense=1", "allow_http=perhaps", "patience=long"])
def test_an_unknown_option_is_refused_when_the_engine_opens(tmp_path: Path, options: str) -> None:
    with pytest.raises(InvalidOption, match=f"s3://bucket.*{options.partition('=')[0]}|could not convert"):
        Engine(tmp_path / "home", blobs=f"s3://bucket?{options}")
