"""Graphs that end before their result is there, and transactions (design 2.8)."""

import pytest

from onceflow.core.model import events
from onceflow.core.rules import ending
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph

KEEP, TRANSACTION = "e kept; n default e", "e kept,transaction; n default e"


def inside(text, nested):
    """A drive whose `e` has returned this graph, and is saved."""
    drive = Drive(graph(text))
    drive.begin()
    drive.complete("e", graph=graph(nested))
    return drive


def test_an_answer_for_a_graph_ends_it_with_an_outcome_that_is_saved_before_it_is_seen():
    drive = inside(KEEP, "a kept; b kept a; c kept b")
    assert drive.ends("e/a", 1) == ["give e/c", "+abandoned e/c", "save e/c"]
    assert drive.save("e/c")[:1] == ["+saved e/c"]
    assert drive.run.rows["n"].state == "running"


def test_what_has_no_effect_is_stopped_and_what_has_begun_comes_to_its_end():
    drive = inside(KEEP, "a kept; p kept; u undoable; c kept a p u")
    assert drive.ends("e/a", 1) == ["stop e/p"]
    assert drive.finish("e/u")[-3:] == ["give e/c", "+abandoned e/c", "save e/c"]


def test_a_break_leaves_what_was_done():
    drive = inside(TRANSACTION, "u undoable; a kept u; c kept a")
    drive.complete("e/u")
    assert drive.ends("e/a", 1, failed=-1) == ["give e/c", "+abandoned e/c", "save e/c"]


def test_a_transaction_is_undone_before_it_ends():
    drive = inside(TRANSACTION, "u undoable; v undoable u; a kept v; c kept a")
    drive.complete("e/u", "e/v")
    assert drive.ends("e/a", 1) == ["+recovering e/u e/v", "undo e/v with output"]
    assert drive.undone("e/v") == ["+undone e/v", "undo e/u with output"]
    assert drive.undone("e/u")[-3:] == ["give e/c", "+abandoned e/c", "save e/c"]


def test_a_transaction_that_is_tried_again_starts_afresh_after_its_delay():
    drive = inside(TRANSACTION, "u undoable; a kept u; c kept a")
    drive.complete("e/u")
    drive.ends("e/a", 1, again=True)
    assert drive.undone("e/u")[-2:] == ["+again e", "wait e 1"]
    assert drive.elapse("e") == ["+begun e/u carrying e.0", "start! e/u"]


def test_a_task_whose_graph_is_not_saved_is_undone_before_it_takes_the_place_of_the_result():
    drive = inside("e kept; n kept e", "u undoable,unsaved")
    drive.finish("e/u", graph=graph("x loose; y pure x"))
    assert drive.ends("e~2/x", 1) == ["+recovering e/u", "undo e/u with output"]
    assert drive.undone("e/u")[-3:] == ["give e/u", "+abandoned e/u", "save e/u"]
    drive.save("e/u")
    drive.cancel(undo=True)
    assert drive.end("n") == ["+finished cancelled", "finish cancelled"]


def test_what_something_irrevocable_stands_on_is_kept():
    drive = inside(TRANSACTION, "u undoable; i default u; v undoable i; a kept v; c kept a")
    drive.complete("e/u", "e/i", "e/v")
    assert drive.ends("e/a", 1) == ["+recovering e/v", "undo e/v with output"]


def test_a_failure_that_nobody_takes_undoes_the_transaction_and_fails_the_run():
    drive = inside("e kept,transaction; o undoable; n default e o", "u undoable; a kept u; c kept a")
    drive.complete("o")
    drive.complete("e/u")
    assert drive.raises("e/a") == ["+failed e/a 1 final", "+recovering e/a e/u", "undo e/u with output"]
    assert drive.undone("e/u")[-1] == "finish failed failed=e/a"


def test_an_answer_that_is_not_durable_is_forgotten_by_a_crash():
    drive = inside(KEEP, "a kept; c kept a")
    drive.ends("e/a", 1)
    again = drive.reload()
    assert again.begin() == ["start e/a"]


