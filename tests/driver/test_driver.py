"""The loop around one run: what waits for a commit, what does not, and what becomes of values."""

from __future__ import annotations

import pickle

from onceflow.core.model import events
from onceflow.driver.outputs import Blob
from onceflow.errors import RunInterrupted, WorkerDied
from onceflow.storage.journal import Claim
from onceflow.values import failures
from onceflow.values.packed_outputs import SMALL
from tests.driver.common import Drive, effect, loose, pair, pure, undoable

LARGE = b"x" * (SMALL + 1)


def test_a_task_without_effect_starts_before_anything_is_durable():
    drive = Drive(pure.bind(1), opening=[Claim("r", "engine", 0)])
    assert drive.started == ["pure"]
    assert drive.host.committed == 0


def test_a_task_with_an_effect_starts_when_its_begun_record_is_committed():
    drive = Drive(effect.bind(1))
    assert drive.kinds == ["begun effect"]
    assert drive.started == []
    drive.commit()
    assert drive.started == ["effect"]


def test_the_opening_goes_first_in_the_first_batch():
    opening = Claim("r", "engine", 0)
    drive = Drive(effect.bind(1), opening=[opening])
    assert drive.host.batches[0][0] is opening
    assert drive.driver.is_opening
    drive.commit()
    assert not drive.driver.is_opening


def test_the_save_of_a_task_and_the_begun_record_of_the_next_share_a_batch():
    drive = Drive(effect.bind(effect.bind(1)))
    drive.commit()
    drive.finish("effect", "one")
    assert [entry.kind for entry in drive.host.batches[1][0].entries] == ["saved", "begun"]
    assert drive.started == ["effect"]
    drive.commit()
    assert drive.started == ["effect", "effect_1"]
    assert drive.host.running("effect_1").inputs == [pickle.dumps("one")]


def test_the_run_ends_when_its_result_is_durable():
    drive = Drive(effect.bind(1))
    drive.commit()
    drive.finish("effect", 42)
    assert drive.kinds == ["begun effect", "saved effect", "finished"]
    assert drive.host.statuses() == ["succeeded"]
    assert drive.driver.ending is None
    drive.commit()
    assert drive.driver.ending.status == "succeeded"
    assert drive.driver.ending.result == (pickle.dumps(42),)
    assert drive.host.over


def test_a_whole_output_in_parts_is_read_as_a_tuple():
    drive = Drive(pure.bind(pair.bind(1)))
    drive.finish("pair", "a", "b")
    work = drive.host.running("pure")
    assert [pickle.loads(part) for part in work.inputs] == ["a", "b"]
    assert work.spans == [2]


def test_one_part_is_read_alone():
    _, second = pair.bind(1)
    drive = Drive(pure.bind(second))
    drive.finish("pair", "a", "b")
    assert drive.host.running("pure").inputs == [pickle.dumps("b")]


def test_a_large_value_is_saved_as_a_blob_which_the_record_names():
    drive = Drive(effect.bind(effect.bind(1)))
    drive.commit()
    drive.finish("effect", LARGE)
    assert drive.kinds == ["begun effect"]
    drive.save("blob 1")
    saved, begun = drive.host.batches[1][0].entries
    assert (saved.kind, saved.value, saved.blob) == ("saved", None, "blob 1")
    assert begun.node == "effect_1"


def test_a_large_result_is_handed_out_as_it_was_saved():
    drive = Drive(effect.bind(1))
    drive.commit()
    drive.finish("effect", LARGE)
    drive.save("blob 1")
    drive.commit()
    assert drive.driver.ending.result == (Blob("blob 1"),)


def test_a_blob_that_comes_too_late_is_deleted():
    drive = Drive(pure.bind(loose.bind(1), loose.bind(2)))
    drive.finish("loose", LARGE)
    drive.driver.tell(events.Lost(outputs=(("loose", 0),)))
    drive.save("late")
    assert drive.host.deleted == ["late"]
    assert "saved loose" not in drive.kinds


def test_a_stopped_attempt_that_was_held_never_starts():
    drive = Drive(undoable.bind(1))
    drive.driver.tell(events.Cancel())
    drive.host.flush()
    drive.commit()
    assert "undoable" not in [work.node for work in drive.host.started if not work.undo]


def test_a_failed_attempt_is_undone_with_its_own_inputs_and_then_waits():
    drive = Drive(undoable.bind(loose.bind(1)))
    drive.finish("loose", "input")
    drive.commit()
    drive.fail("undoable")
    drive.commit()
    undo = drive.host.running("undoable")
    assert undo.undo
    assert not undo.has_output
    assert undo.inputs == [pickle.dumps("input")]
    drive.undo("undoable")
    ((seconds, elapse),) = drive.host.timers
    assert seconds == 3
    assert drive.driver.status == "waiting"
    elapse()
    drive.host.flush()
    drive.commit()
    drive.commit()
    again = drive.host.running("undoable")
    assert not again.undo
    assert again.key == "r/undoable/1"
    assert undo.key == "r/undoable/0"


