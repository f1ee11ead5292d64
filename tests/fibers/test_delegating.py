"""Fibers that nobody waits for are gone on with by workers when they are woken, as far as those get by themselves."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.backends.local import delegated_runs
from onceflow.driver import fiber_cancellation
from onceflow.engine.runtime import delegation
from onceflow.engine.runtime.facade import Hub
from onceflow.storage.journal import Claim, commit
from tests.fibers import away
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script, started
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG, until
from tests.tools.chaos.kills import assassinate

DRIVING = """
    import sys, threading
    from onceflow import Engine
    with Engine(sys.argv[1], workers=2, recover=True) as engine:
        print("here", flush=True)
        threading.Event().wait()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("delegating") / "home"


@pytest.fixture(scope="module")
def shared(home: Path) -> Iterator[Engine]:
    with Engine(home, workers=2) as engine:
        yield engine


@pytest.fixture
def engine(shared: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Has no experience with any workflow, and delegates whatever it can: on a busy machine a segment may take so long
    that runs of its workflow are driven here for a while, and a worker may be given up."""
    hub_of(shared).parked.delegating._driven_here.clear()
    monkeypatch.setattr(delegation, "FIRST", 0)
    monkeypatch.setattr(delegation, "PATIENCE", LONG)
    return shared


def hub_of(engine: Engine) -> Hub:
    assert isinstance(engine._hub, Hub)
    return engine._hub


def id_of(engine: Engine, name: str) -> str:
    row = engine._home.journal.find_name(name)
    assert row is not None
    return row.id


def park(engine: Engine, node: Any, name: str) -> None:
    """Starts it, and nobody waits for it."""
    id = engine.run_async(node, name=name).id
    until(lambda: hub_of(engine).is_parked(id))


def wake(engine: Engine, name: str, number: int = 1) -> None:
    engine.send_event(name, "number", number)


def delegated(engine: Engine) -> int:
    return engine.statistics().runs.delegated


def has(engine: Engine, name: str, status: str) -> None:
    """Waits until it has, and the engine knows."""
    until(lambda: engine.status(name) == status and not hub_of(engine).is_busy_with(id_of(engine, name)))


def test_a_woken_fiber_is_gone_on_with_by_a_worker(engine: Engine) -> None:
    before, attempts = delegated(engine), engine.statistics().attempts.finished
    park(engine, away.patient.bind("hello"), "patient")
    wake(engine, "patient", 5)
    has(engine, "patient", "succeeded")
    assert engine.get_output("patient") == "hello 5"
    assert delegated(engine) == before + 1
    assert engine.statistics().attempts.finished == attempts + 2
    assert {task.id: task.state for task in engine.list_tasks("patient")}["patient"] == "done"


def test_it_may_wait_again_and_takes_each_event_once(engine: Engine, tmp_path: Path) -> None:
    before, path = delegated(engine), tmp_path / "trace"
    park(engine, away.counting.bind(str(path)), "counting")
    for count, number in enumerate([1, 20, 300, -1], 1):
        wake(engine, "counting", number)
        until(lambda count=count: delegated(engine) == before + count)
    has(engine, "counting", "succeeded")
    assert engine.get_output("counting") == 321
    assert traces(path) == ["1", "21", "321"]


def test_several_events_are_taken_at_once_in_their_order(engine: Engine, tmp_path: Path) -> None:
    before, path = delegated(engine), tmp_path / "trace"
    park(engine, away.counting.bind(str(path)), "hurried")
    engine.send_events([("hurried", "number", number) for number in (1, 20, 300, -1)])
    has(engine, "hurried", "succeeded")
    assert traces(path) == ["1", "21", "321"]
    assert delegated(engine) == before + 1


def test_an_event_that_comes_while_a_worker_has_the_run_wakes_it_again(engine: Engine, door: Door) -> None:
    before = delegated(engine)
    park(engine, away.passing.bind(door.path), "passing")
    wake(engine, "passing", 1)
    door.wait()
    wake(engine, "passing", 2)
    door.open()
    has(engine, "passing", "succeeded")
    assert engine.get_output("passing") == [1, 2]
    assert delegated(engine) == before + 2


def test_what_has_an_effect_is_left_to_the_engine_which_learns_from_it(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "FIRST", 1)
    before, path = delegated(engine), tmp_path / "trace"
    for name in ("acting", "acting again"):
        park(engine, away.acting.bind(str(path)), name)
        wake(engine, name, 3)
        has(engine, name, "succeeded")
    assert delegated(engine) == before
    lines = traces(path)
    assert lines.count("woken 3") == 3, "the first was tried by a worker, the second was not"
    effects = [line for line in lines if line.startswith("number 3")]
    assert len(effects) == len(set(effects)) == 2


def test_whoever_waits_for_a_run_has_it_driven_here(engine: Engine) -> None:
    before = delegated(engine)
    handle = engine.run_async(away.patient.bind("hello"), name="awaited")
    until(lambda: hub_of(engine).is_parked(handle.id))
    wake(engine, "awaited", 4)
    assert handle.result() == "hello 4"
    assert delegated(engine) == before


def test_what_it_prints_and_logs_belongs_to_it(engine: Engine) -> None:
    before = delegated(engine)
    park(engine, away.talking.bind(), "talking")
    wake(engine, "talking", 6)
    has(engine, "talking", "succeeded")
    assert delegated(engine) == before + 1
    lines = {line.stream: line for line in engine.logs("talking")}
    assert lines["stdout"].text == "it is 6"
    assert lines["stderr"].text == "in two lines, the second without an end"
    assert lines["log"].text == "and a warning"
    assert {(line.task, line.attempt) for line in lines.values()} == {("talking/segment", "2.2")}


def test_what_is_printed_belongs_to_the_segment_that_did(engine: Engine) -> None:
    park(engine, away.counting_aloud.bind(), "aloud")
    engine.send_events([("aloud", "number", number) for number in (1, 2, -1)])
    has(engine, "aloud", "succeeded")
    lines = [(line.text, line.task) for line in engine.logs("aloud")]
    assert [text for text, _ in lines] == ["1", "2", "-1"]
    assert len({task for _, task in lines}) == 3


def test_a_module_that_prints_when_it_is_imported_harms_nobody(tmp_path: Path) -> None:
    output = run_script(tmp_path, PRINTING)
    assert output.splitlines()[-1] == "hello 9"


def test_a_slow_run_delays_no_others(engine: Engine, door: Door) -> None:
    park(engine, away.passing.bind(door.path), "slow one")
    names = [f"quick {number}" for number in range(5)]
    for name in names:
        park(engine, away.patient.bind(name), name)
    engine.send_events([(name, "number", 1) for name in ["slow one", *names]])
    door.wait()
    for name in names:
        has(engine, name, "succeeded")
    door.open()
    wake(engine, "slow one", 2)
    has(engine, "slow one", "succeeded")


def test_whoever_wants_a_run_that_is_being_woken_gets_it_once(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    names = [f"wanted {number}" for number in range(20)]
    for name in names:
        park(engine, away.counting.bind(str(path)), name)
    engine.send_events([(name, "number", 1) for name in names])
    handles = [engine.resume_async(name) for name in names]
    engine.send_events([(name, "number", number) for number in (20, -1) for name in names])
    assert [handle.result(LONG) for handle in handles] == [21] * len(names)


def test_an_engine_that_is_left_waits_for_runs_that_workers_have(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        park(engine, away.passing.bind(door.path), "left")
        engine.send_events([("left", "number", 1), ("left", "number", 2)])
        door.wait()
        threading.Timer(0.05, door.open).start()
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.get_output("left") == [1, 2]


def test_whoever_resumes_a_parked_run_is_told_whatever_the_garbage_collector_does(engine: Engine) -> None:
    park(engine, away.patient.bind("kept"), "kept")
    handle = engine.resume_async("kept")
    until(lambda: hub_of(engine).is_parked(handle.id))
    gc.collect()
    wake(engine, "kept", 3)
    assert handle.result(LONG) == "kept 3"


def test_a_worker_that_dies_of_a_run_gives_back_all_of_them(engine: Engine, tmp_path: Path) -> None:
    park(engine, away.deadly.bind(str(tmp_path / "died")), "deadly")
    names = [f"beside {number}" for number in range(5)]
    for name in names:
        park(engine, away.patient.bind(name), name)
    engine.send_events([(name, "number", 1) for name in ["deadly", *names]])
    for name in ["deadly", *names]:
        has(engine, name, "succeeded")
    assert engine.get_output("deadly") == "survived"
    assert [engine.get_output(name) for name in names] == [f"{name} 1" for name in names]


def test_runs_of_a_workflow_are_driven_here_after_one_that_took_long(
    engine: Engine, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "FIRST", 1)
    before = delegated(engine)
    park(engine, away.passing.bind(door.path), "lengthy")
    wake(engine, "lengthy", 1)
    door.wait()
    began = time.monotonic()
    until(lambda: time.monotonic() - began > delegated_runs.SLOW)
    door.open()
    until(lambda: delegated(engine) == before + 1)
    until(lambda: hub_of(engine).is_parked(id_of(engine, "lengthy")))
    wake(engine, "lengthy", 2)
    has(engine, "lengthy", "succeeded")
    assert delegated(engine) == before + 1


def test_a_run_that_takes_its_time_comes_back_and_can_be_cancelled(
    engine: Engine, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "PATIENCE", 0.0)
    monkeypatch.setattr(fiber_cancellation, "TIME", 0.0)
    park(engine, away.passing.bind(door.path), "dawdling")
    wake(engine, "dawdling", 1)
    until(lambda: id_of(engine, "dawdling") in engine.active)
    assert engine.cancel("dawdling") == "cancelled"


def test_whoever_cancels_a_run_that_a_worker_has_is_heard_when_it_is_back(
    engine: Engine, home: Path, door: Door
) -> None:
    park(engine, away.passing.bind(door.path), "unwanted")
    wake(engine, "unwanted", 1)
    door.wait()
    answers: list[str] = []
    with Engine(home, workers=1) as other:
        thread = threading.Thread(target=lambda: answers.append(other.cancel("unwanted")))
        thread.start()
        until(lambda: engine._home.journal.commands(engine._home.engine))
        door.open()
        thread.join(LONG)
    assert answers == ["cancelled"]


def test_a_run_that_somebody_else_has_claimed_is_left_to_them(engine: Engine, door: Door) -> None:
    before = delegated(engine)
    park(engine, away.passing.bind(door.path), "claimed")
    wake(engine, "claimed", 1)
    door.wait()
    row = engine._home.journal.find_name("claimed")
    assert row is not None
    assert commit(engine._home.journal, [Claim(row.id, "another", row.epoch)]).ok
    door.open()
    until(lambda: not hub_of(engine).is_busy_with(row.id))
    after = engine._home.journal.find_name("claimed")
    assert after is not None
    assert (after.epoch, after.owner) == (row.epoch + 1, "another")
    assert delegated(engine) == before


def test_a_moment_wakes_a_fiber_too(engine: Engine) -> None:
    """The engine's clock is slow until the run is parked: then the moment has come."""
    before, hub = delegated(engine), hub_of(engine)
    with pytest.MonkeyPatch.context() as slow:
        now = lambda: time.time() - away.NAP  # noqa: E731
        for clock, name in ((hub.runs, "now"), (hub.host, "now"), (hub.parked.parking, "_now")):
            slow.setattr(clock, name, now)
        park(engine, away.napping.bind(), "napping")
    hub._loop.post(hub.parked.parking._look_at_clock)
    has(engine, "napping", "succeeded")
    assert engine.get_output("napping") == "awake"
    assert delegated(engine) == before + 1


@pytest.mark.parametrize(
    ("what", "result"),
    [("size", "x" * 100_000 + "1"), ("actor", "made"), ("variable", 8), ("default", 7), ("nothing", 1)],
)
def test_what_only_the_engine_has_is_had_there(engine: Engine, what: str, result: object) -> None:
    before = delegated(engine)
    park(engine, away.asking.bind(what), what)
    wake(engine, what)
    has(engine, what, "succeeded")
    assert engine.get_output(what) == result
    assert delegated(engine) == before + (what in ("default", "nothing"))


def test_refs_are_made_there(engine: Engine) -> None:
    park(engine, away.asking.bind("ref"), "ref")
    wake(engine, "ref", 12)
    has(engine, "ref", "succeeded")
    assert engine.get_output("ref").get() == 12


@pytest.mark.parametrize("what", ["error", "exit"])
def test_what_it_raises_is_told_by_the_engine(engine: Engine, what: str) -> None:
    park(engine, away.asking.bind(what), what)
    wake(engine, what)
    has(engine, what, "failed")
    raised = [task.error for task in engine.list_tasks(what) if task.error]
    assert len(raised) == 1
    assert ("KeyError" if what == "error" else "SystemExit") in raised[0]


def test_runs_with_a_limit_or_a_place_in_a_queue_are_driven_here(engine: Engine) -> None:
    before = delegated(engine)
    engine.run_async(away.patient.bind("timed"), name="timed", timeout=600)
    engine.run_async(away.patient.bind("first"), name="first", priority=1)
    until(lambda: all(hub_of(engine).is_parked(id_of(engine, name)) for name in ("timed", "first")))
    for name in ("timed", "first"):
        wake(engine, name)
        has(engine, name, "succeeded")
    assert delegated(engine) == before


PRINTING = """
    from pathlib import Path
    from onceflow import Engine, fiber, wait_event
    from onceflow.fibers import call

    print("imported")

    @fiber
    async def patient(greeting):
        number = await call(wait_event("number", int))
        return f"{greeting} {number}"

    if __name__ == "__main__":
        with Engine("home", workers=1) as engine:
            id = engine.run_async(patient.bind("hello"), name="printing").id
            while not engine._hub.is_parked(id):
                pass
        with Engine("home", workers=1, recover=True) as engine:
            while not engine._hub.is_parked(id):
                pass
            engine.send_event("printing", "nothing", 1)
            while engine.statistics().runs.delegated < 1:
                pass
            engine.send_event("printing", "number", 9)
            while engine.status("printing") != "succeeded":
                pass
            print(engine.get_output("printing"))
"""

SCRIPT = """
    from onceflow import Engine, fiber, wait_event
    from onceflow.fibers import call

    class Greeting:
        def __init__(self, text):
            self.text = text

    @fiber
    async def patient(greeting):
        number = await call(wait_event("number", int))
        return greeting, number

    if __name__ == "__main__":
        with Engine("home", workers=1) as engine:
            id = engine.run_async(patient.bind(Greeting("hello")), name="script").id
            while not engine._hub.is_parked(id):
                pass
            engine.send_event("script", "number", 9)
            while engine.status("script") != "succeeded":
                pass
            greeting, number = engine.get_output("script")
            print(isinstance(greeting, Greeting), greeting.text, number)
"""


def test_fibers_of_a_script_go_on_too(tmp_path: Path) -> None:
    assert run_script(tmp_path, SCRIPT) == "True hello 9\n"


def wake_and_kill(tmp_path: Path, seed: int, count: int, lives: int) -> int:
    """Parked fibers get events while workers, fork servers and engines are killed. Returns how many of them have
    counted each of theirs once."""
    chance = random.Random(seed)
    home, path = tmp_path / "home", str(tmp_path / "trace")
    names = [f"run-{number}" for number in range(count)]
    with Engine(home, workers=1) as engine:
        for name in names:
            engine.run_async(away.counting.bind(path), name=name)
        until(lambda: len(hub_of(engine).parked.parking) == count)
    with Engine(home, workers=1) as sender:
        for life in range(1, lives + 1):
            with started(tmp_path, DRIVING, str(home)) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "here\n"
                before = len(traces(path))
                sender.send_events([(name, "number", life) for name in chance.sample(names, count)])
                enough = before + chance.randrange(1, count)
                until(lambda enough=enough: len(traces(path)) >= enough)
                target = chance.choice(["worker", "worker", "server", "engine", "all"])
                assassinate(process.pid, target, lambda process=process: process.poll() is None)
                if target == "worker":  # and go on
                    until(lambda before=before: len(traces(path)) >= before + count)
        with started(tmp_path, DRIVING, str(home)):
            sender.send_events([(name, "number", -1) for name in names])
            until(lambda: len(sender.list_runs(status="succeeded", limit=count)) == count)
        return sum(sender.get_output(name) == sum(range(1, lives + 1)) for name in names)


def test_each_event_counts_once_whoever_is_killed(tmp_path: Path) -> None:
    assert wake_and_kill(tmp_path, seed=1, count=60, lives=4) == 60


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_each_event_counts_once_whoever_is_killed_for_long(tmp_path: Path, seed: int) -> None:
    assert wake_and_kill(tmp_path, seed, count=200, lives=15) == 200
