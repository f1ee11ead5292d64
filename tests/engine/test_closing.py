"""The life of an engine: blocks, closing, forks, interrupts from the keyboard; and that nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, OnceflowError, TaskFailed, task
from onceflow.errors import EngineClosed, RunInterrupted, StorageError
from tests.engine.common import add, keep, pass_door
from tests.helpers.doors import Door, knock
from tests.helpers.processes import is_running
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.traces import note, traces
from tests.helpers.waiting import LONG, until


@task
def large(door: str) -> bytes:
    knock(door)
    return b"x" * 300_000


@task
def fork_and_wait(path: str) -> str:
    """Leaves a process behind that would live for an hour."""
    child = os.fork()
    if child == 0:
        signal.pause()
    note(path, child)
    return "done"


def children() -> set[int]:
    return {int(child) for thread in os.listdir("/proc/self/task") for child in _children_of(thread)}


def _children_of(thread: str) -> list[str]:
    try:
        return Path(f"/proc/self/task/{thread}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
        return []


def descriptors() -> dict[str, str]:
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
    return found


def left_in(home: Path) -> list[str]:
    return [str(path.relative_to(home)) for name in ("engines", "workers") for path in (home / name).glob("**/*")]


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_the_end_of_a_block_waits_for_its_runs(tmp_path: Path, door: Door) -> None:
    opener = threading.Timer(0.05, door.open)
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(keep.bind(pass_door.bind(door.path)))
        door.wait()
        opener.start()
    assert handle.result(0) == "through"


def test_a_block_that_is_left_by_an_exception_does_not_wait(tmp_path: Path, door: Door) -> None:
    # when
    with contextlib.suppress(ZeroDivisionError), Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(pass_door.bind(door.path))
        door.wait()
        raise ZeroDivisionError
    # then
    with pytest.raises(RunInterrupted):
        handle.result(0)


def test_a_failure_leaves_the_engine_usable(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(TaskFailed):
            engine.run(task(name="fail")(lambda: 1 // 0).bind())
        assert engine.run(add.bind(1, 2)) == 3


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    # given
    engine = Engine(tmp_path / "home", workers=1)
    handle = engine.run_async(keep.bind(1))
    handle.result(60)
    # when
    engine.close()
    engine.close()
    # then
    for ask in (
        lambda: engine.run(add.bind(1, 2)),
        lambda: engine.run_async(add.bind(1, 2)),
        lambda: engine.run_many([add.bind(1, 2)]),
        lambda: engine.resume(handle.id),
        lambda: engine.resume_async(handle.id),
        lambda: engine.resume_all(),
        lambda: engine.status(handle.id),
        lambda: engine.get_output(handle.id),
        lambda: engine.list_runs(),
        lambda: engine.delete(handle.id),
        lambda: handle.status,
    ):
        with pytest.raises(EngineClosed, match="closed"):
            ask()
    assert handle.result(0) == 1
    assert "closed" in repr(engine)


def test_a_large_result_that_has_come_out_can_be_read_after_closing(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        handle = engine.run_async(large.bind(door.path))
        door.open()
    assert handle.result(0) == b"x" * 300_000


def test_threads_that_wait_are_told_when_the_engine_closes(tmp_path: Path, door: Door) -> None:
    # given
    engine = Engine(tmp_path / "home", workers=1)
    caught: list[BaseException] = []

    def use() -> None:
        try:
            engine.run(pass_door.bind(door.path), name="shared")
        except BaseException as error:
            caught.append(error)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    door.wait()
    # when
    engine.close()
    for thread in threads:
        thread.join(LONG)
    # then
    assert len(caught) == 3
    assert all(isinstance(error, OnceflowError) for error in caught)


def test_threads_that_start_runs_while_the_engine_closes_are_not_left_waiting(tmp_path: Path) -> None:
    # given
    engine = Engine(tmp_path / "home", workers=1)
    engine.run(keep.bind(0))
    caught: list[BaseException] = []

    def use() -> None:
        try:
            while True:
                engine.run(keep.bind(1))
        except OnceflowError as error:
            caught.append(error)

    threads = [threading.Thread(target=use, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    # when
    engine.close()
    for thread in threads:
        thread.join(10)
    # then
    assert len(caught) == 8


def test_a_home_is_used_by_one_engine_after_the_other(tmp_path: Path) -> None:
    for number in range(3):
        with Engine(tmp_path / "home", workers=1) as engine:
            assert len(engine.list_runs()) == number
            engine.run(keep.bind(number))


def test_an_engine_that_is_never_used_starts_no_workers(tmp_path: Path) -> None:
    before = children()
    with Engine(tmp_path / "home", workers=2) as engine:
        engine.list_runs()
        assert children() == before


# -- nothing is left ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_after_closing(tmp_path: Path) -> None:
    # given what is opened once in a process
    with Engine(tmp_path / "first", workers=1) as engine:
        engine.run(keep.bind(b"x" * 100_000))
    gc.collect()
    processes, files, threads = children(), descriptors(), threading.active_count()
    # when
    for _ in range(2):
        with Engine(tmp_path / "home", workers=2) as engine:
            assert engine.run(keep.bind(b"x" * 100_000)) == b"x" * 100_000
            engine.run_many([add.bind(1, number) for number in range(10)])
            with pytest.raises(TaskFailed):
                engine.run(task(name="fail")(lambda: 1 // 0).bind())
    gc.collect()
    # then
    assert children() == processes
    assert len(descriptors()) == len(files), (files, descriptors())
    assert threading.active_count() == threads
    assert left_in(tmp_path / "home") == []


def test_nothing_is_left_after_closing_in_the_middle(tmp_path: Path, door: Door) -> None:
    # given
    with Engine(tmp_path / "first", workers=1) as engine:
        engine.run(keep.bind(b"x" * 100_000))
    gc.collect()
    processes, files = children(), descriptors()
    # when
    engine = Engine(tmp_path / "home", workers=2)
    handles = [engine.run_async(pass_door.bind(door.path, number)) for number in range(10)]
    door.wait()
    engine.close()
    del engine, handles
    gc.collect()
    # then
    assert children() == processes
    assert len(descriptors()) == len(files), (files, descriptors())
    assert left_in(tmp_path / "home") == []


def test_nothing_is_left_when_an_engine_cannot_be_opened(tmp_path: Path) -> None:
    # given
    home = tmp_path / "home"
    home.mkdir()
    (home / "journal.db").write_bytes(b"this is not a database" * 1000)
    files, threads = len(descriptors()), threading.active_count()
    # when
    for _ in range(3):
        with pytest.raises(OnceflowError):
            Engine(home, workers=1)
    gc.collect()
    # then
    assert len(descriptors()) == files
    assert threading.active_count() == threads
    assert left_in(home) == []


def test_what_a_killed_engine_left_is_removed_by_the_next(tmp_path: Path, door: Door) -> None:
    # given
    script = """
        import sys
        import onceflow
        from tests.engine.common import pass_door
        onceflow.run(pass_door.bind(sys.argv[1]), name="x")
    """
    with started(tmp_path, script, door.path) as process:
        door.wait()
        kill(process)
    # when
    door.open()
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.resume("x")
    with Engine(tmp_path / "home", workers=1):
        pass
    # then
    assert left_in(tmp_path / "home") == []


def test_a_process_that_a_task_left_behind_does_not_keep_its_run_from_going_on(tmp_path: Path) -> None:
    # given a killed engine, and a child of one of its workers that lives on
    script = """
        import sys
        import onceflow
        from tests.engine.common import *
        from tests.engine.test_closing import fork_and_wait
        onceflow.run(pass_door.options(after=[fork_and_wait.bind(sys.argv[1])]).bind(sys.argv[2]), name="x")
    """
    door = Door(tmp_path / "door")
    with started(tmp_path, script, str(tmp_path / "trace"), door.path) as process:
        door.wait()
        kill(process)
    # when
    door.open(2)
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.resume("x") == "through"
    # then
    (child,) = traces(tmp_path / "trace")
    until(lambda: not is_running(int(child)))
    door.close()


# -- forks -------------------------------------------------------------------------------------------------------------

FORKS = """
    import os, sys
    import onceflow
    from onceflow import task
    from tests.engine.common import add, keep

    def in_child(act):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                act()
                status = 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_forked_child_has_a_default_engine_of_its_own(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        FORKS
        + """
    print(onceflow.run(add.bind(1, 2), name="parent"))

    def act():
        print(onceflow.run(add.bind(1, 2), name="parent"), onceflow.run(add.bind(2, 2)))
        onceflow.configure()

    in_child(act)
    print(onceflow.run(add.bind(3, 2)), onceflow.status("parent"))
    """,
    )
    assert output.split() == ["3", "3", "4", "5", "succeeded"]
    assert left_in(tmp_path / "home") == []


