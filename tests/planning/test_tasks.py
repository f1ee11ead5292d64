"""What the tasks of earlier runs took, for people."""

from __future__ import annotations

from onceflow.planning.history import History, summary
from onceflow.planning.tasks import TaskStatistics, statistics
from tests.planning.common import measured, past


def test_tasks_are_summed_up_over_runs_and_those_that_took_most_time_come_first():
    failing = summary([measured("step_1", 1.0, outcome="raised"), measured("step_1", 0.0, outcome="lost")])
    history = History([past({"step": [1.0, 3.0], "load": [9.0]}), failing])

    assert statistics(history) == [
        TaskStatistics("load", runs=1, finished=1, failed=0, lost=0, seconds=9.0, p50=9.0, p90=9.0, bytes=10.0),
        TaskStatistics("step", runs=2, finished=2, failed=1, lost=1, seconds=4.0, p50=1.0, p90=3.0, bytes=10.0),
    ]


def test_a_task_that_never_finished_has_no_durations():
    (found,) = statistics(History([summary([measured("step", 1.0, outcome="raised")])]))

    assert (found.p50, found.p90, found.bytes) == (None, None, 0.0)
