"""Cancelling a run, wherever it is driven; and stopping one from the keyboard."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path

import msgspec
import pytest

from onceflow import Engine, RetryPolicy, RunCancelled, TaskFailed, task
from onceflow.engine.run_commands.cancel import Cancelling, cancel
from onceflow.errors import CodeMissing, RunInterrupted, RunPaused
from onceflow.storage.home import Home
from tests.engine.common import keep, pass_door, trace
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import start_script
from tests.helpers.traces import note, traces
from tests.helpers.waiting import LONG, until


@task.pure
def wait_at(door: str) -> str:
    knock(door)
    return "through"


def give_back(file: str, *, output: str | None) -> None:
    note(file, f"undone {output}")


@task(rollback=give_back)
def book(file: str, door: str | None = None) -> str:
    note(file, "booked")
    if door:
        knock(door)
    return "room"


@task
def pay(file: str, door: str) -> str:
    note(file, "paying")
    knock(door)
    note(file, "paid")
    return "paid"


@task
def after(*values: object) -> int:
    return len(values)


@task
def stubborn(door: str) -> None:
    while True:
        with contextlib.suppress(BaseException):
            knock(door)


def is_done(engine: Engine, run: str, task: str) -> bool:
    return any(info.id == task and info.state == "done" for info in engine.list_tasks(run))


def test_a_task_without_effect_is_stopped_at_once(engine: Engine, door: Door) -> None:
    handle = engine.run_async(after.bind(wait_at.bind(door.path)))
    door.wait()
    assert handle.cancel() == "cancelled"
    assert handle.status == "cancelled"
    with pytest.raises(RunCancelled):
        handle.result()


def test_an_undoable_task_that_has_not_finished_is_taken_back(engine: Engine, door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    handle = engine.run_async(after.bind(book.bind(file, door.path)))
    door.wait()
    assert handle.cancel() == "cancelled"
    assert traces(file) == ["booked", "undone None"]


def test_what_has_finished_stays_unless_undo_is_asked_for(engine: Engine, door: Door, tmp_path: Path) -> None:
    kept, undone = str(tmp_path / "kept"), str(tmp_path / "undone")
    first = engine.run_async(after.bind(book.bind(kept), wait_at.bind(door.path)))
    door.wait()
    until(lambda: is_done(engine, first.id, "book"))
    first.cancel()
    second = engine.run_async(after.bind(wait_at.bind(door.path), book.bind(undone)))
    door.wait()
    until(lambda: is_done(engine, second.id, "book"))
    assert second.cancel(undo=True) == "cancelled"
    assert traces(kept) == ["booked"]
    assert traces(undone) == ["booked", "undone room"]


def kinds(home: Path, run: str) -> list[str]:
    """Of the entries in the journal."""
    with Home(home) as opened, opened.journal.load(run) as loaded:
        return [entry.kind for entry in loaded.entries]


def test_an_irrevocable_task_has_time_to_finish(engine: Engine, home: Path, door: Door, tmp_path: Path) -> None:
    file = str(tmp_path / "traces")
    handle = engine.run_async(after.bind(pay.bind(file, door.path)))
    door.wait()
    cancelled: list[str] = []
    thread = threading.Thread(target=lambda: cancelled.append(engine.cancel(handle.id, grace=60)))
    thread.start()
    until(lambda: "cancelled" in kinds(home, handle.id))
    door.open()
    thread.join()
    assert cancelled == ["cancelled"]
    assert traces(file) == ["paying", "paid"]
    with pytest.raises(RunCancelled) as caught:
        handle.result()
    assert caught.value.uncertain == ()


def test_an_irrevocable_task_that_is_stopped_may_have_happened(engine: Engine, door: Door, tmp_path: Path) -> None:
    handle = engine.run_async(after.bind(pay.bind(str(tmp_path / "traces"), door.path)))
    door.wait()
    assert engine.cancel(handle.id, grace=0) == "cancelled"
    with pytest.raises(RunCancelled, match="May or may not have happened: pay") as caught:
        handle.result()
    assert caught.value.uncertain == ("pay",)


def test_a_task_that_does_not_want_to_stop_is_killed(engine: Engine, door: Door) -> None:
    handle = engine.run_async(stubborn.bind(door.path))
    door.wait()
    assert handle.cancel() == "cancelled"


def test_cancelling_what_has_ended_changes_nothing(engine: Engine) -> None:
    handle = engine.run_async(after.bind(1))
    assert handle.result() == 1
    assert handle.cancel() == "succeeded"


def test_a_cancelled_run_can_be_resumed(engine: Engine, door: Door, tmp_path: Path) -> None:
    handle = engine.run_async(after.bind(trace.bind(str(tmp_path / "t"), "one"), pass_door.bind(door.path, 2)))
    door.wait()
    handle.cancel()
    resumed = engine.resume_async(handle.id)
    door.wait()
    door.open()
    assert resumed.result() == 2
    assert traces(tmp_path / "t") == ["one"]


def test_a_run_that_another_engine_drives_is_cancelled_there(engine: Engine, home: Path, door: Door) -> None:
    with Engine(home, workers=1) as other:
        handle = other.run_async(after.bind(wait_at.bind(door.path)))
        door.wait()
        assert engine.cancel(handle.id) == "cancelled"
        with pytest.raises(RunCancelled):
            handle.result()


def test_an_interrupted_run_is_cancelled_without_going_on(engine: Engine, home: Path, tmp_path: Path) -> None:
    body = """
        import os, signal
        from tests.engine.test_cancelling import after, book
        from onceflow import run_async, task

        @task
        def die(file):
            os.kill(int(open(file).read()), signal.SIGKILL)

        open({pid!r}, "w").write(str(os.getpid()))
        run_async(after.bind(die.bind({pid!r}), book.bind({file!r})), name="killed").result()
    """
    file = tmp_path / "traces"
    process = start_script(tmp_path, body.format(pid=str(tmp_path / "pid"), file=str(file)), ONCEFLOW_HOME=str(home))
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    before = traces(file)
    assert engine.status("killed") == "interrupted"
    assert engine.cancel("killed") == "cancelled"
    assert [line for line in traces(file)[len(before) :] if line == "booked"] == []


def stop_with(count: int, tmp_path: Path, door: Door) -> tuple[str, list[str]]:
    """Runs `pay` in a script, interrupts it so often, and tells what it printed."""
    body = f"""
        import logging
        from tests.engine.test_cancelling import after, pay
        from onceflow import run
        try:
            run(after.bind(pay.bind({str(tmp_path / "traces")!r}, {door.path!r})), name="stopped")
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """
    process = start_script(tmp_path, body)
    door.wait()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping run" not in process.stderr.readline():
        pass
    if count == 1:
        door.open()
    else:
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    return output, traces(tmp_path / "traces")


def test_ctrl_c_lets_what_has_an_effect_finish_and_keeps_it(tmp_path: Path, door: Door) -> None:
    output, left = stop_with(1, tmp_path, door)
    assert output == "stopped\n"
    assert left == ["paying", "paid"]
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("stopped") == "interrupted"
        assert engine.resume("stopped") == 1
    assert traces(tmp_path / "traces") == ["paying", "paid"]


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, door: Door) -> None:
    output, left = stop_with(2, tmp_path, door)
    assert output == "stopped\n"
    assert left == ["paying"]
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("stopped") == "interrupted"


def test_a_handle_of_a_closed_engine_says_that_the_run_was_interrupted(home: Path, door: Door) -> None:
    other = Engine(home, workers=1)
    handle = other.run_async(after.bind(wait_at.bind(door.path)))
    door.wait()
    other.close()
    with pytest.raises(RunInterrupted, match="the engine was closed"):
        handle.result()


SHOP = """
import os
from onceflow import RetryPolicy, task

