"""Graphs that end before their result is there (design 2.8): where several of them, results, writers and turns meet."""

from onceflow.core.model import commands
from onceflow.core.rules import ending
from tests.core.building import Drive, graph
from tests.core.test_ending import KEEP, TRANSACTION, inside
from tests.core.test_ending_time_over_corners import forking

GIVEN = ["give e/c", "+abandoned e/c", "save e/c"]
TWO = "e kept; f kept; n kept e f"


def two_graphs(first, second, text=TWO):
    """A drive whose `e` and `f` have returned these graphs, and are saved."""
    drive = Drive(graph(text))
    drive.begin()
    drive.complete("e", graph=graph(first))
    drive.complete("f", graph=graph(second))
    return drive


def cause_in(drive):
    """Whose failure the outcome in the last answer is for."""
    return [command.cause for command in drive.commands if isinstance(command, commands.Give)]


# -- who may answer ----------------------------------------------------------------------------------------------------


def test_nobody_answers_for_a_graph_of_a_run_that_is_stopping():
    drive = inside("e kept; o kept; n default e o", "a default; c kept a")
    drive.raises("o")
    assert drive.ends("e/a", 1)[0] == "+failed e/a 1 final"
    assert drive.status == "failed"


def test_nobody_answers_for_a_graph_because_of_a_task_whose_output_counts():
    drive = inside(KEEP, "a pure; b kept a; d default b; c kept a d")
    drive.complete("e/a", "e/b")
    assert drive.lose("e/a") == ["start e/a"]
    assert drive.ends("e/a", 1) == ["+failed e/a 1 final", "withdraw e/d"]


def test_a_graph_that_has_its_result_is_not_tried_again():
    drive = forking(KEEP, "c kept,aside; s kept")
    drive.complete("e/s")
    assert drive.ends("e/c", 1, again=True)[0] == "+failed e/c 1 final"


# -- what is taken back ------------------------------------------------------------------------------------------------


def test_a_failure_of_a_task_alone_takes_back_no_transaction_that_it_ends():
    drive = inside(TRANSACTION, "u undoable; t kept u; c kept t")
    drive.complete("e/u")
    drive.complete("e/t", graph=graph("x kept; y kept x"))
    assert drive.ends("e/t/x", 0, failed=-1) == ["give n", "+abandoned n", "save n"]


def test_undoable_attempts_in_a_transaction_that_fails_are_ended_and_undone():
    drive = inside(TRANSACTION, "a kept; u undoable; c kept a u")
    assert drive.ends("e/a", 1) == ["stop e/u"]
    assert drive.end("e/u") == ["undo e/u"]
    assert drive.undone("e/u") == ["+undone e/u", *GIVEN]


def test_what_never_began_in_a_transaction_is_not_taken_back():
    drive = inside(TRANSACTION, "u undoable; a kept u; v undoable a; c kept v")
    drive.complete("e/u")
    assert drive.ends("e/a", 1) == ["+recovering e/u", "undo e/u with output"]


def test_what_was_not_to_be_saved_is_not_saved_if_its_graph_has_not_ended_after_all():
    # given a graph that has ended in a transaction, with something in it that was done, and is not to be saved
    drive = inside(TRANSACTION, "f kept,guarding; a kept f; c kept a")
    drive.complete("e/f", graph=graph("b loose; u undoable; x kept; y kept b u x"))
    drive.finish("e/f/b")
    drive.complete("e/f/u")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when the transaction is taken back, with what the graph has ended with
    assert "+recovering e/f/u e/f/x e/f/y" in drive.ends("e/a", 1, again=True)
    drive.undone("e/f/u")
    # then it is not saved when the transaction is tried again
    assert drive.elapse("e") == ["+begun e/f/u carrying e/f.0", "start! e/f/u", "start e/f/x"]


def test_what_is_settled_in_a_transaction_stays_so_if_nothing_of_it_is_taken_back():
    # given something that is settled by what was saved below it
    drive = inside(TRANSACTION, "b loose; s kept b; u undoable; a kept u; p pure a; c kept p s")
    drive.finish("e/b")
    drive.complete("e/s", "e/u")
    # when the transaction is taken back
    drive.ends("e/a", 1)
    # then both are settled, and what has not been done is not quiet
    assert drive.settled >= {"e/b", "e/s"}
    assert "e/p" not in drive.quiet