def test_an_engine_of_the_parent_says_so_in_a_forked_child(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        FORKS
        + """
    engine = onceflow.Engine(workers=1)
    engine.run(keep.bind(1))

    def act():
        for ask in (lambda: engine.run(keep.bind(1)), lambda: engine.run(keep.bind(1), name="x"), engine.list_runs):
            try:
                ask()
            except onceflow.OnceflowError as error:
                print(type(error).__name__)
        engine.close()

    in_child(act)
    print(engine.run(keep.bind(2)), onceflow.Engine().list_runs(status="interrupted"))
    engine.close()
    """,
    )
    assert output.splitlines() == ["EngineClosed"] * 3 + ["2 []"]


def test_a_child_forked_while_a_run_goes_on_does_not_keep_it_alive(tmp_path: Path, door: Door) -> None:
    # given a process with a run, whose forked child lives on when it is killed
    script = (
        FORKS
        + """
    import signal
    from tests.engine.common import pass_door
    onceflow.run_async(pass_door.bind(sys.argv[1]), name="x")
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(60)
        signal.pause()
        os._exit(0)
    print(child, flush=True)
    signal.pause()
    """
    )
    with started(tmp_path, script, door.path) as process:
        door.wait()
        child = int(process.stdout.readline())  # type: ignore[union-attr]
        kill(process)
        # when
        door.open(2)
        with Engine(tmp_path / "home", workers=1) as engine:
            status = engine.status("x")
            # then
            assert status == "interrupted"
            assert engine.resume("x") == "through"
        os.kill(child, signal.SIGKILL)


