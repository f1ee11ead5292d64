"""Places, with workers and in queues, of tasks that do not start after all: others have them at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from onceflow import Engine, RetryPolicy, task
from onceflow.backends.local.send_ahead import Estimates
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.runtime.pool_executor import Workers
from onceflow.errors import RunPaused
from onceflow.handlers import break_, handler
from tests.helpers.doors import Door, knock
from tests.helpers.waiting import until


@handler(ValueError)
def stop(error, failure):
    return break_()


@task
def fail():
    raise ValueError("no")


@task
def inside():
    return 0


@task
def outside(number: int):
    return number


@task
def show(found) -> str:
    return str(found)


@task
def wait_at(door: str):
    knock(door)


@task.pure(checkpoint=True)
def graph():
    return show.bind([fail.options(priority=90).bind(), inside.options(priority=50).bind()])


def test_a_place_that_is_not_used_goes_to_the_next_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop never goes to sleep while a place is free that a task waits for: nothing may wake it for hours."""
    asleep: list[str] = []
    turn = Workers.turn

    def watched(workers: Workers) -> float | None:
        timeout = turn(workers)
        places = workers._reservations
        for window in places._windows.values() if timeout != 0 else ():
            for job in window.line:
                if window.admits(places._estimates.expected(job.function), places._workers(), places._idle):
                    asleep.append(job.task)
                break
        return timeout

    monkeypatch.setattr(Workers, "turn", watched)
    with Engine(tmp_path / "home", workers=1) as engine:
        ended = graph.options(handlers=[stop]).bind()  # while `inside` waits for the worker, before `outside`
        others = [outside.bind(number) for number in range(3)]
        assert engine.run(show.bind([ended, inside.bind(), *others])) == "[None, 0, 0, 1, 2]"
    assert asleep == []


class OneSecond(dict[str, float]):
    """What is expected of each function: so a worker is promised to one only."""

    def get(self, function: str, default: float | None = None) -> float:  # type: ignore[override]
        return 1.0


def test_a_task_whose_time_is_over_keeps_no_place_in_its_queue(
    tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a place there, and waits for a worker when its time is over."""
    monkeypatch.setattr(Estimates, "__init__", lambda estimates: setattr(estimates, "seconds", OneSecond()))
    with Engine(tmp_path / "home", workers=1) as engine, Engine(tmp_path / "home", workers=1) as other:
        engine.set_queue("q", concurrency=1)
        late = fail.options(queue="q", retry=RetryPolicy(1, delay=0.7), total_timeout=1.5, catch=True)
        engine.run_async(late.bind(), name="late")
        until(lambda: any(one.state == "retrying" for one in engine.list_tasks("late")))
        busy = engine.run_async(wait_at.bind(door.path))
        door.wait()
        following = engine.run_async(inside.bind())  # is promised the worker
        until(lambda: any("free worker" in one.reason for one in engine.list_tasks("late")))
        until(lambda: not any("free worker" in one.reason for one in engine.list_tasks("late")))
        assert other.run_async(outside.options(queue="q").bind(1)).result(timeout=20) == 1
        door.open()
        busy.result()
        following.result()


def test_a_task_that_was_paused_before_it_started_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held until the journal knows that it begins; and there it is withdrawn."""
    submit = Hub._submit

    def pausing(hub: Hub, submission, completion) -> None:
        submit(hub, submission, completion)
        driver, _ = hub.runs.active[submission.run]
        hub.runs.tell(driver, driver.pause)

    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(inside.bind())
        for name in ("goes on", "is cancelled"):
            with monkeypatch.context() as patched:
                patched.setattr(Hub, "_submit", pausing)
                with pytest.raises(RunPaused):
                    engine.run(outside.bind(7), name=name)
        assert engine.resume("goes on") == 7
        engine.cancel("is cancelled")
        with engine._home.journal.load(engine.find("is cancelled").id) as loaded:
            (ended,) = [entry.body for entry in loaded.entries if entry.kind == "finished"]
        _, _, uncertain = msgspec.msgpack.decode(ended)[:3]
        assert uncertain == []
