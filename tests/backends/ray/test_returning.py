"""Jobs at a station that does not get a worker for them: when they are returned, and where they go. Without a cluster:
what agents would say is said here."""

from __future__ import annotations

import logging
import selectors
from pathlib import Path
from typing import Any

import pytest

from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Ended, Report
from onceflow.backends.ray import messages, nodes, pool
from onceflow.backends.ray.messages import (
    Alone,
    Crowd,
    FromAgent,
    Return,
    Returned,
    Size,
    Start,
    Stop,
    ToAgent,
    Withdraw,
)
from onceflow.backends.ray.nodes import Station
from onceflow.values.functions import Shipped

FUNCTION = "f00d"


class Agent:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[ToAgent] = []
        self.tell = self

    def remote(self, number: int, body: bytes) -> None:
        self.told += messages.to_agent(body)

    def heard(self, kind: type) -> list[Any]:
        """What it has been told of this kind since the last time."""
        found = [message for message in self.told if type(message) is kind]
        self.told = [message for message in self.told if type(message) is not kind]
        return found

    def jobs(self) -> list[int]:
        return [job.token for start in self.heard(Start) for job in start.jobs]


class Cluster:
    """In place of `Stations`."""

    store = keeper = None
    grows = True

    def __init__(self, *args: Any, joined: Any, heard: Any, **options: Any) -> None:
        self.joined = joined
        self.heard = heard

    def close(self) -> None: ...


