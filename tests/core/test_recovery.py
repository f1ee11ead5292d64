"""What is run again after something was lost (design 2.5): the set R, and in which order it is taken back."""

import pytest

from onceflow.core.model import events
from tests.core.building import begun

# -- nothing needs it ------------------------------------------------------------------------------------------------


def test_a_lost_output_that_was_saved_is_still_there():
    drive = begun("a kept; z kept a", "a")
    assert drive.lose("a") == []
    assert drive.states() == {"a": "done", "z": "running"}


def test_a_lost_output_that_nobody_has_yet_to_read_is_not_made_again():
    drive = begun("a pure; b kept a; z kept b", "a", "b")
    assert drive.lose("a") == []


def test_a_lost_output_is_not_made_again_while_its_readers_run():
    drive = begun("a loose; b kept a; z kept b", "a")
    assert drive.lose("a") == []
    assert drive.states() == {"a": "done", "b": "running", "z": "waiting"}


def test_losing_the_same_output_twice_changes_nothing_the_second_time():
    drive = begun("a pure; b pure; z kept a b", "a")
    assert drive.lose("a") == ["start a"]
    assert drive.lose("a") == []


def test_losing_the_output_of_a_node_that_has_not_run_changes_nothing():
    drive = begun("a pure; z kept a")
    assert drive.lose("z") == []


# -- lost attempts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pure", "kept", "loose"])
def test_a_lost_attempt_without_effect_starts_again_at_once_without_a_record(kind):
    drive = begun(f"a {kind}; z kept a")
    assert drive.lose(attempts="a") == ["start a"]


def test_a_lost_irrevocable_attempt_starts_again_with_the_same_begun_record():
    drive = begun("n default; z kept n")
    assert drive.lose(attempts="n") == ["start! n"]


def test_a_lost_undoable_attempt_is_undone_before_it_starts_again_and_the_undo_waits_for_its_end():
    drive = begun("u undoable; z kept u")
    assert drive.lose(attempts="u") == []
    assert drive.end("u") == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]


def test_an_attempt_that_ended_without_a_word_is_lost():
    drive = begun("a pure; u undoable; z kept a u")
    assert drive.tell(events.Ended("a", drive.running.pop("a"))) == ["start a"]
    assert drive.tell(events.Ended("u", drive.running.pop("u"))) == ["undo u"]


def test_what_a_lost_attempt_returns_afterwards_is_late():
    drive = begun("a loose; z kept a")
    first = drive.running["a"]
    drive.lose(attempts="a")
    assert drive.tell(events.Finished("a", first)) == []
    assert drive.tell(events.Raised("a", first)) == []
    assert drive.states() == {"a": "running", "z": "waiting"}
    assert drive.finish("a") == ["start z"]


# -- (a) producers of unavailable inputs -----------------------------------------------------------------------------


def test_a_lost_pure_output_is_made_again_without_a_record():
    drive = begun("a pure; b kept; z kept a b", "a")
    assert drive.lose("a") == ["start a"]
    assert drive.journal == []
    drive.finish("a")
    assert drive.play().status == "succeeded"


def test_what_a_lost_pure_output_was_made_from_is_made_again_first():
    drive = begun("a pure; b pure a; c pure b; k kept; z kept c k", "a", "b", "c")
    assert drive.lose("a", "c") == ["start c"]
    drive = begun("a pure; b pure a; c pure b; k kept; z kept c k", "a", "b", "c")
    assert drive.lose("a", "b", "c") == ["start a"]
    assert drive.states()["b"] == "waiting"
    assert drive.finish("a") == ["start b"]


def test_a_saved_output_ends_the_search_for_producers():
    drive = begun("a kept; b pure a; k kept; z kept b k", "a", "b")
    assert drive.lose("a", "b") == ["start b"]


def test_consumers_that_have_read_a_pure_output_do_not_run_again_with_it():
    drive = begun("a pure; b pure a; k kept; z kept a b k", "a", "b")
    assert drive.lose("a") == ["start a"]
    assert drive.states() == {"a": "running", "b": "done", "k": "running", "z": "waiting"}


def test_a_control_only_edge_does_not_need_the_output_again():
    drive = begun("a loose; k kept; z kept k after:a", "a")
    assert drive.lose("a") == []
    assert drive.complete("k") == ["save k", "start z", "+saved k"]


def test_only_the_parts_that_somebody_has_yet_to_read_are_needed():
    text = "a pure,parts=2; b kept a.0; k kept; c kept a.1 k; z pure b c"
    assert begun(text, "a").lose("a.0") == []
    assert begun(text, "a").lose("a.1") == ["start a"]


def test_a_lost_input_is_noticed_when_the_running_reader_is_lost_too():
    drive = begun("a pure; b kept a; z pure b", "a")
    assert drive.lose("a") == []
    assert drive.lose(attempts="b") == ["start a"]
    assert drive.finish("a") == ["start b"]


