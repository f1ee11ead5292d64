"""Schedules of real engines, by a real clock, with processes that are killed."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow import Engine, task
from onceflow.engine.schedules import clock, rules
from onceflow.engine.schedules.rules import Every
from tests.engine.schedules import flows
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import kill, started
from tests.helpers.traces import traces
from tests.helpers.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextlib.contextmanager
def opened(folder: Path, *, schedules: bool = True) -> Iterator[Engine]:
    with Engine(folder, workers=1, durability="process", schedules=schedules) as engine:
        yield engine


def statuses(engine: Engine) -> list[str]:
    return [info.status for info in engine.list_runs(limit=None)]


def test_an_engine_fires_what_is_due(folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    with opened(folder) as engine:
        engine.schedule("quick", flows.trace, args=[file], every=0.05)

        until(lambda: len(traces(file)) >= 3)

    assert len(traces(file)) == len(set(traces(file)))


def test_a_schedule_that_another_engine_declares_is_noticed_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "ROUND", 1e6)  # ours would never look by itself
    with opened(folder) as engine, opened(folder, schedules=False) as other:
        other.schedule("soon", flows.greet, at=time.time())

        until(lambda: statuses(engine) == ["succeeded"])


def test_an_engine_that_is_not_to_fire_does_not(folder: Path) -> None:
    with opened(folder, schedules=False) as engine:
        engine.schedule("a", flows.greet, at=time.time())

        assert engine.trigger_schedule("a").result().startswith("hello")

        assert engine.get_schedule("a").next is not None
        assert len(statuses(engine)) == 1


def test_what_was_missed_is_made_up_for_when_there_is_an_engine_again(folder: Path) -> None:
    with opened(folder, schedules=False) as engine:
        engine.schedule("a", flows.greet, every=0.001, catch_up="all", overlap="allow", limit=5)
        until(lambda: time.time() > engine.get_schedule("a").created + 0.01)
        engine.pause_schedule("a")
        engine.schedule("b", flows.greet, at=time.time() - 3600)

    with opened(folder) as engine:
        until(lambda: statuses(engine) == ["succeeded"])

        assert [info.fired for info in engine.list_schedules()] == [0, 1]


@task
def wait(door: str) -> str:
    knock(door)
    return "open"


def test_a_run_whose_engine_died_goes_on_where_schedules_are_fired(folder: Path, tmp_path: Path, door: Door) -> None:
    script = """
        import sys, time
        from onceflow import Engine
        from tests.engine.schedules.test_engines import wait
        engine = Engine("home", workers=1)
        engine.schedule("once", wait, at=time.time(), args=[sys.argv[1]])
        time.sleep(1000)
    """
    with started(tmp_path, script, door.path) as process:
        door.wait()
        kill(process)

    with opened(folder) as engine:
        door.wait()
        door.open()
        until(lambda: statuses(engine) == ["succeeded"])

        assert engine.get_schedule("once").fired == 1


def test_a_schedule_whose_code_is_gone_says_so_and_fires_when_it_is_back(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "RETRY", 0.02)
    monkeypatch.setattr(clock, "ROUND", 0.02)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "flows_that_come_and_go.py"
    source = "from onceflow import task\n@task.pure\ndef here() -> int:\n    return 1\n"
    module.write_text(source)
    import flows_that_come_and_go  # type: ignore[import-not-found]

    with opened(folder, schedules=False) as engine:
        engine.schedule("a", flows_that_come_and_go.here, at=time.time())
    module.unlink()
    del sys.modules["flows_that_come_and_go"]

    with opened(folder) as engine:
        until(lambda: engine.get_schedule("a").problem)
        assert "importing that module raised ModuleNotFoundError" in str(engine.get_schedule("a").problem)
        assert statuses(engine) == []

        module.write_text(source)

        until(lambda: statuses(engine) == ["succeeded"])
        assert engine.get_schedule("a").problem is None


ENGINE = """
    import time
    from onceflow import Engine
    engine = Engine("home", workers=1, durability="process")
    print("up", flush=True)
    time.sleep(1000)
"""
KILLS = 5


def test_every_instant_is_fired_once_although_engines_are_killed(folder: Path, tmp_path: Path) -> None:
    """Two processes fire. One of them after the other is killed, soon after it is up, and another one started."""
    chance = random.Random(8)
    ledger = tmp_path / "traces"
    with opened(folder, schedules=False) as engine, contextlib.ExitStack() as stack:
        engine.schedule("a", flows.trace, args=[str(ledger)], every=0.1, catch_up="all", overlap="allow", limit=10_000)
        processes = [stack.enter_context(started(tmp_path, ENGINE, file=f"engine{n}.py")) for n in range(2)]
        for number in range(KILLS):
            victim = processes.pop(chance.randrange(2))
            assert victim.stdout is not None
            victim.stdout.readline()
            count = len(statuses(engine)) + chance.randrange(4)
            until(lambda count=count: len(statuses(engine)) > count)  # type: ignore[misc]
            kill(victim)
            processes.append(stack.enter_context(started(tmp_path, ENGINE, file=f"engine{number + 2}.py")))
        info = engine.pause_schedule("a")
        assert info.last is not None

        expected = list(rules.between(Every(0.1), info.created + 1e-6, info.last + 1e-6))
        until(lambda: statuses(engine) == ["succeeded"] * len(expected))

        names = {run.name for run in engine.list_runs(limit=None)}
        assert names == {f"a@{rules.iso(instant)}" for instant in expected}
        assert engine.get_schedule("a").fired == len(expected)
        assert len(set(traces(ledger))) == len(expected)
        # A task that was killed is repeated: it must be idempotent. One worker of each engine runs one at a time.
        assert len(traces(ledger)) <= len(expected) + KILLS