def test_what_cannot_be_made_again_under_something_irrevocable_keeps_what_its_readers_have_read():
    # given that `b` cannot be made again, something irrevocable below one of its readers, and `u` above the other
    drive = inside(TRANSACTION, "b loose; u undoable; f kept b; g kept b u; i default f; a kept g i; c kept a")
    drive.complete("e/b", "e/u", "e/f", "e/g", "e/i")
    # when the transaction fails
    # then `u` is kept: without it `g` would be dropped, and `b` would have to run again
    assert drive.ends("e/a", 1) == GIVEN


# -- several at a time -------------------------------------------------------------------------------------------------


def test_a_graph_ends_because_of_the_first_failure_in_it():
    drive = inside(KEEP, "a default; b default; c kept a b")
    drive.ends("e/a", 1)
    assert drive.ends("e/b", 1) == GIVEN
    assert cause_in(drive) == ["e/a"]


def test_two_graphs_that_end_at_once_end_each_for_itself():
    # given two graphs that are about to end, and wait for something irrevocable
    drive = two_graphs("a kept; i default; c kept a i", "a kept; i default; c kept a i")
    assert drive.ends("e/a", 1) == ["withdraw e/i"]
    assert drive.ends("f/a", 1) == ["withdraw f/i"]
    # when that has come to its end
    # then both end
    assert drive.finish("e/i")[-3:] == GIVEN
    assert drive.finish("f/i")[-3:] == ["give f/c", "+abandoned f/c", "save f/c"]


def test_a_result_that_is_being_made_in_a_graph_that_ends_with_another_comes_to_its_end():
    # given a graph that is about to end, and waits for its own result, which is irrevocable
    drive = forking("e kept; o kept; n kept e o", "c kept,aside; s default")
    assert drive.ends("e/c", 1) == ["withdraw e/s"]
    # when the graph around it ends, too
    # then nobody stops what has begun
    assert drive.ends("o", 0) == ["withdraw e/s"]
    assert drive.finish("e/s")[-3:] == ["give n", "+abandoned n", "save n"]


def test_a_graph_that_is_about_to_end_stays_closed_when_the_one_around_it_opens():
    # given a graph that is about to end, in one that is tried again
    drive = inside(KEEP, "f kept; b kept; c kept f b")
    drive.complete("e/f", graph=graph("i default; a kept; y kept i a"))
    drive.ends("e/f/a", 2)
    assert drive.ends("e/b", 1, again=True) == ["withdraw e/f/i"]
    assert drive.finish("e/f/i")[-2:] == ["+again e", "wait e 1"]
    # when that opens
    # then nothing starts in the inner one
    assert drive.elapse("e") == ["start e/b"]


def test_a_graph_fails_with_the_one_around_it_if_that_is_to_be_tried_again_before():
    # given a graph that is to be tried again when something irrevocable in it has come to its end
    drive = inside(KEEP, "f kept; b kept; c kept f b")
    drive.complete("e/f", graph=graph("i default; y kept i"))
    assert drive.ends("e/b", 1, again=True) == ["withdraw e/f/i"]
    # when that fails, and a graph within it is to be tried again
    # then they are tried again together, after one delay
    assert drive.ends("e/f/i", 2, again=True) == ["+again e", "wait e 1"]
    assert drive.elapse("e") == ["start e/b", "start! e/f/i"]


def test_a_graph_that_is_about_to_end_ends_as_it_would_if_its_time_is_over_meanwhile():
    # given a transaction that ends without having failed, and waits for something irrevocable
    drive = inside(TRANSACTION, "u undoable; a kept u; i default; c kept a i")
    drive.complete("e/u")
    assert drive.ends("e/a", 1, failed=-1) == ["withdraw e/i"]
    # when its time is over
    assert drive.expire("e/c", 1) == ["withdraw e/i", "stop e/i"]
    # then it is not taken back
    assert drive.end("e/i") == GIVEN


