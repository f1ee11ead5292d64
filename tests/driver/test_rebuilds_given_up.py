"""Undos for which what they read could not be made again, until another attempt gave it."""

from __future__ import annotations

from onceflow import wait_event
from onceflow.driver.work import Work
from tests.driver.common import Drive, effect, large, pure, undoable


def test_a_run_whose_undo_got_what_it_reads_after_all_goes_on_waiting():
    """It was paused for a person as soon as nothing was in flight, although its undo had succeeded."""
    held = large()
    drive = Drive(effect.bind(undoable.bind(pure.bind(1)), wait_event("go", int)))

    def private() -> Work:
        return next(work for work in reversed(drive.host.started) if drive.driver.launches.is_private(work.attempt))

    def commit_all() -> None:
        while drive.host.committed < len(drive.host.batches):
            drive.commit()

    commit_all()
    drive.finish_with("pure", held)
    commit_all()
    drive.lose(held)
    drive.end("undoable")
    commit_all()
    public = next(work for work in drive.host.started[::-1] if work.node == "pure" and work is not private())
    for attempt in range(5):
        drive.driver.raised(private(), b"no", False)
        drive.host.flush()
        if attempt < 4:
            drive.host.timers.pop()[1]()
            drive.host.flush()
    commit_all()
    assert drive.run.status == "parked"
    drive.driver.finished(public, [large()], False)
    drive.host.flush()
    commit_all()
    drive.undo("undoable")
    commit_all()
    drive.finish("undoable", 1)
    commit_all()
    commit_all()
    assert drive.driver.ending is None
    assert drive.run.status == "running"