def test_an_output_and_the_attempt_that_reads_it_may_be_lost_at_once():
    drive = begun("a pure; b kept a; z pure b", "a")
    assert drive.lose("a", attempts="b") == ["start a"]
    assert drive.finish("a") == ["start b"]


# -- (b) descendants of what is not repeatable -----------------------------------------------------------------------


def test_descendants_of_a_lost_nondeterministic_output_are_dropped_without_a_record_if_nothing_of_them_is_durable():
    drive = begun("a loose; b pure a; c loose b; k kept; z kept a c k", "a", "b", "c")
    answer = drive.lose("a")
    assert sorted(answer[:-1]) == ["drop a", "drop b", "drop c"]
    assert answer[-1] == "start a"
    assert drive.journal == []
    assert drive.states() == {"a": "running", "b": "waiting", "c": "waiting", "k": "running", "z": "waiting"}


def test_running_descendants_are_stopped_and_their_outputs_are_late():
    drive = begun("a loose; b pure a; k kept; z kept a b k", "a")
    attempt = drive.running["b"]
    assert sorted(drive.lose("a")) == ["drop a", "drop b", "start a", "stop b"]
    assert drive.tell(events.Finished("b", attempt)) == []
    assert drive.finish("a") == ["start b"]


def test_descendants_behind_control_only_edges_are_dropped_too():
    drive = begun("a loose; b loose after:a; k kept; z kept a b k", "a", "b")
    assert sorted(drive.lose("a")) == ["drop a", "drop b", "start a"]


def test_a_saved_descendant_is_dropped_in_a_journaled_recovery():
    drive = begun("a loose; s kept a; k kept; z kept a s k", "a", "s")
    answer = drive.lose("a")
    assert answer[:2] == ["+recovering a s", "+dropped a s"]
    assert sorted(answer[2:]) == ["drop a", "drop s", "start a"]


def test_the_loss_of_a_nondeterministic_output_whose_readers_are_all_saved_drops_nothing():
    drive = begun("a loose; s kept a; m kept a; k kept; z pure s m k", "a", "s", "m")
    assert drive.lose("a") == []


def test_a_pure_output_between_a_source_and_a_loss_brings_the_source_back_and_all_below_it():
    """1. `p` (pure) reads `a` (nondeterministic, not saved) and both are lost; `s` reads `a` and is saved.
    2. `z` needs `p` (seed), `p` needs `a` (a), and `a` drops `s` (b)."""
    drive = begun("a loose; p pure a; s kept a; k kept; z kept p s k", "a", "p", "s")
    answer = drive.lose("a", "p")
    assert answer[:2] == ["+recovering a p s", "+dropped a p s"]
    assert sorted(answer[2:]) == ["drop a", "drop p", "drop s", "start a"]


def test_a_saved_nondeterministic_source_drops_nothing_when_it_is_lost():
    drive = begun("a kept; b pure a; k kept; z kept a b k", "a", "b")
    assert drive.lose("a", "b") == ["start b"]


# -- (c) lost before it was saved ------------------------------------------------------------------------------------


def test_an_output_that_was_to_be_saved_and_is_lost_before_runs_again_though_nobody_reads_it():
    drive = begun("a pure; z kept a", "a")
    drive.finish("z")
    answer = drive.lose("a", "z")
    assert answer == ["drop z", "start a"]


def test_a_nondeterministic_output_that_is_lost_before_it_was_saved_drops_what_has_read_it():
    drive = begun("a kept; b loose a; k kept; z kept b k")
    drive.finish("a", "b")
    assert sorted(drive.lose("a")) == ["drop a", "drop b", "start a"]


def test_a_settled_output_that_is_lost_before_it_was_saved_stays_as_it_is():
    """`a` is to be saved, but all its consumers are settled first: nobody will ever read it again."""
    drive = begun("a kept; b kept a; z pure b")
    drive.finish("a", "b")
    drive.save("b")
    assert drive.settled == {"a", "b"}
    assert drive.lose("a") == ["release a"]


def test_a_lost_deterministic_checkpoint_runs_again_alone():
    drive = begun("a kept,deterministic; b loose a; k kept; z kept b k")
    drive.finish("a", "b")
    assert drive.lose("a") == ["start a"]
    assert drive.states()["b"] == "done"
    assert drive.finish("a") == ["save a"]


def test_a_lost_part_of_a_checkpoint_brings_the_whole_node_back():
    drive = begun("a kept,parts=2; k kept; z kept a k")
    drive.finish("a")
    drive.save("a")
    answer = drive.lose("a.1")
    assert answer == ["+recovering a", "+dropped a", "drop a", "start a"]
    assert drive.finish("a") == ["save a", "save a.1"]