def test_a_graph_whose_time_is_over_while_one_around_it_is_about_to_end_is_not_taken_back():
    # given a transaction in a graph that is about to end, and waits for something irrevocable
    drive = inside(KEEP, "f kept,transaction; b kept; i default; c kept f b i")
    drive.complete("e/f", graph=graph("u undoable; x kept u; y kept x"))
    drive.complete("e/f/u")
    assert drive.ends("e/b", 1) == ["withdraw e/i", "stop e/f/x"]
    # when the time of the transaction is over
    assert drive.expire("e/f/x", 2) == []
    # then it ends with the graph around it, and what was done in it stays
    assert drive.finish("e/i")[-3:] == GIVEN


def test_a_graph_that_waits_to_be_tried_again_opens_whatever_ends_beside_it():
    drive = two_graphs("a kept; c kept a", "a kept; c kept a")
    drive.ends("e/a", 1, again=True)
    drive.ends("f/a", 1)
    assert drive.elapse("e") == ["start e/a"]


# -- opened again ------------------------------------------------------------------------------------------------------


def test_what_is_not_to_be_saved_is_not_saved_when_its_graph_opens():
    # given a graph with something in it that is done, and one that it returned
    drive = inside(KEEP, "f loose; b kept; c kept f b")
    drive.finish("e/f", graph=graph("x loose; y loose x"))
    drive.finish("e/f/x")
    # when it is tried again
    assert drive.ends("e/b", 1, again=True) == ["stop e/f/y", "+again e", "wait e 1"]
    # then that need not be known to the journal
    assert drive.elapse("e") == ["start e/b", "start e/f/y"]


def test_what_is_released_is_not_saved_when_its_graph_opens():
    # given something that was to be saved, which is lost in part when nobody needs it any more, but is not forgotten
    drive = inside(KEEP, "u undoable; a kept,parts=2 u; d kept a; b kept; c kept d b")
    drive.complete("e/u")
    drive.finish("e/a")
    drive.complete("e/d")
    assert drive.lose("e/a.1") == ["release e/a"]
    # when its graph is tried again
    drive.ends("e/b", 1, again=True)
    # then what is left of it is not saved
    assert drive.elapse("e") == ["start e/b"]


# -- too late ----------------------------------------------------------------------------------------------------------


def test_an_answer_that_comes_too_late_for_its_graph_is_a_failure_like_any_other():
    # given something aside that has failed before, and an answer for its graph that waits for the result
    drive = forking(KEEP, "c kept,aside,retries=1; s default")
    drive.raises("e/c")
    drive.elapse("e/c")
    assert drive.ends("e/c", 1) == ["withdraw e/s"]
    # when the result is there first
    # then the run fails
    assert "+failed e/c 2 final" in drive.finish("e/s")
    assert drive.states()["e/c"] == "failed"


def test_an_answer_that_comes_too_late_takes_back_the_transaction_of_what_failed():
    # given a transaction aside, in which a task failed
    drive = forking(KEEP, "t kept,transaction; c kept,aside t; s default")
    drive.complete("e/t", graph=graph("u undoable; a kept u; y kept a"))
    drive.complete("e/t/u")
    assert drive.ends("e/t/a", 1, failed=-1) == ["withdraw e/s"]
    # when the graph around it has its result before it ends
    # then the run fails, and the transaction is taken back
    assert "+failed e/t/a 1 final" in drive.finish("e/s")
    assert "undo e/t/u with output" in drive.save("e/s")


def test_an_answer_that_comes_too_late_may_be_about_what_was_taken_back_with_its_graph():
    # given a transaction aside that is taken back with the graph in which something failed
    drive = forking(KEEP, "t kept,transaction; c kept,aside t; s default")
    drive.complete("e/t", graph=graph("u undoable; y kept u"))
    drive.complete("e/t/u", graph=graph("x kept; v kept x"))
    assert drive.ends("e/t/u/x", 1) == ["withdraw e/s"]
    # when the graph around it has its result before it ends
    drive.finish("e/s")
    drive.save("e/s")
    # then the run fails by it all the same
    assert drive.undone("e/t/u")[-2:] == ["+failed e/t/u/x 1 final", "withdraw n"]
    assert drive.complete("n")[-1] == "finish failed failed=e/t/u/x"


# -- abandoned ---------------------------------------------------------------------------------------------------------


