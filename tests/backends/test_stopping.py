"""Stopping jobs: each is proved ended, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.backends.local.messages import HALTED
from onceflow.backends.local.reports import Died, Ended, Finished
from onceflow.errors import Stopped
from tests.backends.common import Gate, Loop, gate, nothing, pass_and_write, pass_gate, running_pool, write_line


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Loop]:
    """A pool of one worker."""
    with running_pool(tmp_path, workers=1) as made:
        yield made


def test_a_queued_job_never_starts(alone: Loop, door: Gate, tmp_path: Path) -> None:
    held = alone.start(pass_gate, door.path)
    door.wait(alone)
    queued = alone.start(write_line, str(tmp_path / "trace"), "started")

    alone.pool.stop(queued)

    assert alone.report(queued) == Ended(queued, started=False)
    door.open()
    assert alone.result(held) == "through"
    assert not (tmp_path / "trace").exists()


def test_what_no_worker_has_started_is_withdrawn_and_what_runs_goes_on(alone: Loop, door: Gate, tmp_path: Path) -> None:
    """Given a job that runs, some behind it in the worker, and one that no worker has."""
    trace = str(tmp_path / "trace")
    alone.learn_that_it_is_short(pass_and_write, "", "", "")
    held = alone.start(pass_and_write, door.path, trace, "held")
    given = [alone.start(pass_and_write, "", trace, str(number)) for number in range(4)]
    door.wait(alone)
    queued = alone.start(write_line, trace, "queued")

    for token in (held, given[1], given[2], queued):
        alone.pool.withdraw(token)
    for token in (given[1], given[2], queued):
        assert alone.report(token) == Ended(token, started=False)
    door.open()

    assert alone.result(held) == "held"
    assert {alone.result(given[0]), alone.result(given[3])} == {"0", "3"}
    assert sorted(Path(trace).read_text().split()) == ["0", "3", "held"]


def test_a_halted_pool_starts_neither_what_is_queued_nor_what_a_worker_was_given(
    alone: Loop, door: Gate, tmp_path: Path
) -> None:
    # given a job that runs, some behind it in the worker, and some that no worker has
    trace = str(tmp_path / "trace")
    alone.learn_that_it_is_short(pass_and_write, "", "", "")
    held = alone.start(pass_and_write, door.path, trace, "held")
    given = [alone.start(pass_and_write, "", trace, str(number)) for number in range(30)]
    door.wait(alone)
    queued = [alone.start(write_line, trace, "queued") for _ in range(3)]

    alone.pool.halt()
    door.open()

    assert alone.result(held) == "held"
    alone.pool.turn()
    reported = {token: alone.reports[token] for token in given if token in alone.reports}
    assert reported == {token: Ended(token, started=False) for token in reported}
    assert not alone.reports.keys() & set(queued)
    assert Path(trace).read_text() == "held\n"


@pytest.mark.parametrize("options", [{}, {"threads": True}], ids=["in the lane", "beside others"])
def test_a_halted_worker_does_not_start_what_it_is_given(alone: Loop, tmp_path: Path, options: dict[str, bool]) -> None:
    (worker,) = alone.warm_up()
    alone.pool._workers[worker].halt()

    job = alone.start(write_line, str(tmp_path / "trace"), "started", **options)

    assert alone.report(job) == Ended(job, started=False)
    assert not (tmp_path / "trace").exists()


def test_a_worker_that_is_born_after_the_pool_was_halted_starts_nothing(alone: Loop, tmp_path: Path) -> None:
    alone.pool.halt()

    (worker,) = alone.warm_up()

    assert alone.pool._workers[worker]._numbers[HALTED] == 1


def test_a_running_job_is_ended_with_its_worker_and_another_worker_takes_its_place(alone: Loop, door: Gate) -> None:
    held = alone.start(pass_gate, door.path)
    first = door.wait(alone)

    alone.pool.stop(held)

    assert alone.report(held) == Ended(held, started=True)
    second = alone.report(alone.start(nothing))
    assert isinstance(second, Finished)
    assert second.worker != first
    assert alone.pool.statistics().deaths == 0


def test_the_jobs_behind_a_stopped_one_run_once_each(alone: Loop, door: Gate, tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    alone.learn_that_it_is_short(pass_and_write, "", "", "")
    held = alone.start(pass_and_write, door.path, trace, "held")
    others = [alone.start(pass_and_write, "", trace, str(number)) for number in range(30)]
    door.wait(alone)

    alone.pool.stop(held)

    assert [alone.result(token) for token in others] == [str(number) for number in range(30)]
    assert alone.report(held) == Ended(held, started=True)
    assert sorted(map(int, Path(trace).read_text().split())) == list(range(30))


def test_a_job_behind_a_running_one_is_stopped_without_harm_to_that_one(
    alone: Loop, door: Gate, tmp_path: Path
) -> None:
    trace = str(tmp_path / "trace")
    alone.learn_that_it_is_short(pass_and_write, "", "", "")
    held = alone.start(pass_and_write, door.path, trace, "held")
    behind = alone.start(pass_and_write, "", trace, "behind")
    door.wait(alone)

    alone.pool.stop(behind)

    assert alone.report(behind) == Ended(behind, started=False)
    door.open()
    assert alone.result(held) == "held"
    assert Path(trace).read_text() == "held\n"


def test_a_job_that_has_ended_is_reported_as_it_ended(alone: Loop) -> None:
    token = alone.start(nothing)
    alone.pool.turn()
    alone.until(lambda: alone.pool.statistics().taken == 1 or token in alone.reports)

    alone.pool.stop(token)

    assert isinstance(alone.report(token), Finished | Ended)
    alone.pool.stop(token)  # known no more
    assert alone.call(nothing) is None


def test_a_worker_that_does_not_answer_is_killed(alone: Loop, door: Gate, tmp_path: Path) -> None:
    alone.learn_that_it_is_short(_be_deaf, "")
    deaf = alone.start(_be_deaf, door.path)
    others = [alone.start(_be_deaf, "") for _ in range(3)]
    door.wait(alone)

    alone.pool.stop(deaf, now=True)

    assert alone.report(deaf) == Ended(deaf, started=True)
    assert [alone.result(token) for token in others] == ["hears"] * 3


def _be_deaf(path: str) -> str:
    if path:
        _announce(path)
        ctypes.PyDLL(None).sleep(60)  # does not release the interpreter lock
    return "hears"


def test_an_async_job_is_cancelled_and_others_of_the_worker_go_on(alone: Loop, tmp_path: Path, door: Gate) -> None:
    waiting = alone.start(_wait_for_ever, door.path, is_async=True)
    pid = door.wait(alone)
    other = alone.start(pass_gate, door.path, threads=True)
    door.wait(alone)

    alone.pool.stop(waiting)

    assert alone.report(waiting) == Ended(waiting, started=True)
    door.open()
    report = alone.report(other)
    assert isinstance(report, Finished)
    assert report.worker == pid


def test_an_async_job_that_runs_alone_is_cancelled(alone: Loop, door: Gate) -> None:
    waiting = alone.start(_wait_for_ever, door.path, is_async=True, alone=True)
    door.wait(alone)

    alone.pool.stop(waiting)

    assert alone.report(waiting) == Ended(waiting, started=True)


def test_an_async_job_that_is_cancelled_before_its_first_step_is_reported(alone: Loop) -> None:
    alone.warm_up()
    token = alone.start(_return_at_once, is_async=True)
    alone.pool.turn()

    alone.pool.stop(token)

    assert isinstance(alone.report(token), Finished | Ended)


def test_an_async_job_that_ignores_its_cancelling_is_ended_at_once_if_that_is_asked_for(
    alone: Loop, door: Gate
) -> None:
    token = alone.start(_refuse_to_end, door.path, is_async=True)
    door.wait(alone)
    alone.pool.stop(token)
    door.wait(alone)  # it has caught the cancellation

    alone.pool.stop(token, now=True)

    assert alone.report(token) == Ended(token, started=True)


def test_stopping_a_thread_by_force_ends_its_worker_and_tells_what_else_ran_there(
    alone: Loop, door: Gate, tmp_path: Path
) -> None:
    with gate(tmp_path / "other") as other_door:
        thread = alone.start(_wait_whatever_happens, door.path, threads=True)
        door.wait(alone)
        other = alone.start(pass_gate, other_door.path)
        pid = other_door.wait(alone)

        alone.pool.stop(thread)

        assert alone.report(thread) == Ended(thread, started=True)
        assert alone.report(other) == Died((other,), pid, -9)


def _announce(path: str) -> None:
    with open(path + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())


def _wait_whatever_happens(path: str) -> None:
    while True:
        with contextlib.suppress(Stopped):
            pass_gate(path)


async def _wait_for_ever(path: str) -> None:
    _announce(path)
    await asyncio.get_running_loop().create_future()


async def _refuse_to_end(path: str) -> None:
    while True:
        try:
            await _wait_for_ever(path)
        except asyncio.CancelledError:
            continue


async def _return_at_once() -> None:
    pass