def give_back(): ...

@task.pure
def look():
    return 1

@task(rollback=give_back)
def book(pid):
    os.kill(pid, 9)

@task(retry=RetryPolicy(1, delay=600))
def pack(number):
    raise ValueError("not now")

@task
def sell(pid, *before):
    os.kill(pid, 9)
"""


def interrupted_sale(folder: Path, node: str) -> None:
    """A run whose engine was killed, and whose module is gone."""
    (folder / "shop.py").write_text(SHOP)
    process = start_script(
        folder, f"import os, onceflow\nfrom shop import *\npid = os.getpid()\nonceflow.run({node}, name='sale')"
    )
    process.communicate(timeout=60)
    (folder / "shop.py").unlink()


@pytest.mark.parametrize(
    "node",
    [
        "sell.bind(pid)",
        "look.options(after=[sell.bind(pid)]).bind()",
        "sell.bind(pid, sell.bind(pid), pack.bind(look.bind()))",
    ],
    ids=["irrevocable", "irrevocable and a consumer", "a retry that waits"],
)
def test_a_run_whose_code_is_gone_can_be_cancelled(tmp_path: Path, node: str) -> None:
    interrupted_sale(tmp_path, node)
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("sale") == "interrupted"
        assert engine.cancel("sale") == "cancelled"
        assert engine.status("sale") == "cancelled"
        with pytest.raises(CodeMissing):
            engine.resume("sale")


def test_a_run_whose_code_is_gone_is_not_cancelled_if_something_has_to_be_taken_back(tmp_path: Path) -> None:
    interrupted_sale(tmp_path, "sell.bind(pid, book.bind(pid))")
    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(CodeMissing, match=r"needs its code, because 'book' has to be taken back") as caught:
            engine.cancel("sale")
        assert caught.value.module == "shop"
        assert engine.status("sale") == "interrupted"


def fail_to_give_back() -> None:
    raise OSError("the hotel does not answer")


@task(rollback=fail_to_give_back, retry=RetryPolicy(0, delay=0.001))
def book_for_ever() -> None:
    raise ValueError("no room")


def test_cancelling_a_paused_run_whose_undo_still_fails_leaves_it_paused(engine: Engine) -> None:
    with pytest.raises(RunPaused) as caught:
        engine.run(book_for_ever.bind())
    assert engine.cancel(caught.value.run) == "paused"
    assert engine.status(caught.value.run) == "paused"


def test_cancelling_a_run_that_ends_and_loses_its_engine_meanwhile_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a run that was cancelled by its own engine, which is gone, while this one still takes it for running
    with Engine(tmp_path / "home", workers=1) as first:
        handle = first.run_async(keep.bind(1))
        handle.result(LONG)
        failed = first.run_async(book_for_nobody.bind())
        with pytest.raises(TaskFailed):
            failed.result(LONG)
    with Engine(tmp_path / "home", workers=1) as engine:
        for run, end in ((handle.id, "succeeded"), (failed.id, "failed")):
            row = engine._home.journal.get_run(run)
            assert row is not None
            stale = msgspec.structs.replace(row, status="running")
            asked = iter([stale])
            real = engine._home.journal.get_run
            monkeypatch.setattr(
                engine._home.journal, "get_run", lambda id, real=real, asked=asked: next(asked, None) or real(id)
            )
            # then
            how = Cancelling()
            assert cancel(stale, how, engine._reach, engine._hub, engine._attaching) == end
            monkeypatch.undo()


@task
def book_for_nobody() -> None:
    raise ValueError("no room")
