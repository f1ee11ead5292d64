"""Letting a run rest, wherever it is driven, and going on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, task
from onceflow.engine.run_commands.pause import Pausing
from onceflow.errors import RunPaused
from tests.engine.common import keep, pass_door, trace
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import kill, started
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG, until


@task.pure
def wait_at(door: str) -> str:
    knock(door)
    return "through"


def want_rest(engine: Engine, run: str) -> None:
    """Returns when the engine knows of it."""
    engine._hub.command(run, Pausing())
    engine.list_tasks(run)


def test_what_runs_ends_and_is_saved_and_nothing_more_starts(engine: Engine, door: Door, tmp_path: Path) -> None:
    # given a run whose first task is at work
    file = str(tmp_path / "trace")
    handle = engine.run_async(trace.options(after=[pass_door.bind(door.path)]).bind(file, "second"))
    door.wait()

    # when somebody wants it to rest
    want_rest(engine, handle.id)
    assert engine.status(handle.id) == "running"
    door.open()

    # then it rests after that task, and whoever waits for it is told
    assert engine.pause(handle.id) == "paused"
    assert engine.status(handle.id) == "paused"
    assert engine.get_output(handle.id, "pass_door") == "through"
    assert traces(file) == []
    with pytest.raises(RunPaused, match=r"it was paused\. resume\('.*'\) goes on") as caught:
        handle.result(LONG)
    assert caught.value.task is None
    assert engine.why(handle.id).text == "it waits for a person: `onceflow resume` goes on"

    # and going on does what is missing, once
    assert engine.pause(handle.id) == "paused"
    assert engine.resume(handle.id) == "second"
    assert traces(file) == ["second"]


def test_a_task_without_effect_may_end_too(engine: Engine, door: Door, tmp_path: Path) -> None:
    handle = engine.run_async(keep.bind(wait_at.bind(door.path)))
    door.wait()
    want_rest(engine, handle.id)
    door.open()
    assert engine.pause(handle.id) == "paused"

    door.open()  # nothing was saved, so it runs again
    assert engine.resume(handle.id) == "through"


def test_a_run_that_is_quicker_ends(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    want_rest(engine, handle.id)
    door.open()
    assert engine.pause(handle.id) == "succeeded"
    assert handle.result(LONG) == "through"


SCRIPT = """
    import sys
    import onceflow
    from tests.engine.common import pass_door, trace
    onceflow.run(trace.options(after=[pass_door.bind(sys.argv[1])]).bind(sys.argv[2], "second"), name="r")
"""


def test_a_run_of_another_engine_is_paused(door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    with started(tmp_path, SCRIPT, door.path, file) as other, Engine(tmp_path / "home") as engine:
        door.wait()
        row = engine._home.journal.find_name("r")
        assert row is not None
        owner = row.owner
        assert owner is not None
        engine._reach.ask([row], Pausing())
        until(lambda: not engine._home.journal.commands(owner))
        door.open()
        assert engine.pause("r") == "paused"
        assert "RunPaused" in other.communicate(timeout=LONG)[1]
        assert engine.resume("r") == "second"
    assert traces(file) == ["second"]


def test_a_run_whose_engine_died_is_paused_without_going_on(door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    with started(tmp_path, SCRIPT, door.path, file) as other:
        door.wait()
        kill(other)
    with Engine(tmp_path / "home", recover=False) as engine:
        assert engine.pause("r") == "paused"
        assert engine.resume_all() == []
        door.open()
        assert engine.resume("r") == "second"
    assert traces(file) == ["second"]


def test_a_paused_run_can_be_cancelled(engine: Engine, door: Door, tmp_path: Path) -> None:
    handle = engine.run_async(trace.options(after=[pass_door.bind(door.path)]).bind(str(tmp_path / "trace"), "second"))
    door.wait()
    want_rest(engine, handle.id)
    door.open()
    assert engine.pause(handle.id) == "paused"
    assert engine.cancel(handle.id) == "cancelled"
    assert traces(str(tmp_path / "trace")) == []
