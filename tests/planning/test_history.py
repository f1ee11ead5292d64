"""What earlier runs took, and how much of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.driver import entries
from onceflow.driver.measurements import FINISHED, Measurements
from onceflow.driver.work import Work
from onceflow.planning import history
from onceflow.planning.history import History, Reader, Samples, spread, summary
from onceflow.storage.journal import AppendEntries, SetStatus
from tests.planning.common import measured, past
from tests.storage.common import commit, create, quick

seconds = st.floats(0, 1e6)


def test_a_run_is_summed_up_by_task_and_by_node():
    run = summary(
        [
            measured("load", 2.0),
            measured("step_1", 5.0, outcome="raised"),
            measured("step_1", 1.0),
            measured("step_2", 3.0),
            measured("step_3", 0.0, outcome="lost"),
            measured("step_2", 9.0, undo=True),
        ],
        12.5,
    )

    assert run.tasks["step"] == history.PastTask([1.0, 3.0], finished=2, raised=1, lost=1, bytes=20, mean=2.0)
    assert run.nodes == {("load", "load"): 2.0, ("step_1", "step"): 1.0, ("step_2", "step"): 3.0}
    assert run.seconds == 12.5


def test_a_task_counts_as_running_beside_itself_if_a_worker_had_several_at_once():
    waiting = [measured(f"wait_{n}", 1.0, started=1000.0 + n / 10) for n in range(3)]
    working = [measured(f"work_{n}", 1.0, started=1000.0 + n) for n in range(3)]
    elsewhere = [measured(f"other_{n}", 1.0, worker=n) for n in range(1, 3)]

    assert summary([*waiting, *working, *elsewhere]).beside == {"wait"}


def test_a_node_is_known_by_itself_once_it_was_measured_often_enough():
    runs = [past({"step": [1.0, 100.0]}) for _ in range(history.ENOUGH)]

    assert History(runs).samples("step_1", "step").quantile(1.0) == 1.0
    assert History(runs[1:]).samples("step_1", "step").quantile(1.0) == 100.0
    assert History(runs).samples("step_9", "step").quantile(1.0) == 100.0
    assert History(runs).samples("step_1", "another") is None


def test_a_node_whose_durations_spread_as_those_of_its_task_is_not_told_from_others():
    runs = [past({"step": [seconds, 10.0 - seconds]}) for seconds in (1.0, 9.0, 2.0, 8.0, 5.0)]

    assert History(runs).samples("step_1", "step").count == 10


def test_recent_runs_count_more():
    runs = [past({"step": [10.0]})] * 3 + [past({"step": [1.0]})] * 3

    assert History(runs).of_task("step").quantile(0.5) == 10.0
    assert History(runs[::-1]).of_task("step").quantile(0.5) == 1.0
    assert History(runs).mean("step") > 5.5 > History(runs[::-1]).mean("step")


def test_a_run_with_many_calls_does_not_outweigh_the_others():
    runs = [past({"step": [1.0] * 1000}), past({"step": [2.0]}), past({"step": [2.0]})]

    assert History(runs).of_task("step").quantile(0.5) == 2.0
    assert History(runs).of_task("step").count == 1002


def test_what_was_not_there_in_a_run_is_drawn_from_all():
    samples = Samples({0: [5.0, 6.0], 2: [7.0]}, [1.0, 1.0, 1.0], 3)

    assert [samples.draw(0, share) for share in (0.0, 0.6, 1.0)] == [5.0, 6.0, 6.0]
    assert [samples.draw(2, share) for share in (0.0, 1.0)] == [7.0, 7.0]
    assert [samples.draw(1, share) for share in (0.0, 1.0)] == [5.0, 7.0]


def test_what_is_left_is_drawn_from_those_that_took_longer():
    samples = Samples({0: [1.0, 2.0, 10.0, 20.0]}, [1.0], 4)

    assert [samples.left(share, 5.0) for share in (0.0, 0.3, 0.9, 1.0)] == [0.0, 5.0, 15.0, 15.0]
    assert samples.left(0.5, 30.0) == 15.0


@given(st.lists(seconds, min_size=1), st.floats(0, 1), seconds)
def test_draws_are_what_was_seen_and_a_rest_is_never_negative(values, share, elapsed):
    samples = Samples({0: sorted(values)}, [1.0], len(values))

    assert samples.draw(0, share) in values
    assert samples.quantile(share) in values
    assert samples.left(share, elapsed) >= 0


@given(st.lists(seconds).map(sorted), st.integers(2, 20))
def test_some_values_stand_for_all(values, count):
    found = spread(values, count)

    assert len(found) == min(len(values), count)
    assert found == sorted(found)
    assert not values or (found[0], found[-1]) == (values[0], values[-1])


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path):
    store = quick(tmp_path)
    yield store
    store.close()


def record(journal, run: str, *attempts: tuple[str, float], workflow: str = "trip", status: str = "succeeded") -> None:
    waiting = Measurements()
    for number, (task, took) in enumerate(attempts):
        waiting.add(Work(f"{task}_{number}", task, 1 << 32 | number, None, [], 1, ""), FINISHED, 1e9, 1e9 + took, 7, 3)
    body = waiting.take(1)
    requests = [create(run, workflow=workflow, status="running"), SetStatus(run, 1, status)]
    if body is not None:
        requests.append(AppendEntries(run, 1, [entries.measured(body)]))
    assert commit(journal, *requests).ok


def test_the_succeeded_runs_of_a_workflow_are_read_newest_first(journal):
    record(journal, "old", ("step", 1.0))
    record(journal, "failed", ("step", 50.0), status="failed")
    record(journal, "other", ("step", 70.0), workflow="other")
    record(journal, "new", ("step", 2.0), ("step", 4.0))

    found = Reader(journal).read("trip")

    assert [run.tasks["step"].seconds for run in found.runs] == [[2.0, 4.0], [1.0]]
    assert [run.seconds for run in found.runs] == [pytest.approx(0.0, abs=60)] * 2
    assert len(Reader(journal).read(None, ["succeeded", "failed"]).runs) == 4
    assert Reader(journal).read("nobody's").runs == ()


def test_a_run_that_an_older_onceflow_wrote_says_nothing(journal):
    record(journal, "old")

    (run,) = Reader(journal).read("trip").runs

    assert (run.tasks, run.nodes) == ({}, {})
    assert History([run]).of_task("step") is None


def test_reading_is_bounded(journal, monkeypatch: pytest.MonkeyPatch):
    for number in range(6):
        record(journal, f"r{number}", ("step", 1.0), ("step", 1.0))

    monkeypatch.setattr(history, "RUNS", 4)
    assert len(Reader(journal).read("trip").runs) == 4
    monkeypatch.setattr(history, "ATTEMPTS", 3)
    assert len(Reader(journal).read("trip").runs) == 2
    monkeypatch.setattr(history, "NEWEST", 1)
    assert len(Reader(journal).read("trip").runs) == 1


def test_a_run_that_succeeded_is_read_once(journal, monkeypatch: pytest.MonkeyPatch):
    record(journal, "first", ("step", 1.0))
    record(journal, "failed", ("step", 1.0), status="failed")
    reader = Reader(journal)
    asked = []
    monkeypatch.setattr(history, "attempts", lambda journal, run: asked.append(run) or [])

    reader.read("trip")
    record(journal, "second", ("step", 1.0))
    reader.read("trip")
    reader.read("trip", ["succeeded", "failed"])

    assert asked == ["first", "second", "failed"]


def test_not_every_run_is_remembered(journal, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        record(journal, f"r{number}", ("step", 1.0))
    monkeypatch.setattr(history, "MOST_REMEMBERED", 2)

    assert len(Reader(journal).read("trip").runs) == 5
