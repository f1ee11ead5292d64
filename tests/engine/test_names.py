"""Names are idempotency keys: one name, one graph, one result, one effect."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, TaskFailed, task, workflow
from onceflow.errors import InvalidOption, NameTaken, NoSuchRun, RunActive
from tests.engine.common import add, double, fail_while, keep, pass_door, trace
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import kill, started
from tests.helpers.traces import note, traces


@task
def trace_and_pass(path: str, door: str) -> str:
    note(path, "here")
    pass_door(door)
    return "through"


@workflow
def greet(name: str) -> str:
    return keep.bind(f"hello {name}")


def test_the_second_run_of_a_name_gets_the_stored_result(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    # when
    results = [engine.run(trace.bind(path, "x"), name="second run") for _ in range(3)]
    # then
    assert results == ["x"] * 3
    assert traces(path) == ["x"]
    assert len(engine.list_runs(name="second run")) == 1


def test_a_stored_large_result_is_returned(engine: Engine) -> None:
    results = [engine.run(keep.bind(b"x" * 200_000), name="large") for _ in range(2)]
    assert results[0] == results[1] == b"x" * 200_000


def test_a_stored_result_of_several_parts_is_returned(engine: Engine) -> None:
    pair = task(num_returns=2, name="pair")(lambda: (1, b"x" * 100_000))
    results = [engine.run(pair.bind(), name="parts") for _ in range(2)]
    assert results[0] == results[1] == (1, b"x" * 100_000)


def test_a_stored_result_of_one_part_is_returned(engine: Engine) -> None:
    pair = task(num_returns=2, name="pair")(lambda: (1, 2))
    results = [engine.run(pair.bind()[1], name="one part") for _ in range(2)]
    assert results == [2, 2]


def test_a_stored_result_of_a_pure_task_is_returned(engine: Engine) -> None:
    assert [engine.run(double.bind(4), name="pure") for _ in range(2)] == [8, 8]


def test_a_stored_result_of_a_returned_graph_is_returned(engine: Engine) -> None:
    nested = task(name="nested")(lambda number: add.bind(number, 1))
    assert [engine.run(nested.bind(4), name="nested") for _ in range(2)] == [5, 5]


def test_a_stored_result_that_is_none_is_returned(engine: Engine) -> None:
    assert [engine.run(keep.bind(None), name="none") for _ in range(2)] == [None, None]


def test_other_arguments_under_a_used_name_are_refused(engine: Engine) -> None:
    engine.run(add.bind(1, 2), name="other arguments")
    with pytest.raises(NameTaken) as caught:
        engine.run(add.bind(1, 3), name="other arguments")
    assert caught.value.name == "other arguments"
    assert caught.value.run == engine.list_runs(name="other arguments")[0].id


def test_another_task_under_a_used_name_is_refused(engine: Engine) -> None:
    engine.run(keep.bind(1), name="other task")
    with pytest.raises(NameTaken):
        engine.run(double.bind(1), name="other task")


def test_other_options_under_a_used_name_are_refused(engine: Engine) -> None:
    engine.run(keep.bind(1), name="other options")
    with pytest.raises(NameTaken):
        engine.run(keep.options(deterministic=True).bind(1), name="other options")


def test_another_graph_is_refused_by_run_async_too(engine: Engine) -> None:
    engine.run(keep.bind(1), name="refused by async")
    with pytest.raises(NameTaken):
        engine.run_async(keep.bind(2), name="refused by async")


def test_another_graph_is_refused_while_the_name_runs(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path), name="refused while running")
    door.wait()
    with pytest.raises(NameTaken):
        engine.run(keep.bind(2), name="refused while running")
    door.open()
    assert handle.result(60) == "through"


def test_arguments_that_are_equal_are_the_same_graph(engine: Engine) -> None:
    one = engine.run(keep.bind({"a": 1, "b": [2, (3, None)]}), name="equal")
    two = engine.run(keep.bind({"b": [2, (3, None)], "a": 1}), name="equal")
    assert one == two


def test_a_set_is_the_same_whatever_its_order(engine: Engine) -> None:
    one = engine.run(keep.bind({"x", "y", "z"}), name="set")
    assert engine.run(keep.bind({"z", "x", "y"}), name="set") == one


def test_workflows_have_names_too(engine: Engine) -> None:
    assert [engine.run(greet.bind("ann"), name="greeting") for _ in range(2)] == ["hello ann"] * 2
    with pytest.raises(NameTaken):
        engine.run(greet.bind("bob"), name="greeting")


@pytest.mark.parametrize("name", ["", 3, b"x"])
def test_a_name_is_a_text(engine: Engine, name: Any) -> None:
    with pytest.raises(TypeError, match="not empty"):
        engine.run(keep.bind(1), name=name)


@pytest.mark.parametrize("name", ["a/b", "ä ö\n", "..", "%", "x" * 500, "'; drop table runs; --"])
def test_any_text_is_a_name(engine: Engine, name: str) -> None:
    assert [engine.run(keep.bind(b"x" * 100_000), name=name) for _ in range(2)] == [b"x" * 100_000] * 2
    assert engine.status(name) == "succeeded"
    assert [info.name for info in engine.list_runs(name=name)] == [name]


def test_threads_that_use_one_name_at_once_share_one_run(engine: Engine, tmp_path: Path) -> None:
    # given
    path, start = str(tmp_path / "trace"), threading.Barrier(8)

    def use() -> str:
        start.wait()
        return engine.run(trace.bind(path, "x"), name="threads")

    # when
    with ThreadPoolExecutor(8) as threads:
        results = [future.result(60) for future in [threads.submit(use) for _ in range(8)]]
    # then
    assert results == ["x"] * 8
    assert traces(path) == ["x"]


def test_a_thread_waits_for_the_run_that_another_one_started(engine: Engine, tmp_path: Path, door: Door) -> None:
    # given
    node = trace_and_pass.bind(str(tmp_path / "trace"), door.path)
    first = engine.run_async(node, name="joined")
    door.wait()
    # when
    second = engine.run_async(node, name="joined")
    door.open()
    # then
    assert second.result(60) == first.result(60) == "through"
    assert first.id == second.id
    assert traces(tmp_path / "trace") == ["here"]


def test_two_engines_that_use_one_name_share_one_run(engine: Engine, home: Path, tmp_path: Path, door: Door) -> None:
    # given
    node = trace_and_pass.bind(str(tmp_path / "trace"), door.path)
    with Engine(home, workers=1) as other:
        first = engine.run_async(node, name="two engines")
        door.wait()
        # when
        second = other.run_async(node, name="two engines")
        door.open()
        # then
        assert second.result(60) == first.result(60) == "through"
        assert traces(tmp_path / "trace") == ["here"]


def test_a_failed_run_is_resumed_under_its_name(engine: Engine, tmp_path: Path) -> None:
    # given
    fault, path = tmp_path / "fault", str(tmp_path / "trace")
    fault.touch()
    saved = trace.bind(path, "once")
    node = keep.bind([saved, fail_while.options(after=[saved]).bind(str(fault))])
    with pytest.raises(TaskFailed):
        engine.run(node, name="failed")
    # when
    fault.unlink()
    result = engine.run(node, name="failed")
    # then
    assert result == ["once", "mended"]
    assert traces(path) == ["once"]
    assert len(engine.list_runs(name="failed")) == 1


def test_threads_that_resume_a_failed_name_at_once_share_one_attempt(engine: Engine, tmp_path: Path) -> None:
    # given
    fault, path = tmp_path / "fault", str(tmp_path / "trace")
    fault.touch()
    node = fail_while.bind(str(fault), path)
    with pytest.raises(TaskFailed):
        engine.run(node, name="failed at once")
    fault.unlink()
    start = threading.Barrier(6)

    def use() -> str:
        start.wait()
        return engine.run(node, name="failed at once")

    # when
    with ThreadPoolExecutor(6) as threads:
        results = [future.result(60) for future in [threads.submit(use) for _ in range(6)]]
    # then
    assert results == ["mended"] * 6
    assert traces(path) == ["tried", "tried"]


def test_a_deleted_run_frees_its_name(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    engine.run(trace.bind(path, "x"), name="deleted")
    # when
    engine.delete("deleted")
    # then
    with pytest.raises(NoSuchRun):
        engine.status("deleted")
    assert engine.run(trace.bind(path, "y"), name="deleted") == "y"
    assert traces(path) == ["x", "y"]


def test_a_deleted_run_leaves_no_blobs(engine: Engine, home: Path) -> None:
    # given
    engine.run(keep.bind(b"x" * 200_000), name="blobs")
    id = engine.list_runs(name="blobs")[0].id
    assert (home / "blobs" / id).exists()
    # when
    engine.delete(id)
    # then
    assert not (home / "blobs" / id).exists()


def test_a_run_that_goes_on_cannot_be_deleted(engine: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(pass_door.bind(door.path), name="active")
    door.wait()
    # when
    with pytest.raises(RunActive) as caught:
        engine.delete("active")
    # then
    assert caught.value.run == handle.id
    door.open()
    assert handle.result(60) == "through"
    engine.delete("active")


def test_a_run_that_goes_on_in_another_engine_cannot_be_deleted(engine: Engine, home: Path, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    with Engine(home, workers=1) as other, pytest.raises(RunActive):
        other.delete(handle.id)
    door.open()
    assert handle.result(60) == "through"


def test_a_failed_run_can_be_deleted(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "fault").touch()
    with pytest.raises(TaskFailed) as caught:
        engine.run(fail_while.bind(str(tmp_path / "fault")))
    engine.delete(caught.value.run)
    assert caught.value.run not in [info.id for info in engine.list_runs(limit=1000)]


def test_what_is_not_there_cannot_be_deleted(engine: Engine) -> None:
    with pytest.raises(NoSuchRun) as caught:
        engine.delete("nobody")
    assert caught.value.run == "nobody"


def test_a_name_that_runs_in_another_process_is_waited_for(tmp_path: Path, door: Door) -> None:
    # given a process that runs it
    script = """
        import sys
        import onceflow
        from tests.engine.test_names import trace_and_pass

        print(onceflow.run(trace_and_pass.bind(sys.argv[1], sys.argv[2]), name="shared"))
    """
    path = str(tmp_path / "trace")
    with started(tmp_path, script, path, door.path) as process:
        door.wait()
        # when
        with Engine(tmp_path / "home", workers=1) as engine:
            handle = engine.run_async(trace_and_pass.bind(path, door.path), name="shared")
            assert handle.status == "running"
            assert not handle.done()
            door.open()
            # then
            assert handle.result(60) == "through"
        assert process.communicate(timeout=60)[0] == "through\n"
    assert traces(path) == ["here"]


def test_a_name_whose_process_is_killed_is_taken_over_by_whoever_waits(tmp_path: Path, door: Door) -> None:
    # given
    script = """
        import sys
        import onceflow
        from tests.engine.test_names import trace_and_pass

        onceflow.run(trace_and_pass.bind(sys.argv[1], sys.argv[2]), name="shared")
    """
    path = str(tmp_path / "trace")
    with started(tmp_path, script, path, door.path) as process, Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        handle = engine.run_async(trace_and_pass.bind(path, door.path), name="shared")
        # when
        kill(process)
        # then the task, which is irrevocable and was begun, runs again here
        door.wait()
        door.open(2)
        assert handle.result(60) == "through"
    assert traces(path) == ["here", "here"]


def test_how_a_run_takes_failure_holds_until_its_end(engine: Engine, tmp_path: Path) -> None:
    graph = fail_while.bind(str(tmp_path / "broken"))
    (tmp_path / "broken").touch()
    with pytest.raises(TaskFailed):
        engine.run(graph, name="kept")
    with pytest.raises(InvalidOption, match=r"was started with 'keep'.*now asked for with 'undo'"):
        engine.run(graph, name="kept", on_failure="undo")
    (tmp_path / "broken").unlink()
    assert engine.run(graph, name="kept") == "mended"


@task
def fail_behind(door: str, file: str) -> None:
    note(file, "tried")
    knock(door)
    raise ValueError("no")


def test_who_waits_for_a_run_that_fails_elsewhere_is_told_and_does_not_run_it_again(
    engine: Engine, home: Path, door: Door, tmp_path: Path
) -> None:
    graph = fail_behind.bind(door.path, str(tmp_path / "traces"))
    with Engine(home, workers=1) as other:
        handle = other.run_async(graph, name="fails elsewhere")
        door.wait()
        waiting = engine.run_async(graph, name="fails elsewhere")
        door.open()
        with pytest.raises(TaskFailed) as caught:
            waiting.result()
        with pytest.raises(TaskFailed):
            handle.result()
    assert isinstance(caught.value.__cause__, ValueError)
    assert traces(tmp_path / "traces") == ["tried"]
