"""Outputs in shared memory that are no more."""

from __future__ import annotations

import pickle

from onceflow.driver.outputs import Blob
from tests.driver.common import Drive, effect, large, loose, pair, pure, undoable


def test_an_output_that_is_lost_before_it_was_read_is_made_again():
    # given
    held, again = large(), large()
    drive = Drive(pure.bind(pure.bind(1), loose.bind(2)))
    drive.finish_with("pure", held)
    # when
    drive.lose(held)
    # then
    assert drive.started.count("pure") == 2
    drive.finish_with("pure", again)
    drive.finish("loose", "small")
    assert drive.host.running("pure_1").inputs == [again, pickle.dumps("small")]


def test_what_was_started_with_a_lost_object_starts_again_when_that_was_made_again():
    held, again = large(), large()
    drive = Drive(pure.bind(pure.bind(1)))
    drive.finish_with("pure", held)
    drive.lose(held)
    assert drive.started == ["pure", "pure_1"]
    drive.end("pure_1")
    assert drive.started == ["pure", "pure_1", "pure"]
    drive.finish_with("pure", again)
    assert drive.host.running("pure_1").inputs == [again]


def test_nobody_is_told_of_objects_that_the_run_does_not_hold():
    drive = Drive(pure.bind(pure.bind(1)))
    drive.finish_with("pure", large())
    drive.lose(large())
    assert drive.started == ["pure", "pure_1"]


def test_all_parts_in_one_object_are_lost_with_it():
    held = large()
    first, second = pair.bind(1)
    drive = Drive(pure.bind(first, pure.bind(second)))
    drive.finish_with("pair", held, held)
    drive.finish("pure", 1)
    assert drive.started == ["pair", "pure", "pure_1"]
    drive.lose(held)
    drive.end("pure_1")
    assert drive.started == ["pair", "pure", "pure_1", "pair"]


def test_a_saved_output_is_read_from_its_blob_when_its_object_is_lost():
    held = large()
    drive = Drive(pure.bind(loose.bind(1), pure.bind(2)))
    drive.finish_with("loose", held)
    drive.save("blob 1")
    drive.lose(held)
    drive.finish("pure", 1)
    assert drive.host.running("pure_1").inputs[0] == Blob("blob 1")
    assert drive.started.count("loose") == 1


def test_an_output_that_is_lost_while_it_is_saved_is_made_again_and_saved():
    held, again = large(), large()
    drive = Drive(pure.bind(loose.bind(1)))
    drive.finish_with("loose", held)
    drive.forget_save()
    assert drive.started == ["loose", "pure", "loose"]
    drive.finish_with("loose", again)
    assert drive.host.saves[0][1] is again


def test_an_attempt_that_waits_for_a_commit_does_not_start_with_a_lost_object():
    # given: an effect that reads something repeatable, and whose begun record is not durable
    held, again = large(), large()
    drive = Drive(effect.bind(pure.bind(1)))
    drive.finish_with("pure", held)
    assert drive.kinds == ["begun effect"]
    # when
    drive.lose(held)
    drive.commit()
    # then
    assert drive.started == ["pure", "pure"]
    drive.finish_with("pure", again)
    while "effect" not in drive.started:
        drive.commit()
    assert drive.host.running("effect").inputs == [again]


def test_an_attempt_that_waits_for_a_commit_reads_the_blob_of_a_lost_object():
    held = large()
    drive = Drive(effect.bind(loose.bind(1)))
    drive.finish_with("loose", held)
    drive.save("blob 1")
    assert "begun effect" in drive.kinds
    drive.lose(held)
    drive.commit()
    assert drive.host.running("effect").inputs == [Blob("blob 1")]


def test_an_undo_that_waits_for_a_commit_has_its_lost_inputs_rebuilt():
    # given: an undoable task with a large input has raised, and its undo is about to start
    held, again = large(), large()
    drive = Drive(undoable.bind(pure.bind(1)))
    drive.finish_with("pure", held)
    drive.commit()
    drive.fail("undoable")
    before = drive.host.started[:]
    drive.lose(held)
    # when: the records before the undo are durable
    while drive.host.committed < len(drive.host.batches):
        drive.commit()
    # then: its input is made again, for it alone
    (rebuilt,) = drive.host.started[len(before) :]
    assert rebuilt.node == "pure"
    drive.driver.finished(rebuilt, [again], False)
    drive.host.flush()
    while not drive.host.started[-1].undo:
        drive.commit()
    assert drive.host.started[-1].inputs == [again]


def test_what_was_rebuilt_for_an_undo_and_lost_is_rebuilt_again():
    held, private, again = large(), large(), large()
    drive = Drive(undoable.bind(pure.bind(1)))
    drive.finish_with("pure", held)
    drive.commit()
    drive.lose(held)
    drive.fail("undoable")
    while drive.host.committed < len(drive.host.batches):
        drive.commit()
    assert drive.started == ["pure", "undoable", "pure"]
    drive.driver.finished(drive.host.started[-1], [private], False)
    drive.lose(private)
    drive.end("undoable")  # its undo, which no worker had yet
    assert drive.started == ["pure", "undoable", "pure", "undoable", "pure"]
    drive.driver.finished(drive.host.started[-1], [again], False)
    drive.host.flush()
    assert drive.host.started[-1].undo
    assert drive.host.started[-1].inputs == [again]
