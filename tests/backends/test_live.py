"""Large outputs that stay in the memory of their worker until somebody else needs them."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onceflow.backends.local import locality
from onceflow.backends.local.reports import Ended, Finished
from onceflow.data.objects import Object
from tests.backends.common import Gate, Loop, kill, nothing, pass_gate, running_pool
from tests.backends.test_following import follow, make_short, patient  # noqa: F401

MB = 1_000_000


def make(count: int = MB) -> Any:
    return np.arange(count, dtype="f8")


def make_and_tell() -> Any:
    """The array, and where it is."""
    array = np.ones(MB)
    return {"array": array, "address": array.ctypes.data, "pid": os.getpid()}


def look_at(told: dict[str, Any]) -> dict[str, Any]:
    array = told["array"]
    return {
        "same place": array.ctypes.data == told["address"] and os.getpid() == told["pid"],
        "writable": array.flags.writeable,
        "sum": float(array.sum()),
        "pid": os.getpid(),
    }


def total(array: Any) -> float:
    return float(array.sum())


def total_behind_gate(array: Any, path: str) -> float:
    pass_gate(path)
    return float(array.sum())


def give(loop: Loop, function: Any, object: Object, *args: Any) -> int:
    """Starts a job whose first argument is this object."""
    live = {object.live.number: object} if object.place is None else None
    return loop.start(function, None, *args, inputs=[object.where], holes=[(0, 0)], live=live)


def made(loop: Loop, function: Any, *args: Any) -> Object:
    report = loop.report(loop.start(function, *args))
    assert isinstance(report, Finished)
    (part,) = report.parts
    assert isinstance(part, Object)
    return part


# -- what stays --------------------------------------------------------------------------------------------------------


def test_an_array_that_is_nobody_elses_is_read_where_it_was_made(loop: Loop):
    object = made(loop, make_and_tell)
    assert object.place is None
    seen = loop.result(give(loop, look_at, object))
    assert seen["same place"]
    assert not seen["writable"]
    assert seen["sum"] == MB
    assert object.place is None, "nobody needed it elsewhere"


_buffer = np.zeros(MB)


def refill(number: float) -> Any:
    """Returns its only buffer, again and again."""
    _buffer[:] = number
    return _buffer


def refill_and_return_part(number: float) -> Any:
    _buffer[:] = number
    return _buffer[: MB // 2]


_told: list[Any] = []


def keep_reference() -> Any:
    _told.append(np.ones(MB))
    return _told[-1]


@functools.cache
def cached() -> Any:
    return np.ones(MB)


@pytest.mark.parametrize("function", [refill, refill_and_return_part])
def test_of_a_buffer_that_its_function_uses_again_there_is_a_copy(tmp_path: Path, function: Any):
    with running_pool(tmp_path, 1) as loop:
        first = made(loop, function, 1.0)
        second = made(loop, function, 2.0)
        assert loop.result(give(loop, total, first)) * 2 == loop.result(give(loop, total, second))


@pytest.mark.parametrize("function", [keep_reference, cached])
def test_what_somebody_else_could_change_does_not_stay(loop: Loop, function: Any):
    assert made(loop, function).place is not None


def reshaped() -> Any:
    return np.arange(MB).reshape(1000, 1000).T


def nested() -> Any:
    return {"one": [np.ones(MB), np.zeros(10)], "two": bytes(1000)}


@pytest.mark.parametrize("function", [make, reshaped, nested])
def test_all_kinds_of_arrays_stay(loop: Loop, function: Any):
    assert made(loop, function).place is None


def passed_on(array: Any) -> Any:
    return array[10:]


def test_a_slice_of_an_input_is_written(loop: Loop):
    object = made(loop, make)
    report = loop.report(give(loop, passed_on, object))
    assert isinstance(report, Finished)
    assert report.parts[0].place is not None
    assert loop.result(give(loop, total, report.parts[0])) == sum(range(10, MB))


def make_two() -> Any:
    return np.ones(MB), np.zeros(MB)


def test_parts_stay_one_by_one(loop: Loop):
    report = loop.report(loop.start(make_two, parts=2))
    assert isinstance(report, Finished)
    assert [part.place for part in report.parts] == [None, None]
    assert loop.result(give(loop, total, report.parts[0])) == MB


@pytest.mark.usefixtures("patient")
def test_jobs_that_follow_read_what_stays(tmp_path: Path):
    with running_pool(tmp_path, 1) as loop:
        make_short(loop, make_and_tell, look_at)
        leader = loop.start(make_and_tell)
        (follower,) = follow(loop, leader, look_at)
        assert loop.result(follower)["same place"]


# -- where jobs run ----------------------------------------------------------------------------------------------------


def test_a_job_goes_elsewhere_if_its_home_is_busy(loop: Loop, door: Gate):
    # given: two readers of one live object
    object = made(loop, make)
    first = give(loop, total_behind_gate, object, door.path)
    home = door.wait(loop)
    # when: the home of the second is busy
    second = give(loop, total_behind_gate, object, door.path)
    other = door.wait(loop)
    # then
    assert home == object.maker
    assert other != home
    assert object.place is not None
    door.open(2)
    assert loop.result(first) == loop.result(second)


def test_eight_jobs_read_one_live_object(loop: Loop):
    object = made(loop, make)
    tokens = [give(loop, total, object) for _ in range(8)]
    assert {loop.result(token) for token in tokens} == {float(sum(range(MB)))}


def make_behind_gate(count: int, path: str) -> Any:
    pass_gate(path)
    return make(count)


def made_at_both(loop: Loop, door: Gate, *sizes: int) -> list[Object]:
    """A live object of each worker's."""
    tokens = [loop.start(make_behind_gate, size, door.path) for size in sizes]
    for _ in tokens:
        door.wait(loop)
    door.open(len(tokens))
    reports = [loop.report(token) for token in tokens]
    return [part for report in reports if isinstance(report, Finished) for part in report.parts]