def test_a_saved_part_is_not_lost():
    drive = begun("a kept,parts=2; k kept; z kept a k")
    drive.finish("a")
    drive.save("a")
    assert drive.lose("a.0") == []


def test_all_three_clauses_together():
    """1. `c` (to be saved) is lost before its save: (c). It reads `p` (pure), lost: (a). `p` reads `a`, lost: (a).
    2. `a` is not repeatable and had been read by `s` and by the undoable `u` below it: (b)."""
    text = "a loose; p pure a; c kept p; s kept a; u undoable s; k kept; z kept c u k"
    drive = begun(text, "a", "p", "s", "u")
    drive.finish("c")
    assert drive.lose("a", "p", "c") == ["+recovering a c p s u", "undo u with output"]
    answer = drive.undone("u")
    assert answer[:2] == ["+undone u", "+dropped a c p s u"]
    assert sorted(answer[2:]) == ["drop a", "drop c", "drop p", "drop s", "drop u", "start a"]
    assert drive.play().status == "succeeded"


# -- saves and recovery ----------------------------------------------------------------------------------------------


def test_a_save_that_arrives_after_its_node_was_dropped_is_late():
    drive = begun("a loose; s kept a; k kept; z kept a s k", "a")
    drive.finish("s")
    late = events.Saved("s", 0, drive.saves["s", 0])
    drive.lose("a")
    assert drive.tell(late) == []
    drive.finish("a", "s")
    assert drive.tell(late) == [], "it is an older attempt's"
    assert drive.save("s") == ["+saved s"]


def test_a_save_that_arrives_after_its_output_was_lost_is_late():
    """A journaled recovery may already have dropped what the output was made from."""
    drive = begun("a kept; b loose a; k kept; z kept b k")
    drive.finish("a", "b")
    late = events.Saved("a", 0, drive.saves["a", 0])
    drive.lose("a")
    assert drive.tell(late) == []


def test_a_save_that_failed_is_asked_for_again():
    drive = begun("a kept; z kept a")
    drive.finish("a")
    assert drive.save_fails("a") == ["save a"]
    assert drive.save("a") == ["+saved a"]


def test_a_save_that_can_never_succeed_fails_the_run():
    drive = begun("a kept; b kept; z kept a b")
    drive.finish("a")
    assert drive.save_fails("a", permanent=True) == ["+failed a 0 final", "stop b"]
    assert drive.end("b") == ["+finished failed", "finish failed failed=a"]


def test_a_failed_save_of_an_older_attempt_is_late():
    drive = begun("a loose; s kept a; k kept; z kept a s k", "a")
    drive.finish("s")
    late = events.SaveFailed("s", 0, drive.saves["s", 0], permanent=True)
    drive.lose("a")
    assert drive.tell(late) == []
    assert drive.status == "running"


# -- while R is taken back -------------------------------------------------------------------------------------------

TWO_UNDOS = "a loose; u undoable,retries=1; s kept a; v undoable s u; w undoable v; k kept; l pure k; z kept a w l"


def test_nothing_else_starts_until_r_is_undone_and_dropped():
    drive = begun(TWO_UNDOS, "a", "u", "s", "v", "w")
    assert drive.lose("a") == ["+recovering a s v w", "undo w with output"]
    assert drive.status == "undoing"
    assert drive.complete("k") == ["save k", "+saved k"], "l has its input, and waits"
    assert drive.undone("w") == ["+undone w", "undo v with output"]
    answer = drive.undone("v")
    assert answer[:2] == ["+undone v", "+dropped a s v w"]
    assert sorted(answer[2:]) == ["drop a", "drop s", "drop v", "drop w", "start a", "start l"]
    assert drive.status == "running"
    assert drive.play().status == "succeeded"


def test_another_loss_in_the_middle_extends_r():
    """1. `a` is lost: `s` and the undoable `v` are in R, and `v` is being undone.
    2. `b`, which another branch reads, is lost: `t` and `x` join R, in a second record.
    3. Only when all of them are undone is anything dropped."""
    text = "a loose; s kept a; v undoable s; b loose; t kept b; x undoable t; k kept; z kept a b v x k"
    drive = begun(text, "a", "b", "s", "t", "v", "x")
    assert drive.lose("a") == ["+recovering a s v", "undo v with output"]
    assert drive.lose("b") == ["+recovering b t x", "undo x with output"]
    assert drive.undone("v") == ["+undone v"]
    answer = drive.undone("x")
    assert answer[:2] == ["+undone x", "+dropped a b s t v x"]
    assert sorted(answer[2:])[-2:] == ["start a", "start b"]
    assert drive.play().status == "succeeded"


