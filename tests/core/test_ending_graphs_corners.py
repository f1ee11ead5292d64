"""What a crash leaves of graphs that have ended, or are to be tried again (design 2.8)."""

from onceflow.core.model import events
from tests.core.building import Drive, graph
from tests.core.test_ending import KEEP, TRANSACTION, inside
from tests.core.test_ending_time_over_corners import forking


def loaded(drive):
    """Another driver after a crash, and what it does first."""
    again = drive.reload()
    return again, again.begin()


# -- which of them have ended ------------------------------------------------------------------------------------------


def test_a_graph_that_had_ended_and_was_dropped_is_no_more():
    drive = Drive(graph("o loose; e kept o; g kept o; n kept e g"))
    drive.begin()
    drive.complete("o")
    drive.complete("e", graph=graph("a kept; c kept a"))
    drive.ends("e/a", 1)
    drive.save("e/c")
    assert "+dropped e e/a e/c o" in drive.lose("o", attempts="g")
    _, said = loaded(drive)
    assert said == ["start o"]


def test_a_result_that_is_saved_in_part_counts_after_an_outcome_that_was_forgotten():
    # given a graph that had an outcome, which a crash took, and then came to its result
    drive = inside("e kept,parts=2; n default e", "a kept; c pure,saved,parts=2 a")
    assert "+abandoned e/c" in drive.ends("e/a", 1)
    drive, _ = loaded(drive)
    drive.complete("e/a")
    drive.finish("e/c")
    # when a crash takes a part of that
    drive.save("e/c.1")
    drive, said = loaded(drive)
    # then only that part is saved again
    assert said == ["start e/c"]
    assert "save e/c" in drive.finish("e/c")
    assert drive.saves.keys() == {("e/c", 0)}


def test_what_stands_aside_goes_on_in_a_graph_with_a_result_after_an_outcome_that_was_forgotten():
    # given a graph that had an outcome, which a crash took, and then came to its result
    drive = forking(KEEP, "c kept,aside; s kept")
    assert "+abandoned e/s" in drive.ends("e/s", 1)
    drive, _ = loaded(drive)
    drive.complete("e/s")
    # when there is a crash
    _, said = loaded(drive)
    # then what stands aside in it is not abandoned
    assert "start e/c" in said


def test_an_outcome_that_could_not_be_saved_as_a_whole_is_dropped_when_the_run_is_resumed():
    # given a graph that was to end, and whose outcome was saved in part
    drive = Drive(graph("e kept,parts=2; n default e"))
    drive.begin()
    drive.complete("e", graph=graph("c kept,aside; s kept,parts=2", sink="s"))
    drive.ends("e/s", 1)
    drive.save("e/s")
    assert drive.save_fails("e/s.1", permanent=True)[0] == "+failed e/s 0 final"
    drive.play()
    assert drive.status == "failed"
    # when the run is loaded, and resumed
    again = drive.reload()
    said = again.tell(events.Resume())
    # then it has not ended
    assert "+dropped e/s" in said
    assert "start e/s" in said


def test_a_graph_may_be_returned_beside_one_that_has_ended_in_which_something_irrevocable_never_began():
    # given a graph that has ended, and a crash, after which it may still be dropped
    drive = Drive(graph("o loose; e kept o; g kept after:o; n kept e g"))
    drive.begin()
    drive.complete("o")
    drive.complete("e", graph=graph("a kept; i default a; c kept i"))
    drive.ends("e/a", 1)
    drive.save("e/c")
    drive, said = loaded(drive)
    assert said == ["start g"]
    # when something else returns a graph
    # then what has ended does not count
    assert drive.finish("g", graph=graph("x kept; y kept x")) == ["save g", "start g/x"]


# -- those that have ended in a transaction ----------------------------------------------------------------------------


def in_transaction(nested):
    """A drive whose `e/f`, in a transaction, has returned this graph, with the sink `y`."""
    drive = inside(TRANSACTION, "f kept,guarding; a kept f; c kept a")
    drive.complete("e/f", graph=graph(nested, sink="y"))
    return drive


def test_what_is_taken_back_aside_in_a_graph_that_had_ended_before_a_crash_does_not_start_again():
    # given a graph that has ended, with something aside in it that was done, in a run that is undone if it fails
    drive = Drive(graph("e kept; n default e"), on_failure="undo")
    drive.begin()
    drive.complete("e", graph=graph("f kept,guarding; a kept f; c kept a"))
    drive.complete("e/f", graph=graph("u undoable; k kept,aside u; x kept; y kept x", sink="y"))
    drive.complete("e/f/u", "e/f/k")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when that is taken back after a crash, but not what the graph has ended with
    drive, _ = loaded(drive)
    assert "+recovering e/f/k e/f/u" in drive.raises("e/a", permanent=True)
    drive.undone("e/f/u")
    assert drive.status == "undone"
    # then nothing in that graph starts when the run is resumed
    drive = drive.reload()
    said = drive.begin() + drive.tell(events.Resume())
    assert [it for it in said if it.startswith("start")] == ["start e/a"]


