"""Segments of fibers that were started before anybody wanted to cancel their run."""

from __future__ import annotations

from onceflow.authoring.graph_builder import build_graph
from onceflow.errors import Cancelled
from onceflow.values import packed_outputs
from onceflow.values.failures import dump
from tests.driver.common import Drive, effect
from tests.fibers import busy


def busy_drive() -> Drive:
    """Its first segment runs, and somebody cancels the run."""
    drive = Drive(busy.pondering.bind())
    drive.driver.cancel(False, 0.5)
    drive.host.flush()
    assert drive.host.stopped == [drive.host.running("pondering").attempt]
    return drive


def assert_is_told(drive: Drive) -> None:
    assert drive.started == ["pondering", "pondering"]
    assert [work.cancelled for work in drive.host.started] == [False, True]
    assert drive.driver.status == "running"


def test_they_are_stopped_and_started_once_more():
    drive = busy_drive()
    drive.end("pondering")
    assert_is_told(drive)


def test_what_one_returns_that_was_quicker_does_not_count():
    drive = busy_drive()
    drive.driver.finished(drive.host.running("pondering"), [packed_outputs.dump(build_graph(effect.bind(1)))], True)
    drive.host.flush()
    assert_is_told(drive)


def test_nor_does_what_it_raises():
    drive = busy_drive()
    drive.fail("pondering")
    assert_is_told(drive)


def test_what_was_started_later_may_let_the_exception_go():
    drive = busy_drive()
    drive.end("pondering")
    drive.fail("pondering", dump(Cancelled("r"), "a fiber"))
    assert drive.driver.status == "cancelled"
    assert drive.kinds == ["cancelling", "cancelling pondering", "cancelled", "finished"]


def test_nobody_waits_longer_than_half_a_minute():
    drive = busy_drive()
    (time_to_clean_up,) = [then for seconds, then in drive.host.timers if seconds == 30]
    time_to_clean_up()
    drive.end("pondering")
    assert drive.driver.status == "cancelled"
    assert drive.started == ["pondering"]