def both(one: Any, other: Any) -> int:
    return os.getpid()


def test_a_job_with_live_inputs_of_two_workers_runs_where_more_of_it_is(loop: Loop, door: Gate):
    small, large = made_at_both(loop, door, MB // 2, MB)
    token = loop.start(
        both,
        None,
        None,
        inputs=[small.where, large.where],
        holes=[(0, 0), (1, 1)],
        live={it.live.number: it for it in (small, large)},
    )
    assert loop.result(token) == large.maker
    assert small.place is not None
    assert large.place is None


def test_jobs_that_wait_for_a_worker_are_not_passed_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # given: one worker, which has something that many jobs want to read
    monkeypatch.setattr(locality, "MOST", 2)
    with running_pool(tmp_path, 1) as loop:
        object = made(loop, make)
        make_short(loop, total, nothing)
        loop.pool.paused = True
        waiting = loop.start(nothing)
        readers = [give(loop, total, object) for _ in range(4)]
        # then: as many as may pass do, and the others wait their turn
        assert len(loop.pool._homes.staying) == 2
        loop.pool.paused = False
        for token in (waiting, *readers):
            loop.report(token)


def test_without_homes_everything_is_published(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locality, "STAY", False)
    object = made(loop, make_and_tell)
    assert not loop.result(give(loop, look_at, object))["same place"]
    assert object.place is not None


def test_a_job_that_waits_too_long_at_home_is_published_and_runs_elsewhere(loop: Loop, door: Gate):
    # given: at home a job runs that was taken to be short
    objects = {object.maker: object for object in made_at_both(loop, door, MB, MB)}
    make_short(loop, pass_gate, total)
    before = loop.start(pass_gate, door.path)
    home = door.wait(loop)
    # when
    reader = give(loop, total, objects[home])
    loop.pool.turn()
    assert loop.pool._dispatcher.holders[reader].pid == home
    # then: it is given back, and does not wait for the door
    report = loop.report(reader)
    assert isinstance(report, Finished)
    assert report.worker != home
    door.open()
    assert loop.result(before) == "through"


# -- the end -----------------------------------------------------------------------------------------------------------


def test_what_only_a_dead_worker_had_is_lost(tmp_path: Path, door: Gate):
    lost: list[Object] = []
    with running_pool(tmp_path, 1, lost=lost.extend) as loop:
        object = made(loop, make)
        kill(object.maker)
        token = give(loop, total, object)
        assert loop.report(token) == Ended(token, started=False)
        assert lost == [object]
        assert object.lost


def test_what_was_published_survives_its_maker(loop: Loop):
    object = made(loop, make)
    loop.publish(object)
    kill(object.maker)
    assert loop.result(give(loop, total, object)) == float(sum(range(MB)))
    assert not object.lost


@pytest.mark.usefixtures("patient")
def test_a_job_that_did_not_start_where_its_worker_died_is_answered(tmp_path: Path, door: Gate):
    with running_pool(tmp_path, 1) as loop:
        make_short(loop, pass_gate, total)
        object = made(loop, make)
        before = loop.start(pass_gate, door.path)
        home = door.wait(loop)
        reader = give(loop, total, object)
        loop.pool.turn()
        assert reader in loop.pool._dispatcher.holders
        os.kill(home, signal.SIGKILL)
        assert loop.report(reader) == Ended(reader, started=False)
        loop.report(before)


def test_whoever_waits_for_something_to_be_published_hears_of_its_end(tmp_path: Path):
    answers: list[Any] = []
    with running_pool(tmp_path, 1) as loop:
        object = made(loop, make)
        os.kill(object.maker, signal.SIGSTOP)
        loop.pool.publish(object, answers.append)
        loop.pool.turn()
        kill(object.maker)
        loop.until(lambda: bool(answers))
        assert answers == [None]
        assert object.lost


def test_a_worker_that_is_replaced_leaves_what_only_it_had(loop: Loop):
    object = made(loop, make)
    loop.pool._workers[object.maker].retired = True
    loop.until(lambda: object.maker not in loop.pool._workers)
    assert not object.lost
    assert loop.result(give(loop, total, object)) == float(sum(range(MB)))


def test_a_worker_whose_job_was_stopped_leaves_what_only_it_had(tmp_path: Path, door: Gate):
    with running_pool(tmp_path, 1) as loop:
        object = made(loop, make)
        token = loop.start(pass_gate, door.path)
        door.wait(loop)
        loop.pool.stop(token)
        assert loop.report(token) == Ended(token, started=True)
        assert not object.lost
        assert loop.result(give(loop, total, object)) == float(sum(range(MB)))


def test_a_job_is_stopped_while_what_it_reads_is_published(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(locality, "STAY", False)
    object = made(loop, make)
    os.kill(object.maker, signal.SIGSTOP)
    token = give(loop, total, object)
    loop.pool.stop(token)
    assert loop.report(token) == Ended(token, started=False)
    os.kill(object.maker, signal.SIGCONT)
    loop.until(lambda: object.place is not None)


def own_memory() -> int:
    """Bytes that only this worker has."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty")) * 1024


def test_memory_that_nobody_needs_is_given_back_at_once(tmp_path: Path):
    with running_pool(tmp_path, 1) as loop:
        before = loop.call(own_memory)
        for _ in range(10):
            object = made(loop, make, 10 * MB)
            assert loop.result(give(loop, total, object)) > 0
            loop.reports.clear()
        during = loop.call(own_memory)
        assert during > before + 70 * MB
        assert during < before + 200 * MB
        del object
        loop.until(lambda: loop.call(own_memory) < before + 40 * MB)
