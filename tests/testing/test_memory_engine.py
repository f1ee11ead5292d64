"""What is particular about the memory engine; what it shares with the real one is in `test_like_an_engine`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import onceflow
from onceflow import Engine, OnceflowError, TaskFailed, current, task
from onceflow.errors import EngineClosed, UnpicklableOutput
from onceflow.handlers import break_, handler
from onceflow.tasks import track
from onceflow.testing import MemoryEngine, use
from tests.testing.common import ROME, charge, trip


@task
def append(items: list[int], item: int) -> list[int]:
    items.append(item)
    return items


@task.pure
def number(value: int) -> int:
    return value


@task
def total(*values: int) -> int:
    return sum(values)


def test_a_run_leaves_no_file_no_thread_and_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    threads = threading.active_count()
    with MemoryEngine() as engine:
        assert engine.run(trip.bind("Rome")) == ROME
        assert threading.active_count() == threads
    assert list(tmp_path.iterdir()) == []


def test_what_a_task_changes_in_its_arguments_nobody_else_sees() -> None:
    given = [1]
    assert MemoryEngine().run(append.bind(append.bind(given, 2), 3)) == [1, 2, 3]
    assert given == [1]


def test_what_cannot_be_pickled_fails_as_it_does_in_a_worker() -> None:
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(make_lock.bind())
    assert isinstance(caught.value.__cause__, UnpicklableOutput)


@task
def make_lock() -> Any:
    return threading.Lock()


def many(engine: MemoryEngine) -> list[str]:
    assert engine.run(total.bind(*[number.bind(value) for value in range(8)])) == 28
    return engine.ran.tasks


def test_the_order_is_always_the_same() -> None:
    assert many(MemoryEngine()) == many(MemoryEngine())


def test_each_seed_has_an_order_of_its_own() -> None:
    assert many(MemoryEngine(seed=1)) == many(MemoryEngine(seed=1))
    assert len({tuple(many(MemoryEngine(seed=seed))) for seed in range(5)}) == 5


def test_runs_of_one_engine_take_turns_with_a_seed() -> None:
    engine = MemoryEngine(seed=1)
    engine.run_many([total.bind(*[number.bind(value) for value in range(3)]) for _ in range(3)])
    runs = [attempt.run for attempt in engine.ran]
    assert runs != sorted(runs)


def test_ids_are_simple_and_keys_known_beforehand() -> None:
    engine = MemoryEngine()
    assert engine.run_async(charge.bind(1, "x")).id == "run-1"
    assert engine.run_async(charge.bind(1, "x")).id == "run-2"


def test_the_module_functions_use_the_engine_of_the_fixture(onceflow_engine: MemoryEngine) -> None:
    assert onceflow.run(trip.bind("Rome"), name="rome") == ROME
    assert onceflow.status("rome") == "succeeded"
    assert [info.name for info in onceflow.runs.list_runs()] == ["rome"]
    onceflow_engine.assert_ran(charge)


def test_an_engine_is_in_use_only_inside_of_its_context() -> None:
    with use(MemoryEngine()) as outer:
        with use(MemoryEngine()) as inner:
            onceflow.run(charge.bind(1, "x"))
        onceflow.run(charge.bind(2, "x"))
    assert [len(outer.ran), len(inner.ran)] == [1, 1]


def test_a_real_engine_can_be_used_in_the_same_way(onceflow_home: Engine) -> None:
    assert onceflow.run(total.bind(1, 2), name="sum") == 3
    assert onceflow_home.status("sum") == "succeeded"
    assert type(onceflow_home) is Engine


def test_a_task_finds_its_own_engine() -> None:
    @task
    def look() -> str:
        return onceflow.status(current().run)

    assert MemoryEngine().run(look.bind()) == "running"


def test_tasks_tell_of_their_progress() -> None:
    @task
    def work() -> int:
        return sum(track(range(3)))

    handle = MemoryEngine().run_async(work.bind())
    assert [str(event.progress) for event in handle if event.kind == "progress"][-1].startswith("3 of 3")


def test_output_of_tasks_is_where_the_test_finds_it(capsys: pytest.CaptureFixture[str]) -> None:
    @task
    def talk() -> None:
        print("hello")

    engine = MemoryEngine()
    engine.run(talk.bind(), name="talk")
    assert capsys.readouterr().out == "hello\n"
    with pytest.raises(OnceflowError, match="capsys"):
        engine.logs("talk")


def test_threads_take_turns() -> None:
    engine = MemoryEngine()
    threads = [threading.Thread(target=engine.run, args=(trip.bind("Rome"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {info.status for info in engine.list_runs()} == {"succeeded"}
    assert engine.ran.times(charge) == 8


def test_ctrl_c_ends_the_test_and_not_the_task_alone(caplog: pytest.LogCaptureFixture) -> None:
    @task(can_rollback=True)
    def wait() -> None:
        raise KeyboardInterrupt

    engine = MemoryEngine()
    with pytest.raises(KeyboardInterrupt):
        engine.run(wait.bind(), name="stopped")
    assert engine.status("stopped") == "interrupted"


def test_a_closed_engine_refuses_runs() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(charge.bind(1, "x"))
    engine.close()
    with pytest.raises(EngineClosed):
        engine.run(charge.bind(1, "x"))
    with pytest.raises(onceflow.errors.RunInterrupted, match="the engine was closed"):
        handle.result()


def test_a_deleted_run_is_gone(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.run(trip.bind("Rome"), name="rome")
    onceflow_engine.delete("rome")
    assert onceflow_engine.list_runs() == []


def test_large_values_survive_a_crash(onceflow_engine: MemoryEngine) -> None:
    @task
    def make() -> bytes:
        return bytes(100_000)

    @task
    def measure(value: bytes) -> int:
        return len(value)

    onceflow_engine.crash_at("measure")
    assert onceflow_engine.run(measure.bind(make.bind())) == 100_000
    onceflow_engine.assert_ran("make", times=1)


def test_the_plugin_imports_nothing_of_onceflow_before_a_fixture_is_used() -> None:
    script = "import sys, _onceflow_pytest; sys.exit('onceflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_fault_that_never_happened_fails_the_test_that_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_typing_error.py").write_text("def test(onceflow_engine): onceflow_engine.crash_at('chrage')\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "crash_at('chrage', when='after effect') never happened. What happened:" in done.stdout


@task.pure(queue="narrow")
def queued() -> int:
    return 1


@task.pure(handlers=[handler(ValueError, break_())])
def break_off() -> int:
    raise ValueError("no")


@task.pure
def both(one: int, two: int) -> int:
    return one + two


@pytest.mark.parametrize("seed", [None, *range(12)])
def test_a_run_that_ends_while_a_task_is_about_to_run_gives_its_place_back(seed):
    with MemoryEngine(seed=seed) as engine:
        engine.queue("narrow", concurrency=1)
        engine.run(both.bind(queued.bind(), break_off.bind()))
        assert not engine.get_queue("narrow").places
