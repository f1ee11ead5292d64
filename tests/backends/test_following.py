"""Jobs that follow another one in its lane and take its output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceflow.backends.local import stragglers
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Died, Ended, Finished, Raised
from onceflow.values import snapshot
from onceflow.values.functions import ship
from tests.backends.common import Loop, gate, pass_gate, running_pool


def double(value: int) -> int:
    return 2 * value


def refuse(value: int) -> int:
    raise ValueError(value)


def pair(value: int) -> tuple[int, int]:
    return value, value + 1


def pass_gate_with(path: str, value: int) -> int:
    pass_gate(path)
    return value


def die(value: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def follow(loop: Loop, leader: int, *functions: Callable[..., Any], part: int = 0) -> list[int]:
    """Has these follow, each with the output of the one before it as its only argument. Returns their tokens."""
    jobs: list[Job] = []
    before = leader
    for function in functions:
        shipped = ship(function)
        loop.pool.ship(shipped)
        loop.count += 1
        empty = snapshot.take(((None,), {}))
        jobs.append(
            Job(
                loop.count,
                shipped.hash,
                function.__name__,
                empty.payload,
                [b""],
                [(0, 0)],
                follows=before,
                fed=[(0, part)],
            )
        )
        before = loop.count
    assert loop.pool.follow(leader, jobs)
    return [job.token for job in jobs]


def make_short(loop: Loop, *functions: Callable[..., Any]) -> None:
    for function in functions:
        loop.pool.ship(ship(function))
        loop.pool._dispatcher.estimates.seconds[ship(function).hash] = 20e-6


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no worker is asked to give anything back."""
    monkeypatch.setattr(stragglers, "OVERDUE", 60.0)


@pytest.mark.usefixtures("patient")
def test_each_job_gets_the_output_of_the_one_before_it_in_the_same_worker(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double)
        leader = loop.start(double, 1)
        first, second = follow(loop, leader, double, double)
        assert [loop.result(token) for token in (leader, first, second)] == [2, 4, 8]
        assert len({loop.reports[token].worker for token in (leader, first, second)}) == 1  # type: ignore[union-attr]


@pytest.mark.usefixtures("patient")
def test_a_part_of_the_output_can_be_taken(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double, pair)
        leader = loop.start(pair, 10, parts=2)
        (follower,) = follow(loop, leader, double, part=1)
        assert loop.result(follower) == 22


@pytest.mark.usefixtures("patient")
def test_behind_a_job_that_raises_nothing_is_started(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double, refuse)
        leader = loop.start(refuse, 1)
        followers = follow(loop, leader, double, double)
        assert isinstance(loop.report(leader), Raised)
        assert [loop.report(token) for token in followers] == [Ended(token, started=False) for token in followers]
        assert loop.call(double, 4) == 8


@pytest.mark.usefixtures("patient")
def test_what_is_not_known_to_be_short_does_not_follow(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double)
        leader = loop.start(double, 1)
        first, second, third = follow(loop, leader, double, pair, double)
        assert loop.result(leader) == 2
        assert loop.result(first) == 4
        assert loop.report(second) == Ended(second, started=False)
        assert loop.report(third) == Ended(third, started=False)


def test_behind_a_job_that_is_not_known_to_be_short_nothing_follows(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double)
        leader = loop.start(pair, 1)
        (follower,) = follow(loop, leader, double)
        assert loop.report(follower) == Ended(follower, started=False)
        assert loop.result(leader) == (1, 2)


def test_a_job_that_is_stopped_before_it_was_given_takes_its_followers_with_it(tmp_path: Path) -> None:
    with running_pool(tmp_path) as loop:
        make_short(loop, double)
        leader = loop.start(double, 1)
        (follower,) = follow(loop, leader, double)
        loop.pool.stop(leader)
        assert loop.report(leader) == Ended(leader, started=False)
        assert loop.report(follower) == Ended(follower, started=False)


def test_what_no_worker_has_can_be_wanted_elsewhere_without_its_followers(tmp_path: Path) -> None:
    with gate(tmp_path / "gate") as door, running_pool(tmp_path, 1) as loop:
        loop.warm_up()
        make_short(loop, double)
        running = loop.start(pass_gate_with, door.path, 5)
        door.wait(loop)
        leader = loop.start(double, 1)
        (follower,) = follow(loop, leader, double)
        others = [loop.start(double, 2), loop.start(double, 3)]
        assert loop.pool.surrender(2) == [leader, others[0]]
        assert loop.report(follower) == Ended(follower, started=False)
        door.open()
        assert [loop.result(running), loop.result(others[1])] == [5, 6]
        assert loop.pool.surrender(2) == []
        assert not {leader, others[0]} & loop.reports.keys()


def test_followers_of_a_job_that_takes_longer_than_expected_are_given_back(tmp_path: Path) -> None:
    with gate(tmp_path / "gate") as door, running_pool(tmp_path, 1) as loop:
        loop.warm_up()
        make_short(loop, double, pass_gate_with)
        leader = loop.start(pass_gate_with, door.path, 5)
        (follower,) = follow(loop, leader, double)
        door.wait(loop)
        assert loop.report(follower) == Ended(follower, started=False)
        door.open()
        assert loop.result(leader) == 5


@pytest.mark.usefixtures("patient")
def test_when_a_follower_kills_its_worker_each_job_is_reported_once(tmp_path: Path) -> None:
    with running_pool(tmp_path, 1) as loop:
        make_short(loop, double, die)
        leader = loop.start(double, 1)
        culprit, last = follow(loop, leader, die, double)
        loop.until(lambda: {leader, culprit, last} <= loop.reports.keys())
        assert isinstance(loop.reports[culprit], Died)
        assert loop.reports[last] == Ended(last, started=False)
        assert isinstance(loop.reports[leader], (Finished, Died))  # what it returned may not have been sent
        assert loop.call(double, 4) == 8


def test_a_job_that_is_on_its_way_can_have_no_followers(tmp_path: Path) -> None:
    with running_pool(tmp_path, 1) as loop:
        leader = loop.start(double, 1)
        assert loop.result(leader) == 2
        assert not loop.pool.follow(leader, [])
