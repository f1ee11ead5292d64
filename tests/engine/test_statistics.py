"""What an engine has done, what attempts took, and how long a run will go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task
from onceflow.planning.estimates import Estimate
from tests.engine.common import add, double, fail_while, keep, pass_door
from tests.helpers.doors import Door, knock
from tests.helpers.waiting import until


@task(rollback=lambda: None, retry=RetryPolicy(1, delay=0))
def raise_once(path: str) -> str:
    mark = Path(path)
    if not mark.exists():
        mark.touch()
        raise ValueError("the first time")
    return "done"


@task
def tell_progress(path: str) -> None:
    current().progress(1, 4)
    knock(path)


@pytest.fixture
def own(tmp_path: Path):
    """An engine that nobody else uses."""
    with Engine(tmp_path / "home", workers=2) as engine:
        yield engine


def test_attempts_are_measured(own: Engine) -> None:
    own.run(add.bind(double.bind(2), 1), name="sum")

    first, second = own.list_attempts("sum")

    assert (first.id, first.task, first.outcome, first.undo) == ("double", "double", "finished", False)
    assert (second.id, second.attempt) == ("add", "1.2")
    for attempt in (first, second):
        assert attempt.started is not None
        assert attempt.seconds is not None
        assert attempt.seconds >= 0
        assert attempt.bytes > 0
        assert attempt.worker is not None
    assert first.started + first.seconds <= second.started + 0.001


def test_failures_and_undos_are_measured(own: Engine, tmp_path: Path) -> None:
    own.run(raise_once.bind(str(tmp_path / "mark")), name="retried")

    found = [(one.outcome, one.undo) for one in own.list_attempts("retried")]

    assert found == [("raised", False), ("finished", True), ("finished", False)]


def test_an_engine_counts_what_it_does(own: Engine, tmp_path: Path) -> None:
    own.run_many([add.bind(double.bind(n), 1) for n in range(3)])
    own.run(keep.bind(bytes(100_000)))
    own.run(raise_once.bind(str(tmp_path / "mark")))
    (tmp_path / "fault").touch()
    with pytest.raises(TaskFailed):
        own.run(fail_while.bind(str(tmp_path / "fault")))

    found = own.statistics()

    assert found.runs.ended == {"succeeded": 5, "failed": 1}
    assert found.runs.active == 0
    assert (found.attempts.started, found.attempts.finished, found.attempts.failed) == (10, 8, 2)
    assert (found.attempts.undos, found.attempts.undone) == (1, 1)
    assert (found.attempts.lost, found.attempts.stopped, found.commands) == (0, 0, 0)
    assert found.blobs is not None
    assert found.blobs.written >= 1
    assert found.blobs.written_bytes >= 100_000
    assert found.pool is not None
    assert found.pool.dispatched >= 10
    assert found.journal.commits > 0


def test_statistics_tell_what_tasks_took_in_runs_that_ended(own: Engine, tmp_path: Path) -> None:
    own.run_many([add.bind(double.bind(n), 1) for n in range(3)])
    own.run(raise_once.bind(str(tmp_path / "mark")))

    tasks = {found.task: found for found in own.statistics().tasks}

    assert {name: (found.runs, found.finished, found.failed) for name, found in tasks.items()} == {
        "add": (3, 3, 0),
        "double": (3, 3, 0),
        "raise_once": (1, 1, 1),
    }
    assert tasks["add"].p50 is not None
    assert tasks["add"].p90 is not None
    assert tasks["add"].p50 <= tasks["add"].p90
    assert [found.task for found in own.statistics("raise_once").tasks] == ["raise_once"]
    assert own.statistics("nobody's").tasks == []


def test_statistics_of_an_engine_that_did_nothing(own: Engine) -> None:
    found = own.statistics()
    assert found.pool is None
    assert found.tasks == []
    assert found.runs.ended == {}


def test_how_long_a_run_goes_on_is_known_once_there_is_history(own: Engine, door: Door) -> None:
    def start(name: str):
        handle = own.run_async(keep.bind(pass_door.bind(door.path)), name=name)
        door.wait()
        return handle

    # given a first run
    first = start("first")
    assert own.estimate("first") is None
    door.open()
    first.result()
    # when
    second = start("second")
    found = own.estimate("second")
    # then
    assert found is not None
    assert 0 <= found.low <= found.high
    assert found.samples == 1
    door.open()
    second.result()
    assert own.estimate("second") == Estimate(0.0, 0.0, 0)


def test_how_long_a_run_goes_on_that_another_engine_drives(own: Engine, door: Door) -> None:
    with Engine(own.settings.home, workers=1) as other:
        for name in ("first", "second"):
            handle = other.run_async(keep.bind(pass_door.bind(door.path)), name=name)
            door.wait()
            assert (own.estimate(name) is None) == (name == "first")
            door.open()
            handle.result()


def test_a_task_that_tells_its_progress_needs_no_history(own: Engine, door: Door) -> None:
    handle = own.run_async(tell_progress.bind(door.path))
    door.wait()

    found = until(lambda: own.estimate(handle.id))

    assert found.low == found.high > 0
    assert found.samples == 0
    door.open()
    handle.result()


def test_nothing_is_said_about_a_run_that_nobody_drives(own: Engine, tmp_path: Path) -> None:
    (tmp_path / "fault").touch()
    with pytest.raises(TaskFailed):
        own.run(fail_while.bind(str(tmp_path / "fault")), name="failed")

    assert own.estimate("failed") is None