def test_a_lost_attempt_that_is_not_in_r_waits_until_r_is_dropped():
    drive = begun(TWO_UNDOS, "a", "u", "s", "v", "w")
    drive.lose("a")
    assert drive.lose(attempts="k") == []
    drive.undone("w")
    assert "start k" in drive.undone("v")


def test_a_running_undoable_member_is_stopped_and_undone_only_when_it_has_ended():
    drive = begun("a loose; s kept a; v undoable s; k kept; z kept a v k", "a", "s")
    assert drive.lose("a") == ["stop v", "+recovering a s v"]
    answer = drive.end("v")
    assert answer == ["undo v"]
    assert drive.undone("v")[:2] == ["+undone v", "+dropped a s v"]


def test_undos_go_in_reverse_topological_order_and_side_by_side_where_nothing_orders_them():
    text = "a loose; s kept a; u undoable s; v undoable u; w undoable u; x undoable v w; k kept; z kept a x k"
    drive = begun(text, "a", "s", "u", "v", "w", "x")
    assert drive.lose("a")[1:] == ["undo x with output"]
    assert sorted(drive.undone("x")) == ["+undone x", "undo v with output", "undo w with output"]
    assert drive.undone("w") == ["+undone w"]
    assert drive.undone("v") == ["+undone v", "undo u with output"]


def test_members_without_an_effect_between_two_undos_keep_their_order():
    drive = begun("a loose; s kept a; u undoable s; p pure u; v undoable p; k kept; z kept a v k", *"asupv")
    assert drive.lose("a")[1:] == ["undo v with output"]
    assert drive.undone("v") == ["+undone v", "undo u with output"]


def test_a_retry_whose_delay_is_over_waits_until_r_is_dropped():
    drive = begun("a loose; s kept a; v undoable s; r kept,retries=1; k kept; z kept a v r k", "a", "s", "v")
    drive.raises("r")
    drive.lose("a")
    assert drive.elapse("r") == []
    assert "start r" in drive.undone("v")


def test_an_attempt_after_a_local_undo_waits_until_r_is_dropped():
    drive = begun("a loose; s kept a; v undoable s; u undoable; k kept; z kept a v u k", "a", "s", "v")
    drive.lose(attempts="u")
    drive.end("u")
    drive.lose("a")
    assert drive.undone("u") == ["+undone u"]
    answer = drive.undone("v")
    assert answer[:2] == ["+undone v", "+dropped a s v"]
    assert "+begun u" in answer
    assert "start! u" in answer


def test_what_runs_and_is_not_in_r_may_finish_and_be_saved_meanwhile():
    drive = begun("a loose; s kept a; v undoable s; n default; z kept a v n", "a", "s", "v")
    drive.lose("a")
    assert drive.complete("n") == ["save n", "+saved n"]
    assert drive.settled == {"n"}


def test_parts_that_are_lost_one_after_the_other_are_made_again_once():
    drive = begun("a pure,parts=2; k kept; z kept a k", "a")
    assert drive.lose("a.0") == ["start a"]
    assert drive.lose("a.1") == []
    assert drive.finish("a") == []
    assert drive.complete("k") == ["save k", "start z", "+saved k"]


# -- R is the least set ----------------------------------------------------------------------------------------------


def test_what_a_running_attempt_has_read_is_not_made_again_for_it():
    """1. `x` runs again because `x.1` was lost. 2. Now `x.0` and `a` are lost: the attempt has read `a` already."""
    drive = begun("a loose; x pure,parts=2 a; m kept; y pure x.0 m; w pure x.1 m; z kept y w", "a", "x")
    assert drive.lose("x.1") == ["start x"]
    assert drive.lose("x.0", "a") == []


def test_a_task_that_waits_for_a_running_parent_does_not_ask_for_what_that_parent_has_read():
    """1. `p` is lost and runs again for `y`, while `x` runs. 2. `a` is lost. 3. `x` is lost, and waits for `p`."""
    drive = begun("a loose; p pure a; x pure p; m kept; y pure p m; z kept x y", "a", "p")
    assert drive.lose("p") == ["start p"]
    assert drive.lose("a") == []
    assert drive.lose(attempts="x") == []


def test_a_task_that_runs_again_does_not_ask_for_what_its_running_parent_has_read():
    """1. `p` is lost and runs again for `y`. 2. `a` is lost. 3. `x`, which is done, is lost and needed by `w`."""
    drive = begun("a loose; p pure a; x pure p; m kept; y pure p m; w pure x m; z kept w y", "a", "p", "x")
    assert drive.lose("p") == ["start p"]
    assert drive.lose("a") == []
    assert drive.lose("x") == []


def test_an_irrevocable_output_that_was_lost_before_it_was_saved_needs_no_record():
    drive = begun("n default; z kept n")
    drive.finish("n")
    assert drive.lose("n") == ["stop z", "drop n", "drop z", "start! n"]
