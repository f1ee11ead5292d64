"""Outputs in corners: what is made again, taken back, expanded again or saved in parts, and what others see of that
(design 2.2, 2.5, 2.7, 2.9, 2.13)."""

from tests.core.building import begun, graph
from tests.tools.simulation.script import play_script

# -- run again ---------------------------------------------------------------------------------------------------------


def test_what_waits_to_run_again_is_dropped_with_what_it_was_made_of():
    """1. `p` and `q` are lost, and run again one after the other. 2. Before that, `a` is lost, which is not repeatable:
    `s` was built on the old one."""
    drive = begun("a loose; p pure a; q pure p; s kept q; k kept; r kept q k; z kept s r")
    drive.finish("a", "p", "q")
    drive.complete("s")
    assert drive.lose("p", "q") == ["start p"]
    assert drive.lose("a", attempts="p")[:2] == ["+recovering a p q s", "+dropped a p q s"]


def test_what_a_handler_made_of_a_task_is_past_when_it_was_dropped():
    drive = begun("l loose; h pure l; k kept; r kept h k; z kept r")
    drive.finish("l")
    drive.handle("h")
    assert "+dropped h l" in drive.lose("l", "h")
    drive.finish("l", "h")
    assert drive.lose("l", "h") == ["drop l", "drop h", "start l"]


def test_a_task_that_is_trusted_again_runs_again_without_taking_its_readers_with_it():
    # given a deterministic task whose graph was not, and a crash that took it
    drive = begun("e pure; s kept e; k kept; m kept e k; z kept s m")
    drive.finish("e", graph=graph("x loose"))
    drive.finish("e/x")
    drive.complete("s")
    drive = drive.reload()
    drive.begin()
    # when it returns what it declares
    assert "+trusted e" in drive.finish("e")
    drive.complete("s")
    # then it counts as deterministic
    assert drive.lose("e") == ["start e"]


# -- graphs that are returned again ------------------------------------------------------------------------------------

CHAIN = graph("p pure; r pure p")


def test_who_only_waits_for_a_graph_that_was_done_before_a_crash_need_not_wait_for_it_again():
    drive = begun("e pure; s kept e; k kept; q kept e k; j kept; t kept j after:e; z kept s q t")
    drive.finish("e", graph=CHAIN)
    drive.finish("e/p", "e/r")
    drive.complete("s")
    drive = drive.reload()
    drive.begin()
    assert drive.finish("e", graph=CHAIN) == ["start e/p"]
    assert drive.finish("j") == ["save j", "start t"]


def test_a_graph_that_is_rebuilt_for_an_undo_is_not_expanded_twice():
    drive = begun("e pure; u undoable e; z kept u")
    drive.finish("e", graph=CHAIN)
    drive.finish("e/p")
    drive.finish("e/r", small=False)
    drive.lose("e", "e/p", "e/r", attempts="u")
    assert drive.end("u") == ["start e privately"]
    assert drive.finish_rebuilding("e", graph=CHAIN) == ["start e/p privately"]
    drive.finish_rebuilding("e/p")
    assert drive.finish_rebuilding("e/r") == ["undo u"]
    drive.undone("u")
    assert drive.play({"e": CHAIN}).status == "succeeded"


def test_a_graph_that_an_undo_has_seen_again_after_a_crash_must_be_returned_once_more():
    drive = begun("e pure; u undoable e; z kept u")
    drive.finish("e", graph=CHAIN)
    drive.finish("e/p")
    drive.finish("e/r", small=False)
    drive = drive.reload()
    assert drive.begin() == ["start e", "start e privately"]
    assert drive.finish_rebuilding("e", graph=CHAIN) == ["start e/p privately"]
    assert drive.finish("e", graph=graph("q pure"))[0] == "refuse e NotDeterministic"


# -- what is closed ----------------------------------------------------------------------------------------------------


def test_what_is_lost_in_a_closed_graph_is_not_made_again_before_that_opens():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("k kept; n default; x kept; y kept k n x"))
    drive.finish("e/k")
    drive.ends("e/x", 1)
    assert drive.lose("e/k") == []
    assert drive.finish("e/n")[-3:] == ["give e/y", "+abandoned e/y", "save e/y"]


def test_a_graph_that_is_lost_is_not_returned_again_for_those_that_cannot_start_in_it():
    drive = begun("e pure; k kept; z kept e k")
    drive.finish("e", graph=graph("x loose; y loose x"))
    drive.ends("e/x", 1, again=True)
    assert drive.lose("e") == []
    assert drive.elapse("e") == ["start e"]


