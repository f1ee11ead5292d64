"""Graphs whose time is over (design 2.8)."""

import pytest

from onceflow.core.model import events
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph
from tests.core.test_ending import KEEP, TRANSACTION, inside

GIVEN = ["give e/c", "+abandoned e/c", "save e/c"]


def test_a_graph_whose_time_is_over_ends_with_an_outcome_that_is_saved_before_it_is_seen():
    drive = inside(KEEP, "a kept; b kept a; c kept b")
    assert drive.expire("e/c", 1) == ["stop e/a", *GIVEN]
    assert drive.save("e/c")[:1] == ["+saved e/c"]
    assert drive.run.rows["n"].state == "running"


def test_what_is_irrevocable_is_told_to_stop_and_waited_for():
    drive = inside(KEEP, "i default; c kept i")
    assert drive.expire("e/c", 1) == ["withdraw e/i", "stop e/i"]
    assert drive.end("e/i") == GIVEN


def test_what_can_be_undone_is_ended_and_undone():
    drive = inside(KEEP, "u undoable; c kept u")
    assert drive.expire("e/c", 1) == ["stop e/u"]
    assert drive.end("e/u") == ["undo e/u"]
    assert drive.undone("e/u") == ["+undone e/u", *GIVEN]


def test_a_transaction_in_it_that_has_no_result_is_taken_back():
    drive = inside(TRANSACTION, "u undoable; a kept u; c kept a")
    drive.complete("e/u")
    assert drive.expire("e/c", 1) == ["stop e/a", "+recovering e/u", "undo e/u with output"]
    assert drive.undone("e/u")[-3:] == GIVEN


def test_a_graph_that_has_its_result_is_not_ended():
    drive = inside(KEEP, "a kept; c kept a")
    drive.complete("e/a")
    drive.finish("e/c")
    assert drive.expire("e/c", 1) == []


def test_a_result_that_comes_while_the_graph_is_being_ended_counts():
    drive = inside(KEEP, "a default")
    assert drive.expire("e/a", 1) == ["withdraw e/a", "stop e/a"]
    assert drive.run.handle(events.Finished("e/a", drive.run.rows["e/a"].attempt))
    assert drive.run.rows["e/a"].state == "done"
    assert not drive.run.rows["e/a"].scope.closed


def test_a_graph_that_waits_for_being_tried_again_is_not():
    drive = inside(KEEP, "a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    assert drive.expire("e/c", 1) == GIVEN


def test_a_crash_before_the_outcome_is_durable_forgets_that():
    drive = inside(KEEP, "a kept; c kept a")
    drive.expire("e/c", 1)
    again = drive.reload()
    assert again.begin() == ["start e/a"]
    assert again.expire("e/c", 1) == ["stop e/a", *GIVEN]


def test_a_graph_that_is_not_there_is_illegal():
    drive = inside(KEEP, "a kept; c kept a")
    with pytest.raises(IllegalEvent):
        drive.expire("e/c", 2)
    with pytest.raises(IllegalEvent):
        drive.expire("n", 0)


def test_a_graph_within_it_that_is_not_saved_is_dropped():
    drive = inside(KEEP, "a kept")
    drive.finish("e/a", graph=graph("x kept; y kept x"))
    assert drive.expire("e~2/x", 1)[:2] == ["stop e~2/x", "drop e/a"]


def begun(text, nested):
    drive = Drive(graph(text))
    drive.begin()
    drive.complete("e", graph=graph(nested))
    return drive


@pytest.mark.parametrize("small", [True, False])
def test_small_outcomes_are_carried_in_the_record_of_what_reads_them(small):
    drive = begun("e kept,guarding; u undoable e", "a kept")
    drive.tell(events.Expired("e/a", 1, small))
    assert ("+begun u carrying e/a.0" in drive.save("e/a")) == small


def test_nothing_ends_in_a_run_that_is_being_stopped():
    drive = begun("e kept,guarding; z kept e", "a default; b kept; y kept a b")
    drive.raises("e/b", permanent=True)
    assert drive.expire("e/a", 1) == []


def test_a_graph_that_is_to_be_tried_again_may_run_out_of_time():
    drive = begun("e kept,guarding; z kept e", "a default; b kept; y kept a b")
    assert drive.ends("e/b", 1, again=True) == ["withdraw e/a"]
    assert drive.expire("e/a", 1) == ["withdraw e/a", "stop e/a"]


def test_a_transaction_that_has_its_result_is_not_taken_back():
    drive = begun("e kept,guarding; z kept e", "t kept,transaction; y kept t")
    drive.complete("e/t", graph=graph("u undoable; v kept u"))
    drive.complete("e/t/u", "e/t/v")
    assert not any("undo" in line for line in drive.expire("e/y", 1))
    assert drive.play().status == "succeeded"
    assert not drive.run.undos


def test_what_hangs_in_a_graph_that_ends_anyway_is_stopped_when_time_is_over():
    drive = inside(KEEP, "a kept; i default; u undoable; c kept a i u")
    drive.ends("e/a", 1)
    assert drive.expire("e/c", 1) == ["withdraw e/i", "stop e/u", "stop e/i"]
    drive.end("e/i")
    assert drive.end("e/u") == ["undo e/u"]
    assert drive.undone("e/u") == ["+undone e/u", *GIVEN]
