"""How long a run will go on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.planning import estimates
from onceflow.planning.estimates import Estimate, Step, estimate, play
from onceflow.planning.history import History
from tests.planning.common import constant, past

LARGE = estimates.LARGEST_PLAYED + 1
durations = st.lists(st.floats(0, 1000), min_size=1, max_size=8)
shapes = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        *[st.sets(st.integers(0, number - 1)) if number else st.just(set()) for number in range(size)]
    )
)
"""For each task its parents, which come before it."""
workers = st.integers(1, 5)


def chain(length: int, task: str = "step") -> list[Step]:
    return [Step(f"{task}_{n}", task, (f"{task}_{n - 1}",) if n else ()) for n in range(length)]


def fan(width: int, task: str = "step") -> list[Step]:
    return [Step(f"{task}_{n}", task) for n in range(width)]


def exactly(seconds: float, samples: int) -> Estimate:
    return Estimate(pytest.approx(seconds), pytest.approx(seconds), samples)


# -- what is certain ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 7, LARGE])
def test_a_chain_of_equal_tasks_takes_as_long_as_all_of_them(length):
    assert estimate(chain(length), constant(step=2.0), 4) == exactly(2.0 * length, 5)


@pytest.mark.parametrize(("width", "rounds"), [(1, 1), (4, 1), (5, 2), (12, 3)])
def test_a_fan_of_equal_tasks_takes_as_many_rounds_as_the_workers_need(width, rounds):
    assert estimate(fan(width), constant(step=2.0), 4) == exactly(2.0 * rounds, 5)


def test_a_large_fan_takes_its_work_shared_by_the_workers_give_or_take_a_task():
    found = estimate(fan(LARGE), constant(step=2.0), 4)
    assert found.low == pytest.approx(LARGE * 2.0 / 4)
    assert found.high == pytest.approx(LARGE * 2.0 / 4 + 1.5)


def test_nothing_is_left_of_a_run_that_is_done():
    assert estimate([], History(), 4) == Estimate(0.0, 0.0, 0)


def test_nothing_is_said_about_a_task_that_nobody_knows():
    steps = [*fan(3), Step("new", "new")]
    assert estimate(steps, constant(step=1.0), 4) is None
    assert estimate([*fan(LARGE), Step("new", "new")], constant(step=1.0), 4) is None
    assert estimate(fan(1), History(), 4) is None


def test_the_least_known_task_says_how_far_to_trust_it():
    history = History([past({"step": [1.0] * 10, "rare": [1.0]})])
    assert estimate([*fan(2), Step("rare", "rare")], history, 4).samples == 1


# -- what is running ---------------------------------------------------------------------------------------------------


def test_a_running_task_takes_what_is_left_of_it():
    steps = [Step("step_0", "step", elapsed=1.5), Step("step_1", "step", ("step_0",))]
    assert estimate(steps, constant(step=2.0), 1) == exactly(2.5, 5)


def test_a_running_task_that_tells_its_progress_is_believed():
    steps = [Step("new", "new", elapsed=30.0, done=0.75), Step("step", "step", ("new",))]
    assert estimate(steps, constant(step=2.0), 1) == exactly(12.0, 5)
    assert estimate(steps[:1], History(), 1) == exactly(10.0, 0)


@pytest.mark.parametrize("count", [1, LARGE])
def test_a_task_that_takes_longer_than_ever_may_take_as_long_again(count):
    found = estimate([Step(f"step_{n}", "step", elapsed=10.0) for n in range(count)], constant(step=2.0), count)
    assert 0.0 <= found.low <= found.high <= 10.0


def test_a_large_run_is_shorter_by_what_has_been_done_of_running_tasks():
    steps = [Step("step_0", "step", elapsed=1.5), *chain(LARGE)[1:]]
    assert estimate(steps, constant(step=2.0), 4) == exactly(2.0 * LARGE - 1.5, 5)


def test_running_tasks_keep_their_workers_busy():
    steps = [Step("long", "long", elapsed=0.0), *fan(3)]
    assert estimate(steps, constant(step=1.0, long=10.0), 1) == exactly(13.0, 5)
    assert estimate(steps, constant(step=1.0, long=10.0), 2) == exactly(10.0, 5)


def test_tasks_that_a_worker_runs_beside_each_other_do_not_queue():
    together = past({"step": [2.0] * 10})
    together.beside = frozenset({"step"})
    history = History([together])
    assert estimate(fan(50), history, 1) == exactly(2.0, 10)
    assert estimate(fan(LARGE), history, 1) == exactly(2.0, 10)


# -- what is not certain -----------------------------------------------------------------------------------------------


def test_durations_of_one_draw_come_from_one_run():
    """Independent draws would make 100 tasks average out; but on a slow day all are slow."""
    history = History([past({"step": [1.0]}), past({"step": [3.0]})])
    found = estimate(chain(100, "step"), history, 1)
    assert (found.low, found.high) == (100.0, 300.0)
    large = estimate(chain(LARGE, "step"), history, 1)
    assert (large.low, large.high) == (pytest.approx(1.0 * LARGE), pytest.approx(3.0 * LARGE))


def test_the_same_question_has_the_same_answer():
    history = History([past({"step": [1.0, 2.0, 5.0, 9.0]}), past({"step": [2.0, 3.0]})])
    assert estimate(fan(20), history, 3) == estimate(fan(20), history, 3)


def test_a_run_that_will_grow_takes_what_earlier_ones_took():
    large = [past({"expand": [1.0], "step": [1.0] * 50}, seconds=60.0) for _ in range(4)]
    steps = [Step("expand", "expand")]
    assert estimate(steps, History(large), 4, elapsed=10.0, tasks=1) == exactly(50.0, 4)
    assert estimate(steps, History(large), 4, elapsed=10.0, tasks=51) == exactly(1.0, 4)
    assert estimate(steps, History(large), 4, elapsed=100.0, tasks=1) == exactly(1.0, 4)


def test_few_large_runs_among_many_do_not_count():
    runs = [past({"step": [1.0]}, seconds=1.0)] * 3 + [past({"step": [1.0] * 9}, seconds=60.0)]
    assert estimate(fan(1), History(runs), 1, tasks=1) == exactly(1.0, 12)


@given(st.lists(durations, min_size=1, max_size=4), shapes, workers, st.data())
def test_a_range_is_a_range_and_within_what_is_possible(pasts, shape, workers, data):
    history = History([past({"step": values}) for values in pasts])
    steps = [Step(f"new_{n}", "step", tuple(f"new_{parent}" for parent in before)) for n, before in enumerate(shape)]
    found = estimate(steps, history, workers)
    longest, shortest = max(map(max, pasts)), min(map(min, pasts))
    assert 0 <= found.low <= found.high
    assert found.high <= longest * len(steps) + 1e-6
    assert found.low >= shortest * len(steps) / workers - 1e-6
    done = data.draw(st.integers(0, len(steps)))
    assert estimate(steps[:done], history, len(steps)).high <= estimate(steps, history, len(steps)).high + 1e-6


@given(durations, st.integers(2, 400), workers)
def test_more_tasks_take_longer(values, count, workers):
    history = History([past({"step": values})])
    less, more = estimate(fan(count - 1), history, workers), estimate(fan(count), history, workers)
    if count != LARGE:  # from there on it is bounded, not played
        assert less.low <= more.low + 1e-6
        assert less.high <= more.high + 1e-6


# -- playing -----------------------------------------------------------------------------------------------------------


@given(shapes, workers, st.data())
def test_playing_stays_within_the_bounds_of_any_order(shape, workers, data):
    took = data.draw(st.lists(st.floats(0, 100), min_size=len(shape), max_size=len(shape)))
    ends: list[float] = []
    for number, before in enumerate(shape):
        ends.append(took[number] + max([ends[parent] for parent in before], default=0.0))
    path, work = max(ends), sum(took)
    end = play(took, [sorted(before) for before in shape], workers)
    assert max(path, work / workers) - 1e-6 <= end <= work / workers + path * (1 - 1 / workers) + 1e-6


def test_a_task_waits_for_its_parents_and_for_a_worker():
    assert play([3.0, 1.0, 1.0], [[], [], [0, 1]], 2) == 4.0
    assert play([3.0, 1.0, 1.0], [[], [], [0, 1]], 1) == 5.0
    assert play([3.0, 1.0, 1.0], [[], [], [0, 1]], 1, without_slot={0}) == 4.0
    assert play([3.0, 1.0], [[], []], 1, running=[0, 1]) == 3.0
