"""Late and impossible events in corners: of undos and rebuilds, of scopes, of runs that are over (design 2.6, 2.8)."""

import pytest

from onceflow.core.model import events
from onceflow.errors import IllegalEvent
from tests.core.building import begun, graph
from tests.core.test_illegal import snapshot


def assert_late(drive, event):
    """It is answered with nothing, and changes nothing."""
    before = snapshot(drive.run)
    assert drive.run.handle(event) == []
    assert snapshot(drive.run) == before


def assert_illegal(drive, event):
    before = snapshot(drive.run)
    with pytest.raises(IllegalEvent):
        drive.run.handle(event)
    assert snapshot(drive.run) == before


# -- undos and rebuilds ------------------------------------------------------------------------------------------------


def undoing(text="u undoable,retries=1; z kept u"):
    """The attempt of `u` raised, and is being undone."""
    drive = begun(text)
    drive.raises("u")
    return drive


def rebuilding():
    """`a` is run privately, because an undo of `u` has to read it."""
    drive = begun("a pure; u undoable,retries=1 a; z kept u")
    drive.finish("a", small=False)
    drive.lose("a")
    drive.raises("u")
    assert list(drive.rebuilding) == ["a"]
    return drive


def test_an_undo_that_is_said_to_have_finished_as_a_task_does_is_no_rebuild():
    drive = undoing()
    assert_late(drive, events.Finished("u", drive.undos["u"]))


@pytest.mark.parametrize("late", [events.Undone, events.UndoFailed])
def test_an_undo_that_raised_and_waits_does_not_end_twice(late):
    drive = undoing()
    attempt = drive.undos["u"]
    drive.undo_fails("u")
    assert_late(drive, late("u", attempt))
    assert drive.elapse("u") == ["undo u"]


@pytest.mark.parametrize("late", [events.Finished, events.Raised])
def test_a_rebuild_that_raised_and_waits_does_not_end_twice(late):
    drive = rebuilding()
    attempt = drive.rebuilding["a"]
    drive.tell(events.Raised("a", attempt))
    assert_late(drive, late("a", attempt))
    drive.rebuilding.clear()
    assert drive.elapse("a") == ["start a privately"]


def test_a_delay_that_nobody_waits_for_does_not_start_an_undo_once_more():
    drive = undoing()
    assert_late(drive, events.Elapsed("u", drive.undos["u"]))


def test_a_delay_is_over_for_the_attempt_that_waits_and_for_no_other():
    drive = begun("k kept,retries=2; z kept k")
    drive.raises("k")
    first = drive.waits["k"]
    drive.elapse("k")
    drive.raises("k")
    assert_late(drive, events.Elapsed("k", first))


def test_an_attempt_is_not_tried_again_before_it_is_undone():
    drive = undoing()
    assert_late(drive, events.Elapsed("u", drive.attempts["u"][0]))
    assert drive.undone("u") == ["+undone u", "wait u 1"]


def test_an_undo_that_goes_on_is_not_parked():
    drive = undoing()
    assert_illegal(drive, events.RetryUndo("u"))


def test_of_a_loaded_run_only_an_undo_that_was_parked_can_be_retried():
    drive = undoing("u undoable; z kept u")
    for _ in range(4):
        drive.undo_fails("u")
        drive.elapse("u")
    assert drive.undo_fails("u") == ["+parked u", "park u"]
    again = drive.reload()
    again.begin()
    assert_illegal(again, events.RetryUndo("z"))
    assert "undo u" in again.tell(events.RetryUndo("u"))


# -- scopes ------------------------------------------------------------------------------------------------------------


def inside(text="e kept; n default e", nested="a kept; b kept a; c kept b"):
    drive = begun(text)
    drive.complete("e", graph=graph(nested))
    return drive


@pytest.mark.parametrize(("failed", "ends"), [(2, 1), (1, 2), (1, -1)])
def test_nobody_answers_for_a_graph_that_the_task_is_not_in(failed, ends):
    drive = inside()
    assert_illegal(drive, events.Ends("e/a", drive.running["e/a"], failed, ends))


def test_an_answer_that_comes_out_of_a_graph_that_is_gone_is_late():
    drive = inside()
    assert_late(drive, events.Ends("e/gone", drive.running["e/a"], 1, 1))


@pytest.mark.parametrize("event", [events.Expired("e/gone", 1), events.Admitted("e/gone")])
def test_what_is_said_of_a_node_of_a_graph_that_is_gone_is_late(event):
    assert_late(inside(), event)


# -- joins -------------------------------------------------------------------------------------------------------------

FORK = "c kept,aside; j {}; k kept j"


@pytest.mark.parametrize("kind", ["pure,saved", "loose", "writer", "default"])
def test_a_task_that_is_no_wait_cannot_join(kind):
    drive = inside(nested=FORK.format(kind))
    drive.complete("e/c")
    assert_illegal(drive, events.Finished("e/j", drive.running["e/j"], joined=("e/c",)))


def test_what_a_handler_gave_has_joined_nobody():
    drive = inside(nested=FORK.format("kept"))
    drive.complete("e/c")
    assert_illegal(drive, events.Finished("e/j", drive.running["e/j"], handled=True, joined=("e/c",)))


def test_a_graph_has_joined_nobody():
    drive = inside(nested=FORK.format("kept"))
    drive.complete("e/c")
    assert_illegal(drive, events.Finished("e/j", drive.running["e/j"], graph("x kept"), joined=("e/c",)))


# -- a run that is over ------------------------------------------------------------------------------------------------


def test_a_delay_ends_too_late_for_a_run_that_is_over():
    drive = begun("k kept,retries=1; f kept; z kept k f")
    drive.raises("k")
    drive.raises("f")
    assert drive.status == "failed"
    assert_late(drive, events.Elapsed("k", drive.waits["k"]))


def test_a_graph_is_not_tried_again_in_a_run_that_is_over():
    drive = inside(nested="a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    drive.cancel()
    assert drive.status == "cancelled"
    assert_late(drive, events.Elapsed("e", drive.waits["e"]))


def test_nobody_is_admitted_to_a_run_that_is_over():
    drive = begun("a kept,asks; f kept; z kept a f")
    drive.raises("f")
    assert drive.status == "failed"
    assert_late(drive, events.Admitted("a"))


def test_nothing_is_limited_in_a_run_that_is_over():
    drive = begun("a kept")
    drive.complete("a")
    assert_late(drive, events.Limit("a", 3))


def test_an_undo_that_says_it_has_finished_is_not_what_is_made_again_for_another_one():
    drive = begun("p pure; u undoable p; v undoable; z kept u v")
    drive.complete("v")
    drive.finish("p", small=False)
    drive.complete("u")
    drive.lose("p")
    drive.cancel(undo=True)
    drive.end("z")
    assert set(drive.rebuilding) == {"p"}
    assert_late(drive, events.Finished("v", drive.undos["v"]))