# -- the keyboard ------------------------------------------------------------------------------------------------------


def test_an_interrupt_from_the_keyboard_leaves_a_run_that_can_be_resumed(tmp_path: Path, door: Door) -> None:
    # given
    script = """
        import sys
        import onceflow
        from tests.engine.common import keep, pass_door
        onceflow.run(keep.bind(pass_door.options(can_rollback=True).bind(sys.argv[1])), name="x")
    """
    with started(tmp_path, script, door.path) as process:
        door.wait()
        # when Ctrl-C reaches the whole process group, workers and all
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LONG)
    # then
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors or "RunInterrupted" in errors
    door.open(2)
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("x") == "interrupted"
        assert engine.resume("x") == "through"
    assert left_in(tmp_path / "home") == []


def test_a_terminated_script_leaves_no_workers(tmp_path: Path, door: Door) -> None:
    script = """
        import sys
        import onceflow
        from tests.engine.common import pass_door
        onceflow.run(pass_door.bind(sys.argv[1]), name="x")
    """
    with started(tmp_path, script, door.path) as process:
        worker = door.wait()
        process.terminate()
        process.wait(LONG)
    until(lambda: not is_running(worker))


def test_a_program_that_ends_with_runs_going_on_warns_and_ends(tmp_path: Path, door: Door) -> None:
    # given
    script = """
        import logging, sys
        import onceflow
        from tests.engine.common import pass_door
        logging.basicConfig()
        onceflow.run_async(pass_door.bind(sys.argv[1]), name="x")
    """
    with started(tmp_path, script, door.path) as process:
        _, errors = process.communicate(timeout=LONG)
    # then
    assert process.returncode == 0
    assert "resume(" in errors
    assert left_in(tmp_path / "home") == []
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("x") == "interrupted"


def test_an_uncaught_exception_does_not_wait_for_runs(tmp_path: Path, door: Door) -> None:
    script = """
        import sys
        import onceflow
        from tests.engine.common import pass_door
        with onceflow.Engine(workers=1) as engine:
            engine.run_async(pass_door.bind(sys.argv[1]), name="x")
            raise SystemExit(3)
    """
    with started(tmp_path, script, door.path) as left:
        left.communicate(timeout=LONG)
    assert left.returncode == 3


def test_each_call_is_safe_from_any_thread(tmp_path: Path) -> None:
    # given
    errors: list[Any] = []
    with Engine(tmp_path / "home", workers=2) as engine:

        def use(number: int) -> None:
            try:
                for turn in range(5):
                    assert engine.run(keep.bind(number), name=f"{number} {turn}") == number
                    assert engine.status(f"{number} {turn}") == "succeeded"
                    assert engine.get_output(f"{number} {turn}") == number
                    engine.list_runs(status=["running", "succeeded"])
                    engine.delete(f"{number} {turn}")
            except BaseException as error:
                errors.append(error)

        # when
        threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        # then
        assert errors == []
        assert engine.list_runs() == []


def test_a_run_that_is_handed_over_after_the_end_of_the_engine_is_not_left_waiting(tmp_path: Path) -> None:
    # given an engine that closes between the last look at it and the handing over
    engine = Engine(tmp_path / "home", workers=1)
    hub = engine._hub
    hub._post = lambda action: (engine.close(), hub._loop.post(action))  # type: ignore[method-assign,assignment]
    # then
    with pytest.raises(OnceflowError, match="closed"):
        engine.run(keep.bind(1))


def test_workers_that_cannot_be_started_are_told_by_the_run(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        (tmp_path / "home" / "workers").touch()
        for _ in range(2):
            with pytest.raises(StorageError, match="workers: it is not a directory"):
                engine.run(keep.bind(1))


def test_who_waits_for_room_is_told_when_the_engine_closes(
    tmp_path: Path, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given runs that wait at a door, and more that are not let in
    monkeypatch.setattr("onceflow.engine.run_graphs.MOST_OPENING", 1)
    monkeypatch.setattr("onceflow.engine.runtime.turn.MOST_WAITING", 1)
    engine = Engine(tmp_path / "home", workers=1)
    results: list[Any] = []
    nodes = [pass_door.bind(door.path) for _ in range(5)]
    thread = threading.Thread(target=lambda: results.extend(engine.run_many(nodes, return_exceptions=True)))
    thread.start()
    door.wait()
    until(lambda: engine._hub._turn.waiting_for_room)
    # when
    engine.close()
    # then
    thread.join(LONG)
    assert len(results) == 5
    assert all(isinstance(result, OnceflowError) for result in results)
