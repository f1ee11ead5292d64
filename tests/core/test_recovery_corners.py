"""What is taken back (design 2.5): outcomes that handlers gave, what never began, what turns up late."""

from tests.core.building import begun, graph


def test_a_given_outcome_that_is_lost_before_it_is_saved_is_dropped_in_the_journal():
    drive = begun("a pure; b kept a")
    assert drive.handle("a") == ["+handled a", "save a", "start b"]
    assert drive.lose("a", attempts="b")[:2] == ["+recovering a", "+dropped a"]


def test_what_was_to_be_irrevocable_in_a_graph_that_ended_before_it_began_can_be_dropped():
    # given a graph that has ended, with something irrevocable in it that never began
    drive = begun("u loose; e kept u; g kept u; n kept e g", "u")
    drive.complete("e", graph=graph("a kept; i default a; c kept i"))
    drive.ends("e/a", 1)
    drive.save("e/c")
    # when all of it has to be dropped
    answer = drive.lose("u", attempts="g")
    # then nothing stands in the way
    assert "+dropped e e/a e/c e/i u" in answer
    assert drive.play().status == "succeeded"


def test_what_ran_again_after_it_was_dropped_does_not_count_as_abandoned():
    drive = begun("u loose; e kept u; g kept u; n kept e g", "u", "e")
    assert "start u" in drive.lose("u", attempts="g")
    drive.complete("u", "e")
    assert not drive.run.rows["e"].abandoned


def test_after_a_crash_there_is_no_output_behind_a_record_that_says_done():
    drive = begun("u undoable,unsaved; b kept after:u; z kept b")
    assert "+done u" in drive.finish("u")
    again = drive.reload()
    again.begin()
    again.cancel(undo=True)
    assert again.end("b") == ["+recovering u", "undo u"]


def test_a_graph_that_turns_up_while_it_is_taken_back_is_dropped_with_the_task_that_returned_it():
    # given an undoable task that has read the result of a graph, which a crash took
    drive = begun("l loose; a kept l; p pure a; u undoable p; g kept l u; z kept g", "l", "a")
    drive.finish("p", graph=graph("q pure"))
    drive.finish("p/q", small=False)
    drive.complete("u")
    drive.lose("l", attempts="g")
    again = drive.reload()
    again.begin()
    # when the graph is made again for the undo
    assert again.finish_rebuilding("p", graph("q pure")) == ["start p/q privately"]
    assert again.finish_rebuilding("p/q") == ["undo u with output"]
    # then it is dropped as well
    assert "+dropped a l p p/q u" in again.undone("u")
    assert again.play({"p": graph("q pure")}).status == "succeeded"
