"""Why a task does not run, in words."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from onceflow import Engine, RetryPolicy, task
from onceflow.engine.inspect import task_info
from onceflow.engine.runtime.live_info import Insight, Look
from tests.core.building import Drive, graph
from tests.engine.common import pass_door
from tests.helpers.doors import Door
from tests.helpers.waiting import until


class Known(Insight):
    """What a test says that the workers do."""

    def __init__(self, looks: dict[int, Look | None] | None = None, until_retry: float | None = None) -> None:
        self._looks = looks or {}
        self._until_retry = until_retry

    def look(self, attempt: int) -> Look | None:
        return self._looks.get(attempt)

    def until_retry(self, node: str) -> float | None:
        return self._until_retry

    def why_not_begun(self) -> str:
        return ""

    def why_not_admitted(self, node: str) -> str:
        return f"waits for the queue of {node}"


def begun(text: str) -> Drive:
    drive = Drive(graph(text))
    drive.begin()
    return drive


class Called:
    """Stands for what the tasks of these graphs would call."""

    version = ""


def told(drive: Drive, node: str, insight: Insight | None = None) -> tuple[str, str]:
    row = drive.run.rows[node]
    row.node = msgspec.structs.replace(row.node, call=Called)
    info = task_info.describe_row(row, drive.run, {}, insight or Known())
    return info.state, info.reason


def test_what_others_have_not_given():
    drive = begun("a pure; b pure; c pure a b")
    assert told(drive, "c") == ("waiting", "waits for a and b")
    drive.finish("b")
    assert told(drive, "c") == ("waiting", "waits for a")


def test_many_others_are_counted():
    drive = begun("; ".join(f"p{n} pure" for n in range(9)) + "; z pure " + " ".join(f"p{n}" for n in range(9)))
    assert told(drive, "z") == ("waiting", "waits for p0, p1, p2 and 6 others")


@pytest.mark.parametrize("kind", ["default", "undoable"])
def test_the_save_of_what_it_reads(kind):
    drive = begun(f"a kept; x {kind} a; z kept x")
    drive.finish("a")
    assert told(drive, "x") == ("ready", "waits for the save of a")
    drive.save("a")
    assert drive.run.rows["x"].state == "running"


@pytest.mark.parametrize("kind", ["default", "undoable"])
def test_a_save_further_up(kind):
    drive = begun(f"a kept; b pure a; c pure b; x {kind} c; z kept x")
    drive.finish("a", "b", "c")
    assert told(drive, "x") == ("ready", "waits for the save of a")


def test_another_task_that_has_to_be_done_first():
    """`a` is not saved: it counts as settled only when all that read it are."""
    drive = begun("a loose; s kept a; t kept a; n default s; z kept n t")
    drive.finish("a")
    drive.complete("s")
    assert told(drive, "n") == ("ready", "waits until t is done")
    drive.finish("t")
    assert told(drive, "n") == ("ready", "waits for the save of t")
    drive.save("t")
    assert drive.run.rows["n"].state == "running"


def test_the_save_of_the_one_that_returned_it():
    drive = begun("a kept; z kept a")
    drive.finish("a", graph=graph("n default"))
    assert told(drive, "a/n") == ("ready", "waits for the save of a, which returned it")


def test_an_earlier_attempt_that_has_not_ended():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    assert told(drive, "u") == ("undoing", "waits until its last attempt has ended")
    drive.end("u")
    assert told(drive, "u") == ("undoing", "")


def test_the_journal_that_has_to_know_of_its_start():
    drive = begun("n default")
    assert told(drive, "n") == ("ready", "waits until the journal has its start")


def test_a_worker_or_room():
    drive = begun("a pure")
    attempt = drive.running["a"]
    assert told(drive, "a", Known({attempt: Look()})) == ("ready", "waits for a worker")
    assert told(drive, "a", Known({attempt: Look(needs="4 cpus")})) == ("ready", "waits for 4 cpus")
    assert told(drive, "a", Known({attempt: Look(started=1.0)})) == ("running", "")


def test_its_next_attempt():
    drive = begun("a pure,retries=3; z kept a")
    drive.raises("a")
    assert told(drive, "a", Known(until_retry=3.2)) == ("retrying", "raised once, is tried again in 3 s")
    drive.elapse("a")
    drive.raises("a")
    assert told(drive, "a", Known(until_retry=0.2))[1] == "raised 2 times, is tried again in less than a second"
    assert told(drive, "a", Known(until_retry=600))[1].endswith("in 10 min")
    assert told(drive, "a", Known(until_retry=10_000))[1].endswith("in 3 h")


def test_the_end_of_a_run_that_is_stopped():
    drive = begun("a kept; n default a; m default; z kept n m")
    drive.finish("a")
    drive.cancel()
    assert told(drive, "n") == ("ready", "does not start: the run is being stopped")


def test_an_undo_and_those_that_wait_for_it():
    # given a failure that makes an undone saga of a run
    drive = Drive(
        graph("u undoable; v undoable u; k kept v; f kept k; a kept; n default a; z kept f n"), on_failure="undo"
    )
    drive.begin()
    drive.complete("u", "v", "k")
    drive.finish("a")
    drive.raises("f", permanent=True)
    drive.save("a")
    # then what was done last is taken back first
    assert told(drive, "v") == ("undoing", "")
    assert told(drive, "u") == ("undoing", "waits for its turn to be taken back")
    assert told(drive, "k") == ("undoing", "waits until others have been taken back")
    assert told(drive, "n") == ("ready", "waits until others have been taken back")
    drive.undo_fails("v")
    assert told(drive, "v", Known(until_retry=5)) == ("undoing", "its rollback raised, is tried again in 5 s")


def test_a_rollback_that_keeps_failing():
    drive = begun("u undoable; z kept u")
    drive.raises("u", permanent=True)
    while "u" in drive.undos:
        drive.undo_fails("u")
        if "u" in drive.waits:
            drive.elapse("u")
    assert told(drive, "u") == ("undoing", "its rollback keeps failing: the run waits for a person")


# -- in a real engine --------------------------------------------------------------------------------------------------


@task(cpus=1000.0)
def greedy(path: str) -> str:
    return "fed"


@task(retry=RetryPolicy(3, delay=1000))
def never(number: int) -> int:
    raise ValueError(f"not {number}")


def reason(engine: Engine, run: str, id: str) -> str:
    return next(info.reason for info in engine.list_tasks(run) if info.id == id)


def test_an_engine_tells_of_busy_workers_and_of_missing_room(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        first = engine.run_async(pass_door.bind(door.path))
        door.wait()
        second = engine.run_async(pass_door.bind(door.path))
        until(lambda: reason(engine, second.id, "pass_door") == "waits for a free worker (1 of 1 busy)")
        door.open(2)
        assert [first.result(60), second.result(60)] == ["through"] * 2
    with Engine(tmp_path / "home", workers=2) as engine:
        first = engine.run_async(pass_door.bind(door.path))
        door.wait()
        second = engine.run_async(greedy.bind("x"))
        until(lambda: reason(engine, second.id, "greedy") == "waits for 1000 cpus")
        door.open()
        assert second.result(60) == "fed"


def test_an_engine_tells_when_a_task_is_tried_again(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "home", workers=1)
    handle = engine.run_async(never.bind(3))
    until(lambda: reason(engine, handle.id, "never").startswith("raised once, is tried again in "))
    assert reason(engine, handle.id, "never").endswith(" min")
    engine.close()


def test_who_asks_for_a_place_is_told_what_it_waits_for():
    assert told(begun("a default,asks"), "a") == ("ready", "waits for the queue of a")
