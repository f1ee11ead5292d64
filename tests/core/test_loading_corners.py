"""Corners of loading (design 2.5, 2.8): what each record means to the next engine, in the order in which they stand."""

from onceflow.core.run import Run
from tests.core.building import begun, graph


def test_a_loaded_run_is_validated_if_that_is_asked_for():
    for asked in (True, False):
        assert Run.load(graph("a kept"), [], epoch=2, validate=asked).validate is asked


# -- what can be trusted ---------------------------------------------------------------------------------------------


def test_a_saved_node_whose_code_has_changed_stays_what_it_is():
    """`s` is nondeterministic. It is dropped with `a`, and there is nothing to be said when it has run again."""
    drive = begun("a loose; s kept a; k kept; z kept a s k", "a", "s")
    again = drive.reload(changed=["s"])
    assert "+dropped a s" in again.begin()
    again.finish("a")
    assert again.finish("s") == ["save s"]


def test_a_node_that_is_trusted_again_is_trusted_after_the_next_crash():
    """1. `e` returned a nondeterministic graph, which a crash took. 2. It runs again, and is deterministic after all;
    `s` reads it and is saved. 3. A second crash: `e` is made again for `z`, and `s` stays."""
    drive = begun("e pure; s kept e; k kept; z kept e s k")
    drive.finish("e", graph=graph("x loose"))
    drive.complete("e/x", "s")
    again = drive.reload()
    again.begin()
    assert "+trusted e" in again.finish("e")
    again.complete("s")
    assert again.reload().begin() == ["start e", "start k"]


def test_an_outcome_that_is_saved_in_part_is_not_trusted_after_a_crash():
    """`s` has read what a handler gave for `h`. Of that a part is missing, so `h` runs again, and `s` with it."""
    drive = begun("h pure,parts=2; s kept h; k kept; z kept h s k")
    drive.handle("h")
    drive.save("h.1")
    drive.complete("s")
    assert drive.reload().begin()[:2] == ["+recovering h s", "+dropped h s"]


# -- how the run was to end ------------------------------------------------------------------------------------------


def test_a_failed_run_lists_what_it_keeps_of_a_transaction_also_after_a_crash():
    drive = begun("e kept,transaction; z kept e")
    drive.complete("e", graph=graph("u undoable; i default u; a kept i; c kept a"))
    drive.complete("e/u", "e/i")
    last = drive.raises("e/a")[-1]
    assert last == "finish failed failed=e/a kept=e/u"
    assert drive.reload(-1).begin()[-1] == last


def test_a_run_that_was_cancelled_before_something_failed_has_been_cancelled_after_a_crash():
    drive = begun("n default; m default; z kept n m")
    drive.cancel()
    drive.raises("n")
    assert drive.reload().begin()[-1] == "finish cancelled failed=n uncertain=n,m"


def test_a_run_that_was_to_be_undone_before_something_failed_is_undone_after_a_crash():
    drive = begun("u undoable; n default; m default; z kept u n m", "u")
    drive.cancel(undo=True)
    drive.raises("n")
    again = drive.reload()
    assert again.begin() == ["+recovering u", "undo u with output"]
    assert again.undone("u")[-1] == "finish cancelled failed=n uncertain=n,m"


def test_a_run_that_had_failed_before_it_was_cancelled_with_undo_has_failed_after_a_crash():
    drive = begun("u undoable; n default; m default; z kept u n m", "u")
    drive.raises("n")
    drive.cancel(undo=True)
    again = drive.reload()
    assert again.begin() == ["+recovering u", "undo u with output"]
    assert again.undone("u")[-1] == "finish undone failed=n uncertain=n,m"


# -- graphs that are tried again -------------------------------------------------------------------------------------


def test_a_graph_that_is_to_be_tried_again_waits_for_its_delay_after_a_crash():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("a kept; c kept a"))
    assert drive.ends("e/a", 1, again=True) == ["+again e", "wait e 1"]
    again = drive.reload()
    assert again.begin() == ["wait e 1"]
    assert again.elapse("e") == ["start e/a"]
    assert again.ends("e/a", 1, again=True) == ["+again e", "wait e 2"]


