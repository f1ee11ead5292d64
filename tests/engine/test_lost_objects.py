"""Large values that are lost while a run needs them."""

from __future__ import annotations

from pathlib import Path

from onceflow import Engine, task
from onceflow.data.objects import Object
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until


@task.pure
def make(trace: str) -> bytes:
    note(trace, "made")
    return b"x" * 1_000_000


@task(can_rollback=True)
def pass_door(path: str) -> None:
    knock(path)


@task
def count(trace: str, data: bytes, _: None) -> int:
    note(trace, "counted")
    return len(data)


def held(engine: Engine) -> list[Object]:
    """The objects that its runs hold."""
    return [
        part
        for driver, _ in engine._hub.runs.active.values()
        for _, parts in driver.outputs._parts.values()
        for part in parts
        if isinstance(part, Object)
    ]


def test_what_was_lost_is_made_again_and_its_effect_happens_once(engine: Engine, door: Door, tmp_path: Path):
    # given: a large value waits for a task that reads it
    trace = str(tmp_path / "trace")
    handle = engine.run_async(count.bind(trace, make.bind(trace), pass_door.bind(door.path)))
    door.wait()
    until(lambda: engine._hub.ask(lambda: held(engine)))
    # when: whoever has its bytes dies
    engine._hub.ask(lambda: engine._hub.runs.workers.lose(held(engine)))
    door.open()
    # then
    assert handle.result() == 1_000_000
    assert traces(trace) == ["made", "made", "counted"]
