"""Corners of task variables (design 2.11): the moment from which on what was written counts."""

from tests.core.building import Drive, graph


def test_what_a_task_wrote_counts_from_its_last_save_on():
    drive = Drive(graph("w writer,parts=2; z kept w"))
    drive.begin()
    drive.finish("w")
    assert drive.save("w") == ["+saved w"]
    assert not drive.run.rows["w"].wrote
    assert drive.save("w.1") == ["+saved w.1", "+wrote w", "start! z"]
    assert drive.run.rows["w"].wrote


def test_what_was_given_in_its_stead_is_no_write():
    drive = Drive(graph("w writer; z kept w"))
    drive.begin()
    drive.handle("w")
    assert drive.save("w") == ["+saved w", "start! z"]
    assert not drive.run.rows["w"].wrote
