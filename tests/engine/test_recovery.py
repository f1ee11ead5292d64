"""Interrupted runs: engines that are closed or killed, and whoever goes on."""

from __future__ import annotations

import json
import os
import select
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, RetryPolicy, TaskFailed, current, task
from onceflow.errors import NoOutput, NoSuchRun, RunInterrupted
from tests.engine.common import add, keep, pass_door, trace
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until


@task
def trace_key(path: str, door: str | None = None) -> str:
    note(path, json.dumps([current().key, current().attempt, current().run, current().task]))
    if door is not None:
        knock(door)
    return "done"


def cancel(path: str, door: str | None, *, output: str | None, key: str) -> None:
    note(path, json.dumps(["undone", key, output]))


undoable_key = task(rollback=cancel)(trace_key.function)


@task(can_rollback=True, deterministic=True)
def sum_of(*numbers: int) -> int:
    return sum(numbers)


@task(retry=RetryPolicy(2, delay=0.001))
def fail_thrice(path: str, door: str) -> None:
    note(path, "tried")
    if len(traces(path)) == 2:
        knock(door)
    raise ValueError("again")


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in traces(path)]


STARTS = """
    import os, signal, sys
    import onceflow
    from tests.engine.common import *
    from tests.engine.test_recovery import *
"""


def interrupt(home: Path, door: Door, node: Any, **options: Any) -> str:
    """A run that its engine left when one of its tasks stood at the door."""
    engine = Engine(home, workers=1)
    handle = engine.run_async(node, **options)
    door.wait()
    engine.close()
    return handle.id


# -- closing -----------------------------------------------------------------------------------------------------------


def test_whoever_waits_learns_that_the_engine_was_closed(tmp_path: Path, door: Door) -> None:
    # given
    engine = Engine(tmp_path / "home", workers=1)
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    # when
    engine.close()
    # then
    with pytest.raises(RunInterrupted, match="closed") as caught:
        handle.result(60)
    assert caught.value.run == handle.id
    assert list(handle)[-1].kind in ("started", "lost")


def test_a_run_whose_engine_was_closed_is_interrupted_and_goes_on(tmp_path: Path, door: Door) -> None:
    # given
    path = str(tmp_path / "trace")
    saved = trace.bind(path, "once")
    run = interrupt(tmp_path / "home", door, keep.bind([saved, pass_door.options(after=[saved]).bind(door.path)]))
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status(run) == "interrupted"
        assert [info.id for info in engine.list_runs(status="interrupted")] == [run]
        assert engine.list_runs(status="running") == []
        # when
        door.open()
        result = engine.resume(run)
        # then
        assert result == ["once", "through"]
        assert engine.status(run) == "succeeded"
        assert engine.list_runs(status="interrupted") == []
    assert traces(path) == ["once"]


def test_all_interrupted_runs_go_on_oldest_first(tmp_path: Path, door: Door) -> None:
    # given
    engine = Engine(tmp_path / "home", workers=2)
    engine.run(keep.bind(1))
    handles = [engine.run_async(pass_door.bind(door.path, number)) for number in range(3)]
    engine.close()
    # when
    door.open(6)  # some may have been at the door before
    with Engine(tmp_path / "home", workers=2) as engine:
        resumed = engine.resume_all()
        # then
        assert [handle.id for handle in resumed] == [handle.id for handle in handles]
        assert [handle.result(60) for handle in resumed] == [0, 1, 2]
        assert engine.resume_all() == []


