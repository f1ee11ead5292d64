"""The log of an engine: one line for each thing that happened, and no harm if it cannot be written."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, task
from onceflow.engine.logs import engine_log
from onceflow.engine.logs.engine_log import MOST_ENGINES, EngineEvent, Recording
from onceflow.storage import logs
from tests.engine.common import add, double, keep, pass_door
from tests.helpers.doors import Door
from tests.helpers.waiting import LONG, until


def events(home: Path) -> list[EngineEvent]:
    return list(engine_log.read(logs.of_engines(home), {}))


def told(home: Path) -> list[tuple[str, str]]:
    return [(event.event, event.task or event.detail) for event in events(home)]


def without_starts(seen: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """On a slow machine even a short attempt may have one."""
    return [one for one in seen if one[0] != "started"]


def test_a_run_and_its_attempts_are_told_in_order(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(add.bind(1, double.bind(2)), name="sum")
    assert without_starts(told(tmp_path / "home")) == [
        ("engine opened", f"process {os.getpid()}"),
        ("run created", "sum"),
        ("finished", "double"),
        ("finished", "add"),
        ("status", "succeeded"),
        ("run ended", "succeeded"),
        ("engine closed", ""),
    ]


def test_an_attempt_that_goes_on_has_a_line_for_its_start(
    tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_log, "SOON", 0.01)
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(pass_door.bind(door.path))
        door.wait()
        until(lambda: ("started", "pass_door") in told(tmp_path / "home"))
        door.open()
        handle.result(LONG)
    assert [event for event, what in told(tmp_path / "home") if what == "pass_door"] == ["started", "finished"]


def test_what_was_running_when_an_engine_was_closed_is_told(tmp_path: Path, door: Door) -> None:
    engine = Engine(tmp_path / "home", workers=1)
    engine.run_async(pass_door.bind(door.path))
    door.wait()
    engine.close()
    seen = told(tmp_path / "home")
    assert ("started", "pass_door") in seen
    assert [what for event, what in seen if event == "run ended"] == ["interrupted: the engine was closed"]


def test_an_attempt_that_ended_tells_how_long_it_took_and_where(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        worker = engine.run(say_pid.bind())
        (run,) = engine.list_runs()
    (finished,) = [event for event in events(tmp_path / "home") if event.event == "finished"]
    assert (finished.run, finished.worker) == (run.id, worker)
    assert finished.seconds is not None
    assert 0 <= finished.seconds < 60
    assert len(finished.engine) == 16


@task
def say_pid() -> int:
    return os.getpid()


def take_back(*, key: str) -> None:
    pass


@task(rollback=take_back)
def book() -> str:
    return "booked"


@task(can_rollback=True)
def refuse(booked: str) -> None:
    raise ValueError(f"not {booked}")


def test_failures_and_undos_are_told(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine, pytest.raises(TaskFailed):
        engine.run(refuse.bind(book.bind()), on_failure="undo")
    seen = events(tmp_path / "home")
    assert [event.detail for event in seen if event.event == "failed"] == ["ValueError: not booked"]
    assert [event.task for event in seen if event.event == "undone"] == ["book"]
    assert [event.detail for event in seen if event.event == "status"] == ["undoing", "undone"]


@task
def die_once(marker: str) -> None:
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(die_once.bind(str(tmp_path / "marker")))
    seen = [event for event in events(tmp_path / "home") if event.worker]
    assert [event.event for event in seen] == ["worker died", "lost", "finished"]
    assert seen[0].detail == "status -9"
    assert seen[0].worker == seen[1].worker != seen[2].worker


def test_a_worker_that_dies_while_it_has_nothing_to_do_is_told(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        worker = engine.run(say_pid.bind())
        os.kill(worker, signal.SIGKILL)
        until(lambda: [event for event in events(tmp_path / "home") if event.event == "worker died"])
        assert engine.run(say_pid.bind()) != worker


def test_a_command_of_another_engine_is_told(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine, Engine(tmp_path / "home", workers=1) as other:
        handle = engine.run_async(pass_door.bind(door.path))
        door.wait()
        other.cancel(handle.id, grace=0)
        handle.wait()
    seen = [(event.event, event.detail) for event in events(tmp_path / "home")]
    assert ("command", "cancel") in seen
    assert ("lost", "stopped") in seen
    assert ("run ended", "cancelled") in seen


def test_an_engine_that_does_nothing_leaves_nothing(tmp_path: Path) -> None:
    with Engine(tmp_path / "home") as engine:
        engine.list_runs()
    assert not (tmp_path / "home" / logs.LOGS).exists()


def test_a_log_that_nobody_wants_is_not_kept(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1, event_log=False) as engine:
        engine.run(keep.bind(1))
    assert events(tmp_path / "home") == []


def test_the_logs_of_the_last_engines_are_kept(tmp_path: Path) -> None:
    living = "0"
    for number in range(3 * MOST_ENGINES):
        one = Recording(tmp_path, str(number), 10_000, events=True, is_alive=lambda engine: engine == living)
        one.tell("something")
        one.close()
        os.utime(tmp_path / str(number) / "0.jsonl", (number, number))
    left = set(logs.listed(tmp_path))
    assert {str(number) for number in range(2 * MOST_ENGINES, 3 * MOST_ENGINES)} <= left
    assert living in left
    assert len(left) <= MOST_ENGINES + 2


def test_old_logs_that_are_too_long_together_go(tmp_path: Path) -> None:
    for number in range(10):
        one = Recording(tmp_path, str(number), 1_000, events=True, is_alive=lambda engine: False)
        for _ in range(20):
            one.tell("something", detail="x" * 100)
            one.turn()
        one.close()
        os.utime(logs.segment(tmp_path / str(number), logs.starts(tmp_path / str(number))[-1]), (number, number))
    sizes = Counter({engine: logs.size(tmp_path / engine) for engine in logs.listed(tmp_path)})
    assert "9" in sizes
    assert "0" not in sizes
    assert sizes.total() < 8_000


def test_what_the_system_says_is_told_even_if_it_is_no_text(tmp_path: Path) -> None:
    one = Recording(tmp_path, "0", 10_000, events=True, is_alive=lambda engine: False)
    one.tell("storage trouble", detail="no file b\udcfcro")
    one.close()
    (trouble,) = [event for event in engine_log.read(tmp_path, {}) if event.event == "storage trouble"]
    assert trouble.detail == "no file b\\udcfcro"


def test_runs_go_on_if_it_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        (tmp_path / "home" / logs.LOGS).write_text("in the way")
        assert engine.run(keep.bind(1)) == 1
        assert engine.run(keep.bind(2)) == 2
        (tmp_path / "home" / logs.LOGS).unlink()
    assert len([record for record in caplog.records if record.name == engine_log.__name__]) == 1
    assert told(tmp_path / "home")[-1][1].endswith("events could not be stored")