def test_a_graph_that_has_ended_stays_so_after_a_crash():
    drive = inside(KEEP, "a kept; b loose a; c kept b")
    drive.ends("e/a", 1)
    drive.save("e/c")
    again = drive.reload()
    assert again.begin() == ["start! n"]
    assert again.complete("n")[-1] == "finish succeeded"


def test_a_second_failure_in_a_graph_that_ends_changes_nothing():
    drive = inside(KEEP, "a default; b default; c kept a b")
    drive.ends("e/a", 1)
    assert drive.ends("e/b", 1) == ["give e/c", "+abandoned e/c", "save e/c"]


def test_the_run_may_end_as_a_whole():
    drive = Drive(graph("a kept; b kept a; c kept b"))
    drive.begin()
    assert drive.ends("a", 0, failed=-1) == ["give c", "+abandoned c", "save c"]
    assert drive.save("c")[-1] == "finish succeeded"


def test_a_scope_that_does_not_exist_is_illegal():
    drive = Drive(graph("a kept"))
    drive.begin()
    attempt = drive.running["a"]
    with pytest.raises(IllegalEvent):
        drive.tell(events.Ends("a", attempt, 1, 1))


def test_a_graph_that_waits_for_being_tried_again_does_not_open_if_the_one_around_it_ends():
    drive = inside("e kept; o kept; n default e o", "a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    drive.ends("o", 0, failed=-1)
    assert drive.elapse("e") == []


def test_what_comes_after_a_graph_that_has_ended_sees_what_was_written_in_it():
    # given that somebody in the graph has written something
    drive = inside("e kept; n kept e", "w writer; a kept; c kept w a")
    drive.finish("e/w")
    drive.save("e/w")
    # when the graph ends before the journal has it
    drive.ends("e/a", 1)
    # then whoever comes after it waits for the journal
    assert "start! n" in drive.save("e/c")


def test_a_graph_may_be_given_its_outcome_after_what_it_returned_was_dropped():
    # given a graph that is not saved, whose sink was done
    drive = Drive(graph(KEEP))
    drive.begin()
    drive.finish("e", graph=graph("a kept"))
    drive.finish("e/a", graph=graph("x kept; y kept x"))
    # when it ends, and is saved
    drive.ends("e~2/x", 1)
    # then its outcome is saved once
    assert drive.save("e").count("+abandoned e/a") == 1


def test_what_stood_aside_in_a_graph_that_has_ended_need_not_be_saved():
    # given something that is done and stands aside
    drive = Drive(graph("e kept; o kept; n default e o"))
    drive.begin()
    drive.finish("e", graph=graph("c kept,aside; s kept", sink="s"))
    drive.save("e")
    drive.finish("e/c")
    # when the run ends, and its save is lost
    drive.ends("o", 0, failed=-1)
    drive.end("e/s")
    # then nobody waits for it
    assert drive.save("n")[-1] == "finish succeeded"


def test_a_graph_may_be_returned_beside_one_that_has_ended_in_which_something_was_to_be_written():
    # given a graph with a writer that has ended, and that may run again
    drive = Drive(graph("u loose; e kept u; g kept u; n default e g"))
    drive.begin()
    drive.finish("u")
    drive.finish("e", graph=graph("a kept; w writer a; c kept w"))
    drive.save("e")
    drive.ends("e/a", 1)
    drive.save("e/c")
    # when something else returns a graph
    assert drive.finish("g", graph=graph("x kept; y kept x")) == ["save g", "start g/x"]


def test_an_outcome_that_is_about_to_be_dropped_has_ended_nothing_after_a_crash():
    # given a run that a handler ended, that was cancelled before that was saved, and whose undo waits for a person
    drive = Drive(graph("u undoable; b kept; z kept u b"))
    drive.begin()
    drive.complete("u")
    drive.ends("b", 0, failed=-1)
    drive.cancel(undo=True)
    assert "+recovering u z" in drive.save("z")
    while "park u" not in drive.undo_fails("u"):
        drive.elapse("u")
    # when it is resumed
    again = drive.reload()
    again.begin()
    again.tell(events.Resume())
    # then it goes on as if nobody had ended it
    assert "start b" in again.undone("u")
    assert again.play().status == "succeeded"


@pytest.mark.parametrize("small", [True, False])
def test_small_outcomes_are_carried_in_the_record_of_what_reads_them(small):
    drive = inside("e kept,guarding; u undoable e", "a kept")
    drive.tell(events.Ends("e/a", drive.running.pop("e/a"), 1, 1, small=small))
    assert ("+begun u carrying e/a.0" in drive.save("e/a")) == small


def test_a_graph_that_waits_to_be_tried_again_is_known_by_its_attempt():
    drive = inside("e kept,guarding; z kept e", "a kept")
    drive.ends("e/a", 1, again=True)
    assert ending.is_pausing(drive.run, drive.waits["e"])
    assert not ending.is_pausing(drive.run, 1)


def test_what_returned_a_transaction_is_not_released_before_that_has_its_result():
    drive = Drive(graph(TRANSACTION))
    drive.begin()
    drive.complete("e", graph=graph("u undoable; c kept u"))
    said = [*drive.complete("e/u"), *drive.complete("e/c", graph=graph("d kept; g kept d")), *drive.complete("e~2/d")]
    assert "release e" not in said
    assert "release e" in drive.complete("e~2/g")


def reopened():
    """A transaction that is tried again, and in it a graph that had ended."""
    drive = Drive(graph("t kept,transaction; z kept t"))
    drive.begin()
    drive.complete("t", graph=graph("x kept; f kept x"))
    drive.complete("t/x", graph=graph("u undoable; w kept; y loose; p pure; s loose u w y p"))
    drive.complete("t/x/u")
    drive.ends("t/x/w", 2)
    drive.save("t/x/s")
    assert "+recovering t/x/p t/x/s t/x/u t/x/w t/x/y" in drive.ends("t/f", 1, again=True)
    drive.undone("t/x/u")
    return drive


def test_what_was_abandoned_in_a_transaction_that_is_tried_again_starts_afresh():
    drive = reopened()
    started = [said for said in drive.elapse("t") if said.startswith("start")]
    assert started == ["start! t/x/u", "start t/x/w", "start t/x/y", "start t/x/p"]


def test_it_is_saved_as_it_would_have_been():
    drive = reopened()
    drive.elapse("t")
    assert "save t/x/w" in drive.finish("t/x/w")
    assert "save t/x/y" not in drive.finish("t/x/y")
    drive.complete("t/x/p", "t/x/u")
    assert "save t/x/s" in drive.finish("t/x/s")


def test_nothing_is_left_of_its_end():
    rows = reopened().run.rows
    assert not any(row.abandoned or row.scope.over or row.ended for row in rows.values())
    assert rows["t/x/p"].repeatable
    assert not rows["t/x/w"].repeatable


def test_a_graph_that_is_to_be_tried_again_is_so_with_the_one_around_it():
    # given a graph that waits for something begun before it is tried again
    drive = Drive(graph("t kept; z kept t"))
    drive.begin()
    drive.complete("t", graph=graph("x kept; f kept; g kept x f"))
    drive.complete("t/x", graph=graph("i default; w kept; s kept i w"))
    drive.ends("t/x/w", 2, again=True)
    # when the one around it is to be tried again as well
    drive.ends("t/f", 1, again=True)
    # then they are tried again together
    assert [said for said in drive.finish("t/x/i") if said[0] == "+"] == ["+again t"]
    assert [said for said in drive.elapse("t") if said.startswith("start")] == ["start t/f", "start t/x/w"]


def test_a_graph_inside_of_the_one_that_has_failed_cannot_end_for_it():
    drive = inside(KEEP, "a kept; c kept a")
    with pytest.raises(IllegalEvent, match="has failed"):
        drive.ends("e/a", 1, failed=0)