def test_who_joins_what_was_abandoned_does_not_stand_on_others_that_have_joined_it():
    """Who joins it learns that its graph has ended, however often: `j` need not be kept for the sake of `n`."""
    inner = graph("x kept; w kept; f kept,aside w; s kept x", sink="s")
    around = graph("e kept; u undoable; i kept; n default i; j kept u; y kept e n j", returning={"e": [inner]})
    status = play_script(
        graph("t kept; k kept t", returning={"t": [around]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/u
        save t/u.0
        answer t/e/w for 2
        save t/e/s.0
        finish t/i joining t/e/f
        save t/i.0
        finish t/j joining t/e/f
        save t/j.0
        finish t/n
        save t/n.0
        fail t/y for good
        """,
        on_failure="undo",
    )
    assert status == "undone"


# -- saved in parts ----------------------------------------------------------------------------------------------------


def test_what_the_journal_learns_with_a_graph_it_does_not_learn_again_with_a_ref_in_it():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("p pure; y kept p"), holding="new")
    drive.finish("e/p", graph=graph("x loose"))
    assert "+expanded e/p" in drive.save("e")
    assert "+expanded e/p" not in drive.save("e.1")


def test_who_was_admitted_to_a_graph_that_is_to_be_saved_once_more_asks_again():
    """`e` breaks its promise: it returns the same graph with other refs, so what was saved of it does not count."""
    fork = graph("x kept,asks; f kept,aside", sink="x")
    drive = begun("e pure,saved; z kept e")
    drive.finish("e", graph=fork, holding="new")
    assert "ask e/x" in drive.save("e")
    assert drive.lose("e.1") == ["start e"]
    drive.finish("e", graph=fork, holding="new new")
    assert drive.admit("e/x") == []
    assert "ask e/x" in drive.save("e")
    assert drive.admit("e/x") == ["start e/x"]


# -- transactions, actors, turns ---------------------------------------------------------------------------------------


def test_nothing_of_a_transaction_is_released_while_one_around_it_has_no_result():
    drive = begun("e kept,transaction; z kept e")
    drive.complete("e", graph=graph("f kept,transaction; x kept f"))
    told = drive.complete("e/f", graph=graph("u undoable,unsaved; s kept u"))
    told += drive.finish("e/f/u")
    told += drive.complete("e/f/s")
    assert drive.settled >= {"e/f", "e/f/u", "e/f/s"}
    assert not [sentence for sentence in told if sentence.startswith("release e/")]
    assert "undo e/f/u with output" in drive.ends("e/x", 1)


def test_a_taker_that_runs_for_an_undo_leaves_the_version_of_the_others_alone():
    """`a` and `b` are made twice: for the undo of `u`, and for `w`, which runs again in public as well."""
    drive = begun("a pure; b pure; w pure takes:a b; u undoable w; z kept u")
    drive.finish("a", holding="actor")
    drive.finish("b")
    drive.finish("w", small=False)
    assert sorted(drive.lose("w", "b", attempts="u")) == ["start a", "start b"]
    assert sorted(drive.end("u")) == ["start a privately", "start b privately"]
    assert drive.finish("a", holding="actor") == []
    assert drive.finish_rebuilding("a") == []
    assert drive.finish_rebuilding("b") == ["start w privately"]
    assert drive.finish("b") == ["start w"]


def test_a_loop_goes_on_at_once_after_a_part_whose_graph_was_done_before_a_crash():
    loop = graph("a pure,turn=0,limit=1; s kept a; k kept; t kept a k; b kept,turn=1,limit=1 s; z kept t b")
    drive = begun("e kept; end kept e")
    drive.complete("e", graph=loop)
    drive.finish("e/a", graph=CHAIN)
    drive.finish("e/a/p", "e/a/r")
    drive.complete("e/s")
    drive = drive.reload()
    drive.begin()
    assert "e/b" not in drive.running
    assert drive.finish("e/a", graph=CHAIN) == ["start e/a/p", "start e/b"]


def test_a_taker_that_was_admitted_waits_for_a_reader_that_runs_again():
    drive = begun("a pure; r kept a; w kept,asks takes:a; z kept r w")
    drive.finish("a", holding="actor")
    assert drive.finish("r") == ["save r", "ask w"]
    assert drive.lose("r") == ["drop r", "start r"]
    assert drive.admit("w") == []
    assert drive.finish("r") == ["save r", "ask w"]
    assert drive.admit("w") == ["start w"]


# -- other refs than before --------------------------------------------------------------------------------------------


def test_saves_that_do_not_count_any_more_are_taken_back_also_if_the_task_ran_once_more_since():
    """1. `p` is saved, but for a ref. 2. That is lost, and `p` returns other refs. 3. It is lost and returns the same
    again. 4. It is dropped: the journal still has the save."""
    drive = begun("n loose; p pure,saved n; k kept; z kept n p k")
    drive.finish("n")
    drive.finish("p", holding="new")
    drive.save("p")
    drive.lose("p.1")
    drive.finish("p", holding="new new")
    drive.lose("p")
    drive.finish("p", holding="new new")
    assert drive.lose("n")[:2] == ["+recovering n p", "+dropped n p"]


def test_an_undo_is_given_an_output_of_which_something_was_lost_that_it_does_not_have():
    drive = begun("u undoable,unsaved; z kept after:u", on_failure="undo")
    assert "+done u" in drive.finish("u")
    drive.lose("u.1")
    assert "undo u with output" in drive.raises("z")


# -- actors and turns --------------------------------------------------------------------------------------------------


def test_who_takes_an_actor_does_not_wait_for_an_undo_that_waits_to_be_tried_again():
    drive = begun("a kept; u undoable,retries=1 a; g kept; t kept takes:a g; z kept u t")
    drive.complete("a", holding="actor")
    drive.raises("u")
    assert drive.undo_fails("u") == ["wait u 1"]
    assert "start t" in drive.finish("g")


def test_a_member_of_a_loop_that_asks_to_run_again_keeps_its_turn_when_its_graph_has_its_result():
    # given a member that was lost after it returned a graph
    drive = begun("loop kept; z kept loop")
    drive.complete("loop", graph=graph("a pure,saved,asks,turn=1,limit=1; b kept,turn=2; g kept a b"))
    drive.admit("loop/a")
    drive.finish("loop/a", graph=graph("x pure"))
    assert drive.lose("loop/a") == ["ask loop/a"]
    # when its graph has its result, and it is admitted
    # then it runs before the next one
    assert drive.finish("loop/a/x") == []
    assert drive.admit("loop/a") == ["start loop/a"]
    assert "start loop/b" in drive.finish("loop/a", graph=graph("x pure"))