def test_an_error_is_kept_with_its_record_and_with_the_ending():
    drive = Drive(effect.bind(1))
    drive.commit()
    drive.fail("effect", b"the error")
    assert [entry.value for entry in drive.host.entries() if entry.kind == "failed"] == [b"the error"]
    drive.commit()
    assert drive.driver.ending.status == "failed"
    assert drive.driver.ending.failed == ("effect",)
    assert drive.driver.ending.failure == b"the error"
    assert drive.driver.ending.uncertain == ("effect",)


def test_a_saga_takes_back_what_was_done_with_its_output():
    drive = Drive(pure.bind(undoable.bind(1)), on_failure="undo")
    drive.commit()
    drive.finish("undoable", "room")
    drive.commit()
    drive.fail("pure")
    while not drive.host.running("undoable").undo:
        drive.commit()
    undo = drive.host.running("undoable")
    assert undo.has_output
    assert undo.inputs == [pickle.dumps("room")]
    drive.undo("undoable")
    while drive.driver.ending is None:
        drive.commit()
    assert drive.driver.ending.status == "undone"
    assert drive.host.statuses() == ["undoing", "undone"]


def test_a_task_whose_workers_die_is_started_again_but_not_for_ever():
    drive = Drive(pure.bind(1))
    drive.die("pure")
    drive.die("pure")
    assert drive.started == ["pure"] * 3
    assert drive.driver.ending is None
    drive.die("pure")
    drive.commit()
    assert drive.driver.ending.status == "failed"
    assert drive.driver.ending.failure is not None
    error = failures.load(drive.driver.ending.failure)
    assert isinstance(error, WorkerDied)
    assert (error.status, error.deaths) == (-9, 3)


def test_an_attempt_that_had_ended_when_its_worker_died_is_not_to_blame():
    drive = Drive(pure.bind(1))
    for _ in range(5):
        drive.die("pure")
        drive.die("pure", "none")
    assert drive.driver.ending is None


def test_an_attempt_that_died_with_others_is_not_counted_and_runs_alone_from_then_on():
    drive = Drive(pure.bind(1))
    assert not drive.host.running("pure").alone
    for _ in range(5):
        drive.die("pure", "possible")
        assert drive.host.running("pure").alone
    assert drive.driver.ending is None


def test_deaths_are_counted_anew_when_a_task_has_come_to_an_end():
    drive = Drive(pure.options(retry=5).bind(1))
    for _ in range(3):
        drive.die("pure")
        drive.die("pure")
        drive.fail("pure")
        drive.host.timers.pop()[1]()
    assert drive.driver.ending is None
    assert len(drive.started) == 10


def test_an_interrupted_driver_stops_what_runs_and_hears_nothing_any_more():
    drive = Drive(pure.bind(1))
    error = RunInterrupted("r", "test")
    drive.interrupt(error)
    assert drive.host.stopped == [drive.host.running("pure").attempt]
    assert drive.host.over
    drive.finish("pure", 1)
    assert drive.driver.interruption is error
    assert drive.driver.ending is None
    assert drive.kinds == []


def test_an_undo_that_keeps_failing_pauses_the_run():
    drive = Drive(undoable.bind(1))
    drive.commit()
    drive.fail("undoable", permanent=True)
    for _ in range(5):
        while not drive.host.running("undoable").undo or drive.host.running("undoable").attempt in drive.host.stopped:
            drive.commit()
        undo = drive.host.running("undoable")
        drive.driver.raised(undo, b"cannot", False)
        drive.host.flush()
        drive.host.stopped.append(undo.attempt)
        if drive.host.timers:
            drive.host.timers.pop()[1]()
            drive.host.flush()
    while drive.driver.ending is None:
        drive.commit()
    assert drive.driver.ending.status == "paused"
    assert drive.driver.ending.failed == ("undoable",)
    assert drive.driver.ending.failure == b"cannot"


def test_nothing_is_handed_to_the_journal_twice():
    drive = Drive(effect.bind(1))
    drive.driver.flush()
    drive.driver.flush()
    assert len(drive.host.batches) == 1


def test_nothing_follows_a_claim_before_the_claim_is_durable():
    """If it is refused, another driver of the same engine may have the same epoch, and what follows would pass for that
    driver's."""
    drive = Drive(loose.bind(loose.bind(1)), opening=[Claim("r", "engine", 1)], epoch=2)
    drive.finish(drive.started[0], 1)
    assert len(drive.host.batches) == 1
    drive.commit()
    assert len(drive.host.batches) == 2


def test_the_delay_of_a_retry_counts_from_the_failure_not_from_a_restart():
    drive = Drive(undoable.bind(1))
    drive.commit()
    drive.fail("undoable")
    drive.commit()
    drive.host.clock += 2
    drive.undo("undoable")
    ((seconds, _),) = drive.host.timers
    assert seconds == 1


def test_a_clock_that_was_set_back_does_not_lengthen_a_delay():
    drive = Drive(undoable.bind(1))
    drive.commit()
    drive.fail("undoable")
    drive.commit()
    drive.host.clock -= 1_000
    drive.undo("undoable")
    ((seconds, _),) = drive.host.timers
    assert seconds == 3