def test_an_outcome_given_to_a_deterministic_sink_is_not_what_it_declares():
    drive = inside(KEEP, "a kept; c pure a")
    drive.ends("e/a", 1)
    assert "+trusted e/c" not in drive.save("e/c")
    assert drive.run.rows["e/c"].handled


def test_what_was_done_and_not_saved_in_a_graph_that_has_ended_is_released():
    drive = inside(KEEP, "b loose; a kept b; c kept a")
    drive.finish("e/b")
    drive.ends("e/a", 1)
    assert "release e/b" in drive.save("e/c")


def test_what_was_done_in_a_graph_that_has_ended_is_not_abandoned():
    # given a graph in a transaction, so that nothing of it is forgotten
    drive = inside(TRANSACTION, "f kept,guarding; d kept f; c kept d")
    nested = graph("b loose; w writer; k kept; a kept b; x kept a; y kept x w k", sink="y")
    drive.complete("e/f", graph=nested)
    drive.complete("e/f/b", "e/f/w", "e/f/k")
    # when it ends
    drive.ends("e/f/a", 2)
    drive.save("e/f/y")
    # then that is so for what has never been done
    rows = drive.run.rows
    assert {id for id in rows if rows[id].abandoned} == {"e/f/a", "e/f/x"}


def test_what_goes_with_a_task_that_is_about_to_be_dropped_is_not_abandoned_before():
    # given a graph that is about to end, in a transaction that is taken back meanwhile, to be tried again
    drive = inside(TRANSACTION, "f kept,guarding; b kept; c kept f b")
    drive.complete("e/f", graph=graph("u undoable; x kept u; l loose u x; a kept; y kept l a"))
    drive.complete("e/f/u")
    drive.complete("e/f/x", graph=graph("p kept; q kept p"))
    assert drive.ends("e/f/a", 2, failed=-1)[-3:] == ["give e/f/y", "+abandoned e/f/y", "save e/f/y"]
    assert drive.ends("e/b", 1, again=True) == ["+recovering e/f/u e/f/x", "undo e/f/u with output"]
    # when it has ended before `x` is dropped, with the graph that `x` returned
    assert drive.save("e/f/y") == ["+saved e/f/y"]
    # then what was in that graph is no more, and nobody looks at it again
    rows = drive.run.rows
    assert {id for id in rows if rows[id].abandoned} == {"e/f/l", "e/f/a"}
    assert drive.play().status == "succeeded"


def test_what_was_edited_in_a_graph_that_has_ended_does_not_run_again_when_a_run_is_stuck():
    # given a graph that has ended, with `p` in it, which is not saved, and not settled before `g` has run
    drive = Drive(
        graph(
            "x pure; w kept; d kept x; n default d w; q kept after:x n;"  # `n` waits for `x`, if that may change
            "o loose; e kept o; g kept after:o n; z kept q e g"
        )
    )
    drive.begin()
    drive.complete("x", "d", "o")
    drive.complete("e", graph=graph("p pure; k kept p; a kept; c kept k a"))
    drive.complete("e/p", "e/k")
    drive.ends("e/a", 1)
    drive.save("e/c")
    # when `p` and `x` are edited
    again = drive.reload(changed=["x", "e/p"])
    assert again.begin() == ["start w"]
    # then only `x` runs by its new code, so that the others can go on
    assert "+recovering d x" in again.complete("w")
    assert again.play().status == "succeeded"


def test_what_only_comes_after_something_that_is_abandoned_waits_for_nothing():
    # given a graph that may have to run again
    drive = Drive(graph("o loose; e kept o; g kept o; n kept e g"))
    drive.begin()
    drive.complete("o")
    drive.complete("e", graph=graph("a kept; d kept after:a; c kept d"))
    # when it ends
    drive.ends("e/a", 1)
    drive.save("e/c")
    # then nothing is missing
    assert drive.run.rows["e/d"].missing == 0


# -- writers -----------------------------------------------------------------------------------------------------------


def test_a_graph_that_ends_waits_for_the_save_of_what_was_written_in_it():
    drive = inside(KEEP, "w writer; a kept; c kept w a")
    drive.finish("e/w")
    assert drive.ends("e/a", 1) == []
    assert drive.save("e/w") == ["+saved e/w", "+wrote e/w", *GIVEN]


