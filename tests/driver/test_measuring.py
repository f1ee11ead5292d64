"""Measurements ride on batches that are written anyway, and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.core.model import records
from onceflow.driver import entries, measurements
from onceflow.driver.history import History
from onceflow.driver.measurements import FINISHED, LOST, RAISED, STOPPED, Measurement, Measurements
from onceflow.driver.work import Work
from tests.driver.common import Drive, effect, pure, undoable

moments = st.floats(1e9, 2e9)
durations = st.floats(0, 1e6)


def work(node: str = "a", number: int = 1, *, epoch: int = 1, undo: bool = False) -> Work:
    return Work(node, f"task of {node}", epoch << 32 | number, None, [], 1, "key", undo=undo)


def measured(drive: Drive) -> list[tuple[str, str]]:
    """What the journal was handed: (node, outcome)."""
    found = [entry for entry in drive.host.entries() if entry.kind in measurements.KINDS]
    return [(one.node, one.outcome) for one in measurements.read(found)]


def taken(waiting: Measurements, epoch: int = 1) -> list[Measurement]:
    return list(measurements.read([entries.measured(waiting.take(epoch))]))


@given(st.lists(st.tuples(st.text(max_size=4), st.integers(1, 9), moments, durations, st.booleans()), min_size=1))
def test_what_was_measured_comes_back(attempts):
    waiting = Measurements()
    for node, number, started, seconds, undo in attempts:
        waiting.add(work(node, number, epoch=3, undo=undo), FINISHED, started, started + seconds, 77, 5)
    found = taken(waiting, 3)
    assert [one.task for one in found] == [f"task of {node}" for node, *_ in attempts]
    assert [(one.node, one.attempt, one.undo) for one in found] == [(n, 3 << 32 | i, u) for n, i, _, _, u in attempts]
    for one, (_, _, started, seconds, _) in zip(found, attempts, strict=True):
        assert one.started == pytest.approx(started, abs=1e-5)
        assert one.seconds == pytest.approx(seconds, abs=1e-5)
        assert one.ended == pytest.approx(started + seconds, abs=1e-4)
        assert (one.worker, one.bytes, one.outcome) == (77, 5, "finished")


def test_nobody_knows_when_an_attempt_started_that_was_lost_or_stopped():
    waiting = Measurements()
    waiting.add(work("a"), LOST, 0.0, 0.0, 77, 0)
    waiting.add(work("b"), STOPPED, 0.0, 0.0, 0, 0)
    waiting.add(work("c"), RAISED, 1e9, 1e9 + 1, 78, 0)
    lost, stopped, raised = taken(waiting)
    assert (lost.started, lost.outcome, lost.worker) == (0.0, "lost", 77)
    assert (stopped.started, stopped.outcome) == (0.0, "stopped")
    assert (raised.started, raised.seconds, raised.outcome) == (1e9, 1.0, "raised")


def test_a_clock_that_was_set_back_gives_no_negative_duration():
    waiting = Measurements()
    waiting.add(work(), FINISHED, 1e9, 1e9 - 5, 77, 0)
    (one,) = taken(waiting)
    assert one.seconds == 0.0


def test_measurements_are_taken_once_and_are_bounded():
    waiting = Measurements()
    assert waiting.take(1) is None
    for number in range(measurements.MOST_WAITING + 5):
        waiting.add(work(number=number), FINISHED, 1e9, 1e9, 77, 0)
    assert len(taken(waiting)) == measurements.MOST_WAITING
    assert waiting.take(1) is None


def test_measurements_are_no_records():
    waiting = Measurements()
    waiting.add(work(), FINISHED, 1e9, 1e9, 77, 0)
    entry = entries.measured(waiting.take(1))
    assert entries.record_of(entry, lambda reference: b"") is None
    assert History.read([entry], lambda reference: b"").records == []


def measure(drive: Drive, node: str, outcome: int = FINISHED, seconds: float = 1.0) -> None:
    drive.driver.measurements.add(drive.host.running(node), outcome, 1e9, 1e9 + seconds, 77, 3)


def test_a_long_attempt_rides_on_the_next_batch():
    drive = Drive(effect.bind(pure.bind(1)))
    measure(drive, "pure")
    drive.finish("pure", 1)
    assert drive.kinds == ["measured", "begun effect"]
    assert measured(drive) == [("pure", "finished")]


def test_short_attempts_wait_until_they_are_enough():
    drive = Drive(effect.bind(pure.bind(1)))
    measure(drive, "pure", seconds=0.001)
    drive.finish("pure", 1)
    assert drive.kinds == ["begun effect"]
    for _ in range(measurements.ENOUGH_WAITING):
        measure(drive, "pure", seconds=0.001)
    assert drive.driver.measurements.due


def test_the_last_measurements_are_part_of_the_entry_that_ends_the_run():
    drive = Drive(effect.bind(pure.bind(1)))
    measure(drive, "pure", seconds=0.001)
    drive.finish("pure", 1)
    drive.commit()
    measure(drive, "effect")
    drive.finish("effect", 2)
    assert drive.kinds == ["begun effect", "saved effect", "finished"]
    assert measured(drive) == [("pure", "finished"), ("effect", "finished")]
    drive.commit()
    assert drive.driver.ending.status == "succeeded"


def test_measurements_make_no_batch_of_their_own():
    drive = Drive(pure.bind(pure.bind(1)))
    batches = len(drive.host.batches)
    measure(drive, "pure")
    drive.finish("pure", 1)
    assert len(drive.host.batches) == batches
    assert measured(drive) == []


def test_a_batch_that_changes_the_status_takes_them_along():
    drive = Drive(undoable.bind())
    drive.commit()
    measure(drive, "undoable", RAISED, seconds=0.001)
    drive.fail("undoable")
    drive.commit()
    measure(drive, "undoable", seconds=0.001)
    drive.undo("undoable")
    assert drive.host.statuses()[-1] == "waiting"
    assert measured(drive) == [("undoable", "raised"), ("undoable", "finished")]


def test_the_end_of_a_run_that_an_older_onceflow_wrote_has_none():
    entry = entries.finished(records.Finished("succeeded"), (), ())
    assert list(measurements.read([entry])) == []
