"""How many jobs a worker gets ahead."""

from __future__ import annotations

from math import inf

from onceflow.backends.local.send_ahead import AHEAD, HORIZON, LONG, Estimates, Load, admits


def ahead(expected: float) -> int:
    """How many jobs of this duration a worker gets."""
    jobs = 0
    while admits(jobs, jobs * expected, expected):
        jobs += 1
    return jobs


def test_short_jobs_are_sent_ahead_up_to_the_horizon() -> None:
    assert ahead(50e-6) == round(HORIZON / 50e-6)
    assert ahead(1e-6) == AHEAD


def test_a_long_job_and_one_that_is_not_known_go_to_idle_workers_only() -> None:
    assert ahead(5.0) == 1
    assert ahead(inf) == 1
    assert not admits(1, 0.0, LONG)


def test_nothing_is_sent_behind_a_long_job() -> None:
    assert not admits(1, 5.0, 50e-6)


def test_an_estimate_follows_longer_durations_at_once_and_shorter_ones_slowly() -> None:
    estimates = Estimates()
    assert estimates.expected("f") == inf

    estimates.learn("f", 0.001)
    estimates.learn("f", 1.0)
    assert estimates.expected("f") > 1.0

    estimates.learn("f", 0.0)
    assert 0.5 < estimates.expected("f") < 1.0


def test_a_load_without_jobs_is_none_whatever_was_in_it() -> None:
    load = Load()
    for expected in (inf, 0.1, 0.2):
        load.add(expected)
    for expected in (0.1, inf, 0.2):
        load.remove(expected)

    assert (load.jobs, load.seconds) == (0, 0.0)