def test_what_was_written_and_lost_before_it_was_saved_holds_nobody_up_when_its_graph_has_ended():
    # given a graph that is about to end, and waits for the save of what was written in it
    drive = inside(KEEP, "w writer; a kept; c kept w a")
    drive.finish("e/w")
    drive.ends("e/a", 1)
    # when that is lost
    assert drive.lose("e/w") == GIVEN
    # then the graph ends without it
    assert "+begun n" in drive.save("e/c")
    assert drive.play().status == "succeeded"


# -- turns -------------------------------------------------------------------------------------------------------------

LOOP = "x kept,turn=0,opens,limit=1; y kept,turn=1; s kept x y"


def test_whoever_asked_for_admission_in_a_graph_that_has_ended_gives_its_turn_to_the_next():
    # given a part of a loop that asks for admission when its graph is to end
    drive = inside(KEEP, LOOP)
    drive.complete("e/x", graph=graph("p kept,turn=0,asks; f kept; r kept p f"))
    drive.ends("e/x/f", 2)
    # when the graph has ended
    # then the next part starts
    assert "start e/y" in drive.save("e/x/r")


def test_a_part_of_a_loop_whose_graph_has_ended_unfinished_gives_its_turn_to_the_next():
    # given a part of a loop that is in flight because of the graph that it returned
    drive = inside(KEEP, LOOP)
    drive.complete("e/x", graph=graph("p kept,turn=0; f kept; r kept p f"))
    drive.complete("e/x/p", graph=graph("h kept; k kept h"))
    drive.ends("e/x/f", 2)
    # when the graph around both has ended
    # then the next part starts
    assert "start e/y" in drive.save("e/x/r")


def test_what_is_to_be_taken_back_in_one_graph_is_not_forgotten_when_another_one_ends():
    # given a transaction that has failed, and waits for something irrevocable in it
    text = "e kept,transaction; f kept; n kept e f"
    drive = two_graphs("u undoable; a kept u; i default; c kept a i", "b kept; d kept b", text)
    drive.complete("e/u")
    assert drive.ends("e/a", 1) == ["withdraw e/i"]
    # when another graph ends before that
    assert drive.ends("f/b", 1) == ["give f/d", "+abandoned f/d", "save f/d"]
    # then the transaction is taken back all the same
    assert "+recovering e/u" in drive.finish("e/i")


def test_a_run_knows_whether_a_graph_is_about_to_end():
    drive = inside(KEEP, "a kept; c kept a")
    assert not drive.run.endings
    drive.ends("e/a", 1)
    assert drive.run.endings
    drive.save("e/c")
    assert not drive.run.endings


def test_a_graph_that_was_dropped_does_not_wait_for_being_tried_again():
    drive = Drive(graph("o loose; e kept o; g kept o; n kept e g"))
    drive.begin()
    drive.finish("o")
    drive.complete("e", graph=graph("a kept; c kept a"))
    drive.ends("e/a", 1, again=True)
    assert ending.is_pausing(drive.run, drive.waits["e"])
    assert "+dropped e o" in drive.lose("o", attempts="g")
    assert not ending.is_pausing(drive.run, drive.waits["e"])


def test_what_a_handler_gave_is_forgotten_if_the_graph_closes_before_the_attempt_is_undone():
    drive = inside(KEEP, "u undoable; k kept; c kept u k")
    drive.handle("e/u")
    drive.ends("e/k", 1)
    assert drive.undone("e/u") == ["+undone e/u", *GIVEN]
    assert drive.states()["e/u"] == "waiting"


def test_a_graph_whose_result_is_being_taken_back_has_none_that_would_forbid_an_answer():
    """What stands aside fails while the result is to be dropped: the answer counts, and the run goes on."""
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    drive.complete("e", graph=graph("x loose; g kept x; u undoable g; h kept,aside x; k kept,aside; s kept u"))
    drive.finish("e/x")
    drive.complete("e/g", "e/u", "e/s")
    assert drive.lose("e/x", attempts="e/h")[1:] == ["+recovering e/g e/s e/u e/x z", "undo e/u with output"]
    drive.end("e/h")
    assert drive.ends("e/k", 1) == []
    assert drive.play().status == "succeeded"
