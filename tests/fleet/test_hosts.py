"""Engines on several hosts share one journal: they see each other's runs, and take over those of the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceflow import Engine
from onceflow.errors import RunActive, RunInterrupted, StorageError, StorageMoved
from tests.fleet.common import LEASE, host, leave_trace, wait_at, wait_with_the_interpreter_lock
from tests.helpers.doors import Door
from tests.helpers.processes import is_running
from tests.helpers.traces import traces
from tests.helpers.waiting import until
from tests.storage.common import PROJECT
from tests.tools.chaos.kills import children


@pytest.fixture
def here(tmp_path: Path, postgres_url: str) -> Iterator[Engine]:
    with host(tmp_path / "here", postgres_url) as engine:
        yield engine


@pytest.fixture
def there(tmp_path: Path, postgres_url: str) -> Iterator[Engine]:
    with host(tmp_path / "there", postgres_url) as engine:
        yield engine


def test_a_result_is_known_on_all_hosts(here: Engine, there: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "traces")

    assert here.run(leave_trace.bind(path, 1), name="one") == 1
    assert there.run(leave_trace.bind(path, 1), name="one") == 1

    assert traces(path) == ["1"]
    assert there.status("one") == "succeeded"
    assert [task.id for task in there.list_tasks("one")] == ["leave_trace"]


def test_a_run_that_is_driven_on_another_host_is_waited_for(
    here: Engine, there: Engine, tmp_path: Path, door: Door
) -> None:
    path = str(tmp_path / "traces")
    first = here.run_async(wait_at.bind(door.path, path, 1), name="one")
    door.wait()

    second = there.run_async(wait_at.bind(door.path, path, 1), name="one")
    assert there.status("one") == "running"
    with pytest.raises(RunActive):
        there.delete("one")
    door.open()

    assert (first.result(), second.result()) == (1, 1)
    assert traces(path) == ["begin 1", "end 1"]


def test_a_run_is_cancelled_from_another_host(here: Engine, there: Engine, tmp_path: Path, door: Door) -> None:
    """A command is a row in the journal, and a call."""
    here.run_async(wait_at.bind(door.path, str(tmp_path / "traces"), 1), name="one")
    door.wait()

    assert there.cancel("one", grace=0) == "cancelled"
    assert here.status("one") == "cancelled"


SCRIPT = """
import sys
from pathlib import Path
from tests.fleet import common
_, home, journal, door, path, task = sys.argv
engine = common.host(Path(home), journal)
print(engine.run_async(getattr(common, task).bind(door, path, 1), name="one").id, flush=True)
sys.stdin.read()
"""


def start(*arguments: object, task: str = "wait_at") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments), task],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )


@pytest.mark.parametrize("home", ["same", "other"])
def test_the_runs_of_a_killed_engine_are_taken_over(
    tmp_path: Path, postgres_url: str, here: Engine, door: Door, home: str
) -> None:
    """At once where its lock tells that it is dead; elsewhere when its lease has ended."""
    path = str(tmp_path / "traces")
    folder = here.settings.home if home == "same" else tmp_path / "other"
    with start(folder, postgres_url, door.path, path) as process:
        door.wait()
        assert here.status("one") == "running"
        process.kill()
        process.wait()
        if home == "same":
            assert here.status("one") == "interrupted"
        else:
            until(lambda: here.status("one") == "interrupted")
        handle = here.resume_async("one")
        door.wait()
        door.open()

        assert handle.result() == 1
    assert traces(path) == ["begin 1", "begin 1", "end 1"]


def test_workers_of_an_engine_that_hangs_end_before_its_lease_does(
    tmp_path: Path, postgres_url: str, here: Engine, door: Door
) -> None:
    """Given an engine that was stopped and can do nothing, when others see that its lease has ended, then its workers
    are gone: they never run beside those that take over."""
    with start(tmp_path / "other", postgres_url, door.path, tmp_path / "traces") as process:
        worker = door.wait()
        process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: here.status("one") == "interrupted")

            assert not Path(f"/proc/{worker}").exists()
        finally:
            process.kill()


def test_an_engine_whose_home_is_moved_away_stops_though_its_journal_is_elsewhere(
    postgres_url: str, tmp_path: Path, door: Door
) -> None:
    ledger = str(tmp_path / "traces")
    engine = host(tmp_path / "home", postgres_url)
    handles = [engine.run_async(wait_at.bind(door.path, ledger, name), name=name) for name in ("one", "two", "three")]
    door.wait()

    (tmp_path / "home").rename(tmp_path / "moved")
    door.open()

    for handle in handles:
        with pytest.raises(StorageMoved):
            handle.result()
    engine.close()
    assert len([line for line in traces(ledger) if line.startswith("begin")]) <= 2
    door.open(4)
    with host(tmp_path / "anew", postgres_url) as anew:
        assert [anew.resume(name) for name in ("one", "two", "three")] == ["one", "two", "three"]


@pytest.mark.parametrize("task", [wait_at, wait_with_the_interpreter_lock])
def test_workers_end_before_the_lease_although_their_engine_and_fork_server_are_stopped(
    tmp_path: Path, postgres_url: str, here: Engine, door: Door, task: Any
) -> None:
    """Given an engine and a fork server that can do nothing, and a task that may let no other thread of its worker run,
    when others see that the lease has ended, then the kernel has ended the worker."""
    name = task.function.__name__
    with start(tmp_path / "other", postgres_url, door.path, tmp_path / "traces", task=name) as process:
        worker = door.wait()
        (reaper,) = children(process.pid)
        process.send_signal(signal.SIGSTOP)
        try:
            for pid in (reaper, *children(reaper)):
                os.kill(pid, signal.SIGSTOP)
            until(lambda: here.status("one") == "interrupted")

            assert not is_running(worker)
        finally:
            os.kill(reaper, signal.SIGCONT)
            process.kill()


def test_an_engine_that_loses_its_lease_stops_and_says_so(
    here: Engine, postgres_url: str, tmp_path: Path, door: Door
) -> None:
    handle = here.run_async(wait_at.bind(door.path, str(tmp_path / "traces"), 1), name="one")
    worker = door.wait()

    with psycopg.connect(postgres_url) as connection:  # as if others had waited long enough
        connection.execute("UPDATE onceflow.engine SET expires = clock_timestamp()")

    with pytest.raises((StorageError, RunInterrupted)):
        handle.result()
    until(lambda: not Path(f"/proc/{worker}").exists())
    assert here.broken
    with host(tmp_path / "anew", postgres_url) as anew:
        again = anew.resume_async("one")
        door.wait()
        door.open()
        assert again.result() == 1


def test_an_engine_keeps_its_lease_although_it_has_nothing_to_write(
    here: Engine, there: Engine, tmp_path: Path, door: Door
) -> None:
    handle = here.run_async(wait_at.bind(door.path, str(tmp_path / "traces"), 1), name="one")
    door.wait()

    until(lambda: renewals(here) > 4)

    assert there.status("one") == "running"
    door.open()
    assert handle.result() == 1


def renewals(engine: Engine) -> float:
    """How many have been granted since this was first asked."""
    attendance = engine._home.attendance  # type: ignore[attr-defined]
    first = _first.setdefault(id(attendance), attendance.stop_at)
    return float((attendance.stop_at - first) / (LEASE / 4))


_first: dict[int, float] = {}


def test_who_only_looks_leaves_no_trace(there: Engine, here: Engine, postgres_url: str, tmp_path: Path) -> None:
    here.run(leave_trace.bind(str(tmp_path / "traces"), 1), name="one")

    assert there.list_runs()[0].name == "one"

    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM onceflow.engine").fetchone() == (1,)
