"""Which jobs run at the same time, by what they say they need."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import selectors
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.backends.local.admission import ROUNDING, ROUNDS, Needs
from onceflow.backends.local.messages import Job
from onceflow.backends.local.pending_jobs import LOOK, Queues
from onceflow.backends.local.pool import Pool
from onceflow.backends.local.reports import Died, Ended
from tests.backends.common import Gate, Loop, gate, kill, nothing, pass_gate


class Host(Loop):
    """A loop around a pool with a given capacity."""

    def __init__(self, directory: Path, workers: int, cpus: float | None, memory: int | None) -> None:
        self.selector = selectors.DefaultSelector()
        self.reports = {}
        self.count = 0
        self.pool = Pool(directory, workers, selector=self.selector, report=self._note, cpus=cpus, memory=memory)

    @property
    def capacity(self) -> Needs:
        return self.pool._dispatcher._admission.capacity

    @property
    def queued(self) -> int:
        """Jobs that are not given although the pool had every reason to: a job that needs nothing went to a worker and
        came back in the meantime."""
        assert self.call(_breathe, is_async=True) is None
        return self.pool.statistics().queued


async def _breathe() -> None: ...


@contextlib.contextmanager
def host(directory: Path, workers: int = 2, *, cpus: float | None = None, memory: int | None = None) -> Iterator[Host]:
    made = Host(directory, workers, cpus, memory)
    try:
        made.warm_up()
        yield made
    finally:
        made.pool.close()
        made.selector.close()


@pytest.fixture
def other_door(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path / "other door") as made:
        yield made


def test_a_pool_has_as_many_cpus_as_the_host_but_not_fewer_than_workers(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    with host(tmp_path, workers=1) as loop:
        assert loop.capacity.cpus == cores
    with host(tmp_path, workers=cores + 1) as loop:
        assert loop.capacity.cpus == cores + 1


def test_a_pool_has_the_memory_of_the_host(tmp_path: Path) -> None:
    with host(tmp_path, workers=1) as loop:
        assert loop.capacity.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("needs", [{"cpus": 1.5}, {"memory": 60}])
@pytest.mark.parametrize("threads", [False, True])
def test_jobs_that_need_too_much_together_run_one_after_the_other(
    tmp_path: Path, door: Gate, needs: dict[str, float], threads: bool
) -> None:
    with host(tmp_path, cpus=2, memory=100) as loop:
        held = loop.start(pass_gate, door.path, threads=threads, **needs)
        door.wait(loop)
        waiting = loop.start(nothing, **needs)

        assert loop.queued == 1

        door.open()
        assert loop.result(held) == "through"
        assert loop.result(waiting) is None


@pytest.mark.parametrize("needs", [{"cpus": 1}, {"cpus": 0.1}, {"memory": 50}, {"cpus": 0, "memory": 0}])
def test_jobs_that_fit_together_run_at_the_same_time(tmp_path: Path, door: Gate, needs: dict[str, float]) -> None:
    with host(tmp_path, cpus=2, memory=100) as loop:
        tokens = [loop.start(pass_gate, door.path, **needs) for _ in range(2)]
        assert door.wait(loop) != door.wait(loop)

        door.open(2)
        assert [loop.result(token) for token in tokens] == ["through"] * 2


def test_ten_tenths_of_a_cpu_are_one(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, workers=1, cpus=1) as loop:
        tokens = [loop.start(pass_gate, door.path, threads=True, cpus=0.1) for _ in range(10)]
        for _ in tokens:
            door.wait(loop)
        loop.start(nothing, threads=True, cpus=0.1)

        assert loop.queued == 1
        door.open(10)


def test_a_job_in_a_lane_that_says_nothing_counts_as_one_cpu(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path)
        door.wait(loop)
        waiting = loop.start(nothing, cpus=1.5)

        assert loop.queued == 1
        assert loop.call(nothing, cpus=1) is None

        door.open()
        assert loop.result(waiting) is None


def test_a_job_that_shares_and_says_nothing_counts_as_nothing(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path, threads=True)
        door.wait(loop)

        assert loop.call(nothing, cpus=2) is None
        door.open()


def test_a_job_that_says_it_needs_no_cpu_runs_beside_one_that_needs_all(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path, cpus=2)
        door.wait(loop)

        assert loop.call(nothing, cpus=0) is None
        door.open()


def test_a_job_that_needs_no_memory_runs_beside_one_that_needs_all_of_it(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, memory=100) as loop:
        loop.start(pass_gate, door.path, memory=100)
        door.wait(loop)

        assert loop.call(nothing) is None
        door.open()


def test_a_lane_counts_as_much_as_the_largest_job_in_it(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, workers=1, cpus=2, memory=100) as loop:
        door.open()
        loop.learn_that_it_is_short(pass_gate, door.path)
        lane = [loop.start(pass_gate, door.path, cpus=cpus, memory=60 - cpus) for cpus in (1, 2, 2)]
        loop.start(pass_gate, door.path, threads=True, memory=42)
        beside = loop.start(pass_gate, door.path, threads=True, memory=41)

        loop.pool.turn()

        assert set(loop.pool._dispatcher.holders) == {*lane, beside}
        door.open(5)


@pytest.mark.parametrize("needs", [{"cpus": 3}, {"memory": 101}])
def test_a_job_that_needs_more_than_there_is_runs_alone(
    tmp_path: Path, door: Gate, other_door: Gate, needs: dict[str, int]
) -> None:
    with host(tmp_path, cpus=2, memory=100) as loop:
        small = loop.start(pass_gate, door.path)
        door.wait(loop)
        large = loop.start(pass_gate, other_door.path, **needs)
        assert loop.queued == 1

        door.open()
        other_door.wait(loop)
        assert small in loop.reports
        others = [loop.start(nothing), loop.start(nothing, threads=True, memory=1)]
        assert loop.queued == 2

        other_door.open()
        assert loop.result(large) == "through"
        assert [loop.result(token) for token in others] == [None, None]


def test_the_log_says_once_that_a_task_needs_more_than_there_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with host(tmp_path, cpus=2, memory=100) as loop, caplog.at_level(logging.WARNING):
        for _ in range(3):
            loop.call(nothing, cpus=3, memory=5)

    assert [record.getMessage() for record in caplog.records] == [
        "task nothing needs 3 cpus and 5 bytes of memory, more than the 2 and 100 that there are: it runs alone"
    ]


@pytest.mark.parametrize("threads", [False, True])
def test_only_so_many_small_jobs_go_before_a_large_one(tmp_path: Path, door: Gate, threads: bool) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path)
        door.wait(loop)
        large = loop.start(nothing, cpus=2, threads=threads)
        assert loop.queued == 1
        small = [loop.start(nothing, cpus=1) for _ in range(20)]
        passes = ROUNDS * loop.pool.size

        loop.until(lambda: small[passes - 1] in loop.reports)
        assert loop.queued == 1 + len(small) - passes

        door.open()
        loop.until(lambda: all(token in loop.reports for token in small))
        order = list(loop.reports)
        assert order.index(small[passes - 1]) < order.index(large) < order.index(small[passes])


def test_a_large_job_that_waits_does_not_hold_up_what_needs_something_else(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, workers=3, cpus=3, memory=100) as loop:
        loop.start(pass_gate, door.path, memory=60)
        door.wait(loop)
        large = loop.start(nothing, memory=60)
        assert loop.queued == 1

        assert [loop.call(nothing) for _ in range(20)] == [None] * 20
        assert large not in loop.reports

        door.open()
        assert loop.result(large) is None


def test_many_jobs_that_wait_for_the_same_do_not_hide_one_that_fits(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, workers=3, cpus=3, memory=100) as loop:
        loop.start(pass_gate, door.path, memory=60)
        door.wait(loop)
        waiting = [loop.start(nothing, memory=60) for _ in range(1000)]

        assert loop.call(nothing) is None
        assert loop.queued == len(waiting)

        door.open()
        loop.until(lambda: all(token in loop.reports for token in waiting))


def test_large_jobs_in_lanes_and_large_jobs_that_share_are_served_in_the_order_in_which_they_came(
    tmp_path: Path, door: Gate
) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path, cpus=2)
        door.wait(loop)
        tokens = [loop.start(nothing, cpus=2 - number / 10, threads=number % 2 == 0) for number in range(6)]
        assert loop.queued == 6

        door.open()
        loop.until(lambda: all(token in loop.reports for token in tokens))
        assert [token for token in loop.reports if token in tokens] == tokens


def test_when_a_large_job_that_waits_is_stopped_the_others_go_on(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.start(pass_gate, door.path)
        door.wait(loop)
        large = loop.start(nothing, cpus=2)
        assert loop.queued == 1
        small = [loop.start(nothing) for _ in range(20)]

        loop.pool.stop(large)

        assert isinstance(loop.report(large), Ended)
        loop.until(lambda: all(token in loop.reports for token in small))
        door.open()


def test_what_a_dead_worker_ran_needs_nothing_any_more(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        held = loop.start(pass_gate, door.path, cpus=2)
        pid = door.wait(loop)
        waiting = loop.start(nothing, cpus=2)
        assert loop.queued == 1

        kill(pid)

        assert isinstance(loop.report(held), Died)
        assert loop.result(waiting) is None


def test_jobs_that_were_given_back_still_say_what_they_need(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, cpus=2) as loop:
        loop.learn_that_it_is_short(_perhaps_pass, "")
        held = loop.start(_perhaps_pass, door.path, cpus=1)
        behind = [loop.start(_perhaps_pass, "", cpus=2) for _ in range(3)]
        door.wait(loop)

        loop.until(lambda: loop.pool.statistics().queued == 3)
        assert loop.queued == 3

        door.open()
        assert loop.result(held) == "through"
        assert [loop.result(token) for token in behind] == ["short"] * 3


def _perhaps_pass(path: str) -> str:
    return pass_gate(path) if path else "short"


def test_a_pool_may_have_fewer_cpus_than_workers(tmp_path: Path, door: Gate) -> None:
    with host(tmp_path, workers=2, cpus=1) as loop:
        held = loop.start(pass_gate, door.path)
        door.wait(loop)
        waiting = loop.start(nothing)

        assert loop.queued == 1

        door.open()
        assert loop.result(held) == "through"
        assert loop.result(waiting) is None


@pytest.mark.parametrize("seed", range(5))
def test_what_may_run_at_the_same_time_never_needs_more_than_there_is(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    needs: dict[int, Needs] = {}
    with host(tmp_path, workers=3, cpus=4, memory=100) as loop:
        for _ in range(500):
            cpus = choose.choice([None, None, 0, 0.3, 1, 2.5, 4, 6])
            memory = choose.choice([0, 0, 0, 10, 45, 80, 100, 130])
            threads = choose.random() < 0.3
            token = loop.start(nothing, threads=threads, cpus=cpus, memory=memory)
            stated = Needs((0 if threads else 1) if cpus is None else cpus, memory)
            needs[token] = loop.capacity if stated.cpus > 4 or memory > 100 else stated

        def all_ended() -> bool:
            cpus, memory = _in_use(loop, needs)
            assert cpus <= 4 + ROUNDING
            assert memory <= 100
            return len(loop.reports) == len(needs)

        loop.until(all_ended)


def _in_use(loop: Host, needs: dict[int, Needs]) -> Needs:
    """What runs at most, by the rule: the largest job of each lane, and each job that shares."""
    cpus, memory = 0.0, 0
    for worker in loop.pool._workers.values():
        lane = [needs[token] for token in worker.queue] or [Needs(0, 0)]
        cpus += max(each.cpus for each in lane) + sum(needs[token].cpus for token in worker.shared)
        memory += max(each.memory for each in lane) + sum(needs[token].memory for token in worker.shared)
    return Needs(cpus, memory)


def test_every_line_is_looked_at_in_the_end() -> None:
    queues = Queues()
    jobs = [Job(number, "hash", "task", b"", memory=number) for number in range(1, 3 * LOOK)]
    for job in [*jobs, *[Job(1000 + job.token, "hash", "task", b"", memory=job.memory) for job in jobs]]:
        queues.add(job)

    seen: set[int] = set()
    for _ in range(3):
        fronts = [next(iter(line)) for line in queues.lines(share=False)]
        assert len(fronts) == LOOK
        seen.update(job.memory for job in fronts)
        queues.take(fronts)

    assert seen == {job.memory for job in jobs}