def test_a_graph_that_a_crash_took_does_not_wait():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("a kept; c kept a"))
    drive.ends("e/a", 1, again=True)
    assert drive.reload().begin() == ["start e"]


# -- what stands fast ------------------------------------------------------------------------------------------------


def test_an_effect_that_a_committed_write_stands_on_is_kept_after_a_crash():
    drive = begun("u undoable; w writer u; f kept w; z kept f", "u", "w", on_failure="undo")
    again = drive.reload()
    again.begin()
    assert again.raises("f")[-1] == "finish failed failed=f kept=u"


def test_something_irrevocable_in_a_recovery_is_not_undone_after_a_crash():
    drive = begun("b undoable; n default; k kept; z kept b n k")
    drive.finish("b", "n")
    assert drive.lose("b", "n") == ["+recovering b n", "undo b"]
    again = drive.reload()
    assert again.begin() == ["undo b"]
    assert again.play().status == "succeeded"


def test_a_part_of_what_a_graph_was_to_end_with_is_dropped_with_the_recovery_that_it_is_in():
    drive = begun("l loose; e kept,parts=2 l; z kept e l")
    drive.finish("l")
    drive.complete("e", graph=graph("u undoable; x kept; y kept,parts=2 x u"))
    drive.complete("e/u")
    drive.ends("e/x", 1)
    drive.save("e/y")
    assert drive.lose("l") == ["+recovering e e/u e/y l", "undo e/u with output"]
    again = drive.reload()
    assert again.begin() == ["undo e/u with output"]
    assert again.undone("e/u")[1] == "+dropped e e/u e/y l"


# -- turns and refs --------------------------------------------------------------------------------------------------


def test_a_member_of_a_loop_keeps_its_turn_after_a_crash_until_the_last_graph_of_its_chain_has_its_result():
    drive = begun("loop kept; z kept loop")
    drive.complete("loop", graph=graph("a kept,turn=1,limit=1; b kept,turn=2; g kept a b"))
    drive.complete("loop/a", graph=graph("x kept"))
    drive.complete("loop/a/x", graph=graph("y kept"))
    again = drive.reload()
    assert again.begin() == ["start loop/a~2/y"]
    assert "start loop/b" in again.finish("loop/a~2/y")


def test_what_is_left_of_an_output_that_is_made_again_is_not_saved():
    """Of `m` one part is saved, and its ref is there, because `p` is saved; but the other part is lost. So it runs
    again."""
    drive = begun("p kept; m kept,parts=2 p; k kept; z kept m k")
    drive.complete("p", holding="new")
    drive.finish("m", holding="p.1@1")
    drive.save("m.1")
    assert drive.reload().begin() == ["+recovering m", "+dropped m", "drop m", "start m", "start k"]


def test_what_is_left_of_an_output_in_a_graph_that_has_ended_is_not_saved():
    """Of `m` one part is saved, and its ref is there, because `p` is saved; but the graph has ended. (It is not
    settled, because `q` waits for `l`.)"""
    drive = begun("l loose; e kept l; k kept; q kept after:l k; z kept e q")
    drive.finish("l")
    drive.complete("e", graph=graph("p kept; m kept p; c kept m; x kept; y kept c x"))
    drive.complete("e/p", holding="new")
    drive.finish("e/m", holding="e/p.1")
    drive.save("e/m")
    drive.complete("e/c")
    drive.ends("e/x", 1)
    drive.save("e/y")
    again = drive.reload()
    assert again.begin() == ["start k"]
    assert again.run.rows["e/m"].available == again.run.rows["e/m"].every_part


def test_who_was_in_flight_for_a_graph_that_has_its_result_is_not_after_a_crash():
    """`x` is the result of one graph, and a member of a group in it, and has returned another one."""
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; c kept a b"))
    drive.complete("e/a", graph=graph("x kept,turn=0,limit=1; f kept,aside,turn=1,limit=1", sink="x"))
    drive.complete("e/a/x", graph=graph("y kept"))
    assert "start e/a/f" in drive.complete("e/a~2/y")
    assert "start e/a/f" in drive.reload().begin()