def test_failed_runs_are_left_alone_by_resume_all(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(TaskFailed):
            engine.run(task(name="fail")(lambda: 1 // 0).bind())
        assert engine.resume_all() == []


def test_an_engine_that_recovers_goes_on_by_itself_and_waits_at_its_end(tmp_path: Path, door: Door) -> None:
    # given
    run = interrupt(tmp_path / "home", door, pass_door.bind(door.path))
    # when
    door.open()
    with Engine(tmp_path / "home", workers=1, recover=True):
        pass
    # then
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status(run) == "succeeded"
        assert engine.get_output(run) == "through"


def test_resume_async_at_the_end_of_a_block_is_waited_for(tmp_path: Path, door: Door) -> None:
    run = interrupt(tmp_path / "home", door, pass_door.bind(door.path))
    door.open()
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.resume_async(run)
    assert handle.result(0) == "through"


def test_interrupted_runs_can_be_deleted(engine: Engine, home: Path, tmp_path: Path, door: Door) -> None:
    run = interrupt(home, door, pass_door.bind(door.path), name="left")
    engine.delete("left")
    with pytest.raises(NoSuchRun):
        engine.resume(run)


def test_outputs_of_an_interrupted_run_can_be_had_if_they_are_saved(
    engine: Engine, home: Path, tmp_path: Path, door: Door
) -> None:
    saved = keep.bind(b"x" * 100_000)
    run = interrupt(home, door, keep.bind(pass_door.options(after=[saved]).bind(door.path)))
    assert engine.get_output(run, task="keep") == b"x" * 100_000
    with pytest.raises(NoOutput):
        engine.get_output(run)


def test_a_run_that_does_not_exist_cannot_be_resumed(engine: Engine) -> None:
    with pytest.raises(NoSuchRun):
        engine.resume("nobody")
    with pytest.raises(NoSuchRun):
        engine.resume_async("nobody")


def test_resume_of_a_run_that_succeeded_gives_its_result(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")
    engine.run(trace.bind(path, "x"), name="succeeded")
    assert engine.resume("succeeded") == "x"
    assert engine.resume_async("succeeded").result(60) == "x"
    assert traces(path) == ["x"]


def test_resume_of_a_run_that_goes_on_waits_for_it(engine: Engine, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    joined = engine.resume_async(handle.id)
    assert not joined.done()
    door.open()
    assert joined.result(60) == handle.result(60) == "through"


def test_threads_that_resume_one_run_at_once_share_it(engine: Engine, home: Path, tmp_path: Path, door: Door) -> None:
    # given
    path = tmp_path / "trace"
    run = interrupt(home, door, trace_key.bind(str(path), door.path))
    start = threading.Barrier(6)
    with ThreadPoolExecutor(6) as threads:

        def resume() -> Any:
            start.wait()
            return engine.resume(run)

        # when
        futures = [threads.submit(resume) for _ in range(6)]
        door.wait()
        door.open()
        # then
        assert [future.result(60) for future in futures] == ["done"] * 6
    assert len(lines(path)) == 2


def test_threads_of_several_engines_that_resume_one_run_at_once_share_it(tmp_path: Path, door: Door) -> None:
    # given
    path = tmp_path / "trace"
    run = interrupt(tmp_path / "home", door, trace_key.bind(str(path), door.path))
    start = threading.Barrier(9)
    engines = [Engine(tmp_path / "home", workers=1) for _ in range(3)] * 3

    def resume(engine: Engine) -> Any:
        start.wait()
        return engine.resume(run)

    with ThreadPoolExecutor(9) as threads:
        # when
        futures = [threads.submit(resume, engine) for engine in engines]
        door.wait()
        door.open()
        # then
        assert [future.result(60) for future in futures] == ["done"] * 9
    assert len(lines(path)) == 2
    for engine in engines:
        engine.close()


# -- attempts after an interruption ------------------------------------------------------------------------------------


def test_the_key_is_the_same_when_an_irrevocable_task_runs_again(
    engine: Engine, home: Path, tmp_path: Path, door: Door
) -> None:
    # given
    path = tmp_path / "trace"
    run = interrupt(home, door, trace_key.bind(str(path), door.path))
    # when
    door.open()
    engine.resume(run)
    # then
    (key, attempt, *same), (key_again, attempt_again, *same_again) = lines(path)
    assert key == key_again
    assert attempt.startswith("1.")
    assert attempt_again.startswith("2.")
    assert same == same_again == [run, "trace_key"]


def test_an_unfinished_undoable_task_is_undone_before_it_runs_again_with_a_new_key(
    engine: Engine, home: Path, tmp_path: Path, door: Door
) -> None:
    # given
    path = tmp_path / "trace"
    run = interrupt(home, door, undoable_key.bind(str(path), door.path))
    # when
    door.open()
    assert engine.resume(run) == "done"
    # then
    first, undone, second = lines(path)
    assert undone == ["undone", first[0], None]
    assert second[0] != first[0]


def test_unsaved_outputs_are_made_again(engine: Engine, home: Path, tmp_path: Path, door: Door) -> None:
    total = sum_of.options(checkpoint=False).bind(1, 2, keep.bind(3))
    run = interrupt(home, door, add.bind(total, pass_door.options(after=[total]).bind(door.path, 4)))
    door.open()
    assert engine.resume(run) == 10


def test_large_arguments_are_there_after_an_interruption(
    engine: Engine, home: Path, tmp_path: Path, door: Door
) -> None:
    value = os.urandom(200_000)
    run = interrupt(home, door, keep.options(after=[pass_door.bind(door.path)]).bind({"deep": [bytearray(value)]}))
    door.open()
    assert engine.resume(run) == {"deep": [value]}


def test_failures_before_an_interruption_count(engine: Engine, home: Path, tmp_path: Path, door: Door) -> None:
    # given a task that has failed once when its engine is closed during the second attempt
    path = tmp_path / "trace"
    run = interrupt(home, door, fail_thrice.bind(str(path), door.path))
    door.open(4)
    # when
    with pytest.raises(TaskFailed):
        engine.resume(run)
    # then an attempt that was cut off does not count, the failure before it does
    assert len(traces(path)) == 4


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def test_a_run_survives_the_death_of_its_process_right_after_run_async(tmp_path: Path) -> None:
    # given
    script = (
        STARTS
        + """
    handle = onceflow.run_async(trace.bind(sys.argv[1], "x"), name="durable")
    print(handle.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    )
    path = str(tmp_path / "trace")
    with started(tmp_path, script, path) as process:
        id = process.communicate(timeout=60)[0].strip()
    # when
    with Engine(tmp_path / "home", workers=1) as engine:
        status = engine.status(id)
        assert engine.run(trace.bind(path, "x"), name="durable") == "x"
    # then
    assert status in ("interrupted", "succeeded")
    assert traces(path) in (["x"], ["x", "x"])


def test_a_killed_run_is_interrupted_and_resumed_by_the_next_process(tmp_path: Path, door: Door) -> None:
    # given
    path = tmp_path / "trace"
    script = (
        STARTS
        + """
    waiting = pass_door.options(after=[trace_key.bind(sys.argv[1])]).bind(sys.argv[2], 1)
    onceflow.run(add.bind(keep.bind(7), waiting), name="killed")
    """
    )
    with started(tmp_path, script, str(path), door.path) as process:
        door.wait()
        kill(process)
    # when
    door.open(2)
    output = run_script(
        tmp_path,
        """
        import onceflow
        print(onceflow.status("killed"))
        print(onceflow.runs.get_output("killed", task="keep"))
        print(onceflow.resume("killed"))
        print(onceflow.status("killed"))
        """,
        file="other.py",
    )
    # then
    assert output.split() == ["interrupted", "7", "8", "succeeded"]
    assert len(lines(path)) == 1


def test_workers_of_a_killed_process_are_gone_before_its_run_goes_on(tmp_path: Path, door: Door) -> None:
    # given a task that ignores everything it can
    script = (
        STARTS
        + """
    onceflow.run(pass_door.bind(sys.argv[1]), name="killed")
    """
    )
    with started(tmp_path, script, door.path) as process:
        worker = os.pidfd_open(door.wait())
        kill(process)
    # when
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.resume_async("killed")
        door.wait()
        # then the old worker has ended before the new attempt has begun
        assert select.select([worker], [], [], 0)[0]
        door.open()
        assert handle.result(60) == "through"
    os.close(worker)


def test_a_resumed_run_can_be_interrupted_again_and_again(tmp_path: Path, door: Door) -> None:
    # given
    path = tmp_path / "trace"
    run = interrupt(tmp_path / "home", door, trace_key.bind(str(path), door.path))
    # when
    for _ in range(3):
        engine = Engine(tmp_path / "home", workers=1)
        engine.resume_async(run)
        door.wait()
        engine.close()
    door.open()
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.resume(run) == "done"
    # then
    assert [line[1].split(".")[0] for line in lines(path)] == ["1", "2", "3", "4", "5"]
    assert len({line[0] for line in lines(path)}) == 1


def test_a_handle_of_a_run_that_another_process_drives_follows_it_when_that_dies(tmp_path: Path, door: Door) -> None:
    # given
    script = (
        STARTS
        + """
    onceflow.run(pass_door.bind(sys.argv[1]), name="killed")
    """
    )
    with started(tmp_path, script, door.path) as process, Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        handle = engine.resume_async("killed")
        assert engine.status("killed") == "running"
        # when
        kill(process)
        door.wait()
        # then
        assert until(lambda: engine.active == [handle.id])
        door.open(2)
        assert handle.result(60) == "through"
