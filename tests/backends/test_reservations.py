"""Places that are promised to jobs before they begin."""

from __future__ import annotations

from typing import Any

from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reservations import MOST, PLAIN, SHARED, Reservations
from onceflow.backends.local.send_ahead import Estimates

LONG_ONE, SHORT_ONE, NEW_ONE = "long", "short", "new"


class Pool:
    """Reservations of a pool, all of whose workers are busy or idle."""

    def __init__(self, workers: int, idle: int = 0) -> None:
        estimates = Estimates()
        estimates.learn(LONG_ONE, 1.0)
        estimates.learn(SHORT_ONE, 0.0)
        self.idle = idle
        self.reservations = Reservations(estimates, lambda: workers, lambda: self.idle)
        self._token = 0

    def ask(
        self, function: str, run: str = "a", priority: int = 0, kind: tuple[object, ...] = PLAIN, **how: bool
    ) -> int:
        """Returns the token: negative if it has to wait."""
        self._token += 1
        if self.reservations.promise(self._token, function, kind, **how):
            return self._token
        self.reservations.wait(Job(self._token, function, "", b"", context={"run": run}, priority=priority), kind)
        return -self._token


def test_of_long_jobs_each_worker_is_promised_one():
    pool = Pool(workers=2)
    assert [pool.ask(LONG_ONE) for _ in range(4)] == [1, 2, -3, -4]
    assert pool.reservations.turn() == []
    pool.reservations.release(2)
    assert pool.reservations.turn() == [3]


def test_a_job_that_a_worker_hands_back_keeps_its_place():
    """What has begun and waits stays bounded."""
    pool = Pool(workers=1)
    assert [pool.ask(LONG_ONE) for _ in range(2)] == [1, -2]
    pool.reservations.release(1)  # a worker has it,
    pool.reservations.keep(1, LONG_ONE)  # and hands it back
    assert pool.reservations.turn() == []
    pool.reservations.release(1)
    assert pool.reservations.turn() == [2]


def test_a_job_that_was_handed_back_and_is_taken_out_of_the_queue_keeps_no_place():
    nothing: Any = None
    dispatcher = Dispatcher(nothing, nothing, lambda: 1, lambda: 0)
    dispatcher.put_back(Job(1, LONG_ONE, "", b"", context={"run": "a"}))
    assert dispatcher.remove(1)
    assert not dispatcher.reservations.promised


def test_a_function_of_which_nothing_is_known_is_promised_idle_workers_only():
    pool = Pool(workers=2, idle=1)
    assert [pool.ask(NEW_ONE) for _ in range(3)] == [1, -2, -3]
    pool.reservations.release(1)
    pool.idle = 0
    assert pool.reservations.turn() == []
    pool.idle = 2
    assert pool.reservations.turn() == [2, 3]


def test_of_short_jobs_as_many_are_promised_as_a_commit_may_take():
    pool = Pool(workers=1)
    asked = [pool.ask(SHORT_ONE) for _ in range(MOST + 5)]
    assert sum(token > 0 for token in asked) == MOST


def test_runs_take_turns():
    pool = Pool(workers=1)
    first = pool.ask(LONG_ONE)
    many = [-pool.ask(LONG_ONE, "many") for _ in range(3)]
    one = -pool.ask(LONG_ONE, "one")
    order = []
    while promised := (pool.reservations.release(first), pool.reservations.turn())[1]:
        (first,) = promised
        order.append(first)
    assert order.index(one) < 2
    assert [token for token in order if token != one] == many


def test_a_higher_priority_is_served_more_often():
    pool = Pool(workers=1)
    last = pool.ask(LONG_ONE)
    low = [-pool.ask(LONG_ONE, "low") for _ in range(6)]
    high = [-pool.ask(LONG_ONE, "high", priority=2) for _ in range(6)]
    order = []
    while promised := (pool.reservations.release(last), pool.reservations.turn())[1]:
        (last,) = promised
        order.append(last)
    assert sum(token in high for token in order[:8]) == 6
    assert [token for token in order if token in low] == low


def test_what_needs_something_else_has_a_window_of_its_own():
    pool = Pool(workers=1)
    assert pool.ask(LONG_ONE, kind=("much memory",)) > 0
    assert pool.ask(LONG_ONE, kind=("much memory",)) < 0
    assert pool.ask(LONG_ONE) > 0


def test_jobs_that_share_are_promised_the_threads_of_a_worker():
    pool = Pool(workers=1)
    asked = [pool.ask(NEW_ONE, kind=("async",), shares=True) for _ in range(SHARED + 1)]
    assert [token > 0 for token in asked] == [True] * SHARED + [False]


def test_who_wants_no_more_is_passed_over():
    pool = Pool(workers=1)
    first, second, third = (abs(pool.ask(LONG_ONE)) for _ in range(3))
    pool.reservations.release(second)
    pool.reservations.release(first)
    assert pool.reservations.turn() == [third]
    assert len(pool.reservations) == 0