def test_what_was_not_saved_when_its_graph_ended_is_saved_if_that_has_not_ended_after_all():
    # given a graph that has ended before something in it was saved that an undo would read
    drive = in_transaction("v undoable; p pure,saved v; u undoable p; x kept u; y kept x")
    drive.complete("e/f/v")
    drive.finish("e/f/p")
    drive.complete("e/f/u")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when the transaction around it is taken back after a crash, and tried again
    drive, _ = loaded(drive)
    drive.ends("e/a", 1, again=True)
    drive.undone("e/f/u")
    drive.undone("e/f/v")
    drive.elapse("e")
    drive.complete("e/f/v")
    # then that is saved like everything else
    assert "save e/f/p" in drive.finish("e/f/p")


def test_what_something_irrevocable_stands_on_is_kept_if_a_graph_that_had_ended_before_a_crash_has_not_after_all():
    # given a graph that has ended, with something irrevocable in it, below what was not saved and may change
    drive = in_transaction("p loose; s kept p; i default s; u undoable; q kept; r kept q; x kept i u; y kept r x")
    drive.finish("e/f/p")
    drive.complete("e/f/s", "e/f/i", "e/f/u")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when the transaction around it is taken back after a crash
    drive, _ = loaded(drive)
    # then nothing above that is dropped, and what never ran is
    assert "+recovering e/f/q e/f/r e/f/u e/f/x e/f/y" in drive.ends("e/a", 1, again=True)


def test_what_an_undo_reads_is_made_again_after_a_crash_in_a_graph_that_has_ended():
    # given a graph that has ended, with something in it that can be undone; nothing of that was saved
    drive = in_transaction("p pure; u undoable,unsaved p; x kept u; y kept x")
    drive.finish("e/f/p", small=False)
    drive.finish("e/f/u")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when the transaction around it is taken back after a crash
    drive, _ = loaded(drive)
    # then the undo sees what the attempt saw
    assert "start e/f/p privately" in drive.ends("e/a", 1)
    assert drive.finish_rebuilding("e/f/p") == ["undo e/f/u"]


# -- those that are tried again ----------------------------------------------------------------------------------------


def test_nothing_starts_in_a_graph_that_waits_to_be_tried_again():
    drive = inside(KEEP, "a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    drive, said = loaded(drive)
    assert said == ["wait e 1"]
    assert drive.elapse("e") == ["start e/a"]


def test_a_graph_in_one_that_waits_to_be_tried_again_waits_with_it():
    # given a graph that was tried again, in one that waits for that
    drive = inside(KEEP, "f kept; b kept; c kept f b")
    drive.complete("e/f", graph=graph("a kept; y kept a"))
    drive.ends("e/f/a", 2, again=True)
    drive.elapse("e/f")
    drive.ends("e/b", 1, again=True)
    # when there is a crash
    drive, said = loaded(drive)
    # then one delay is waited for, and both open
    assert said == ["wait e 1"]
    assert drive.elapse("e") == ["start e/b", "start e/f/a"]


def test_a_graph_that_was_tried_again_and_has_its_result_waits_no_more():
    drive = inside("e kept; n kept e", "a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    drive.elapse("e")
    drive.complete("e/a", "e/c")
    _, said = loaded(drive)
    assert said == ["start n"]


def test_what_was_abandoned_in_an_inner_graph_keeps_nothing_when_the_outer_graph_has_ended_too():
    # given two graphs that have ended, one in the other, with something in the inner one that was saved in part
    drive = inside(TRANSACTION, "f kept,guarding; b kept f; c kept b")
    drive.complete("e/f", graph=graph("g kept,guarding; a kept g; w kept a"))
    drive.complete("e/f/g", graph=graph("u undoable; l loose; h kept,parts=2 l; x kept; y kept h u x"))
    drive.complete("e/f/g/u")
    drive.finish("e/f/g/l", "e/f/g/h")
    drive.save("e/f/g/h.1")
    drive.ends("e/f/g/x", 3, failed=-1)
    drive.save("e/f/g/y")
    drive.ends("e/f/a", 2, failed=-1)
    drive.save("e/f/w")
    # when the transaction around them is taken back after a crash
    drive, _ = loaded(drive)
    said = drive.ends("e/b", 1, again=True)
    # then what it had read was abandoned as well, and is dropped with it
    assert "+recovering e/f/a e/f/g/h e/f/g/l e/f/g/u e/f/g/x e/f/g/y e/f/w" in said
    drive.undone("e/f/g/u")
    assert drive.elapse("e") == ["+begun e/f/g/u", "start! e/f/g/u", "start e/f/g/l", "start e/f/g/x"]