class Bench:
    """A pool with these stations, each with so many cpus."""

    def __init__(self, folder: Path, *cpus: int) -> None:
        self.reports: list[Report] = []
        self.pool = pool.RayPool(
            "nowhere",
            folder,
            selector=selectors.DefaultSelector(),
            report=self.reports.append,
            preload=(),
            environment={},
            printed=None,
            progressed=lambda _: None,
            died=lambda pid, status: None,
            lost=lambda objects: None,
            variable=lambda token, name, tell: None,
            log_level=logging.INFO,
            store=None,
            silence=1.0,
            until=lambda: None,
        )
        self.pool._shipped[FUNCTION] = Shipped(FUNCTION, "m", "f", 0, b"")
        self.agents = [Agent() for _ in cpus]
        self.stations = [
            Station(str(place), count, agent)
            for place, (count, agent) in enumerate(zip(cpus, self.agents, strict=True))
        ]
        for station in self.stations:
            self.pool._cluster.joined(station)  # type: ignore[attr-defined]

    def say(self, place: int, *said: FromAgent) -> None:
        self.pool._cluster.heard(self.stations[place], list(said))  # type: ignore[attr-defined]
        self.pool.turn()

    def start(self, *tokens: int) -> None:
        for token in tokens:
            self.pool.start(Job(token, FUNCTION, "task", b""))
        self.pool.turn()

    def start_alone(self, place: int, token: int, cpus: float = 1) -> None:
        """Ray has found room for it there."""
        job = Job(token, FUNCTION, "task", b"", cpus=cpus)
        self.pool._give_alone(self.stations[place], job, Alone(f"single-{token}", job))
        self.pool.turn()

    def recalled(self) -> list[list[int]]:
        return [[message.most for message in agent.heard(Return)] for agent in self.agents]

    def given(self) -> list[list[int]]:
        return [agent.jobs() for agent in self.agents]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a worker has waited long enough."""
    monkeypatch.setattr(nodes, "PATIENCE", 0.0)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "Stations", Cluster)


def test_a_job_whose_cpu_another_one_got_that_is_alone_goes_elsewhere_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    assert bench.given() == [[1], []]
    bench.start_alone(0, 2)
    assert bench.recalled() == [[1], []]
    bench.say(0, Returned([1]))
    assert bench.given() == [[], [1]]
    assert bench.recalled() == [[], []]


def test_a_job_waits_for_a_worker_that_is_being_started(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    assert bench.recalled() == [[], []]


@pytest.mark.usefixtures("patience")
def test_a_job_goes_elsewhere_if_no_worker_comes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    assert bench.recalled() == [[1], []]
    bench.pool.turn()
    assert bench.recalled() == [[], []]  # it has not answered yet
    bench.say(0, Returned([1]))
    assert bench.given() == [[1], [1]]
    bench.pool.turn()
    assert bench.agents[0].heard(Size) == [Size(1)]  # and it still wants a worker


@pytest.mark.usefixtures("patience")
def test_what_comes_later_is_not_given_to_a_station_that_gets_no_worker(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2, 2)
    bench.start(1)
    bench.say(0, Crowd(0, 1), Returned([1]))
    bench.say(1, Crowd(1, 0))
    bench.given()
    bench.start(2)
    assert bench.given() == [[], [2]]


@pytest.mark.usefixtures("patience")
def test_if_no_station_gets_a_worker_jobs_go_to_the_first_that_does(tmp_path: Path, monkeypatch: Any) -> None:
    bench = Bench(tmp_path, 2, 2)
    bench.start(1, 2)
    assert bench.given() == [[1], [2]]
    for place in (0, 1):
        bench.stations[place].count(0, 1)
    bench.pool.turn()
    assert bench.recalled() == [[1], [1]]
    bench.say(0, Returned([1]))
    bench.say(1, Returned([2]))
    bench.start(3)
    assert bench.given() == [[], []]
    monkeypatch.setattr(type(bench.pool._singles), "may_fit", True)
    bench.say(1, Crowd(1, 1))
    assert bench.given() == [[], [1]]
    assert [agent.heard(Size) for agent in bench.agents] == [[Size(1)], [Size(1)]]  # none is told to have fewer


@pytest.mark.usefixtures("patience")
def test_a_station_that_gets_fewer_workers_than_it_counts_on_gets_no_more_jobs_than_it_has_workers(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, 2, 1)
    bench.start(1, 2, 3)
    assert bench.given() == [[1, 3], [2]]
    bench.stations[1].count(1, 0)
    bench.say(0, Crowd(1, 1))
    assert bench.recalled() == [[], []]  # nobody could take it
    bench.start(4)
    assert bench.given() == [[], []]
    bench.pool._take(2)
    bench.pool.turn()
    assert bench.given() == [[], [4]]


@pytest.mark.usefixtures("patience")
def test_what_is_short_is_still_given_ahead_to_those_workers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2, 1)
    bench.pool._estimates.learn(FUNCTION, 0.0001)
    bench.stations[0].count(1, 1)
    bench.stations[1].count(1, 0)
    bench.start(*range(1, 9))
    first, second = bench.given()
    assert (sorted(first + second), len(first) > 1) == ([*range(1, 9)], True)
    bench.pool.turn()
    assert bench.recalled() == [[], []]


def test_a_worker_that_has_nothing_to_do_gets_a_job_that_waits_elsewhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    bench.say(1, Crowd(1, 0))
    assert bench.recalled() == [[1], []]
    bench.say(0, Returned([1]))
    assert bench.given() == [[1], [1]]


def test_that_worker_is_not_given_back_meanwhile_even_if_somebody_wants_its_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.stations[1].size = 1
    bench.start(1)
    bench.stations[0].count(0, 1)
    monkeypatch.setattr(type(bench.pool._singles), "may_fit", True)
    bench.say(1, Crowd(1, 0))
    assert bench.agents[1].heard(Size) == []
    bench.say(0, Returned([]))
    assert bench.agents[1].heard(Size) == [Size(0)]


@pytest.mark.usefixtures("patience")
def test_a_station_with_nothing_to_return_is_not_asked_again_until_something_happens(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2, 2)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    bench.say(0, Returned([]))
    assert bench.recalled() == [[1], []]
    bench.say(0, Crowd(0, 2))
    assert bench.recalled() == [[1], []]


@pytest.mark.usefixtures("patience")
def test_a_job_that_came_while_the_station_answered_may_still_be_returned(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2, 2)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    bench.recalled()
    bench.pool._give(bench.stations[0], [Job(2, FUNCTION, "task", b"")])
    bench.say(0, Returned([]))
    assert bench.recalled() == [[2], []]


@pytest.mark.usefixtures("patience")
def test_a_job_that_is_stopped_while_it_is_returned_does_not_start_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    bench.given()
    bench.pool.stop(1)
    bench.say(0, Returned([1]))
    assert bench.agents[0].heard(Stop) == [Stop(1, False)]
    assert bench.given() == [[], []]
    assert bench.reports == [Ended(1, started=False)]


@pytest.mark.usefixtures("patience")
def test_a_job_that_is_withdrawn_while_it_is_returned_does_not_start_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1, 1)
    bench.start(1)
    bench.say(0, Crowd(0, 1))
    bench.given()
    bench.pool.withdraw(1)
    bench.say(0, Returned([1]))
    assert bench.agents[0].heard(Withdraw) == [Withdraw(1)]
    assert bench.given() == [[], []]
    assert bench.reports == [Ended(1, started=False)]


def test_a_job_that_is_alone_needs_no_other_worker(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 2)
    bench.start_alone(0, 1)
    assert bench.agents[0].heard(Size) == []
    bench.start(2)
    assert bench.agents[0].heard(Size) == [Size(1)]
