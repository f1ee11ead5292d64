"""What graphs that end, are tried again or are taken back have in common with each other: found by reading.

Played under the judge, and made small.
"""

import pytest

from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("more", ["", "commit\ncrash", "save a~2/c.0\ncommit\ncrash"])
def test_what_a_graph_was_about_to_end_with_is_no_part_of_what_the_one_around_it_ends_with(more):
    """run z is to start, but not all its inputs are available"""
    guarded = graph("b kept,guarding,parts=2", returning={"b": [graph("c kept,parts=2")]})
    play_script(
        graph("a kept,parts=2; z kept a.0", returning={"a": [guarded]}),
        f"""
        finish a
        save a.0
        finish a/b
        save a/b.0
        expire a~2/c at 2
        save a~2/c.0
        expire a~2/c at 1
        save a~2/c.1#2
        {more}
        """,
    )


@pytest.mark.parametrize("again", [False, True])
def test_a_transaction_that_fails_while_the_graph_around_it_ends_is_taken_back(again):
    """Whichever fails first. (The judge asks only whether a transaction may be taken back, not whether it was.)"""
    drive = Drive(graph("a kept; z kept a"))
    drive.begin()
    drive.complete("a", graph=graph("t kept,transaction; y kept; s kept t y"))
    drive.complete("a/t", graph=graph("u undoable; v default; x undoable; w kept u v x"))
    drive.complete("a/t/u")
    assert drive.ends("a/y", 1, again=again) == ["withdraw a/t/v"]
    assert drive.ends("a/t/v", 1, failed=2, again=again) == ["stop a/t/x"]
    drive.end("a/t/x")
    assert drive.undone("a/t/x")[-2:] == ["+recovering a/t/u", "undo a/t/u with output"]


@pytest.mark.parametrize("lost", ["", "save t/x/e.0", "lose t/x/e.0"])
@pytest.mark.parametrize(
    ("nested", "raises"), [("e kept; n default e", ""), ("e kept; n undoable e", ""), ("e pure; n default e", "answer")]
)
def test_what_was_done_in_a_graph_that_has_not_ended_after_all_is_saved(nested, raises, lost):
    """nothing is left to do, but the run is running: a graph had ended, and was opened again with the transaction
    around it. What was done in it was not to be saved meanwhile, and nobody asked for it afterwards."""
    kind = "pure" if raises else "kept"
    inner = graph(f"r {kind}; q {kind} r")
    ending = graph(f"u undoable; {nested}; w kept; s kept u n w", returning={"e": [inner]})
    transaction = graph("x kept; f kept x", returning={"x": [ending]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        f"""
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/u
        save t/x/u.0
        finish t/x/e
        {raises or "finish"} t/x/e/r
        finish t/x/e/q
        answer t/x/w for 2
        save t/x/s.0
        {lost}
        answer t/f for 1 failing 1 again
        """,
    )


@pytest.mark.parametrize("depth", [1, 2])
def test_a_transaction_that_gets_its_result_before_it_could_be_taken_back_is_over(depth):
    """x/y: unquiet is kept as 0, by definition it is 1"""
    nested = graph("u undoable; s default u")
    around = graph("t kept,transaction; m default; y kept t m", returning={"t": [nested]})
    status = play_script(
        graph("x kept; z kept x", returning={"x": [around]}),
        f"""
        finish x
        save x.0
        finish x/t
        save x/t.0
        finish x/t/u
        save x/t/u.0
        land x/t/s
        land x/m
        expire x/t/s at {depth}
        finish x/t/s!late
        save x/t/s.0
        """,
    )
    assert status == "succeeded"


def test_what_can_never_be_saved_in_a_graph_that_has_ended_need_not_be():
    """The run failed, if the graph was in a transaction, where nothing is released before that has its result."""
    ending = graph("r kept; w kept; s kept r w")
    transaction = graph("x kept; f kept x", returning={"x": [ending]})
    status = play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/r
        answer t/x/w for 2
        save t/x/s.0
        save t/x/r.0 fails for good
        """,
    )
    assert status == "succeeded"


def test_an_undo_is_not_given_an_output_that_was_saved_in_part_in_a_graph_that_has_ended():
    drive = Drive(graph("t kept,transaction; z kept t"))
    drive.begin()
    drive.complete("t", graph=graph("x kept; f kept x"))
    drive.complete("t/x", graph=graph("u undoable,parts=2; w kept; s kept u.0 w"))
    drive.finish("t/x/u")
    drive.save("t/x/u")
    drive.ends("t/x/w", 2)
    drive.save("t/x/s")
    loaded = drive.reload()
    loaded.begin()
    assert loaded.ends("t/f", 1, again=True)[-1:] == ["undo t/x/u"]


@pytest.mark.parametrize("inner", [None, graph("a pure; b kept; c kept a b")])
@pytest.mark.parametrize("end", ["cancel with undo", "answer t/f for 1 again", "fail t/f for good"])
def test_what_an_undo_reads_in_a_graph_that_has_ended_is_made_again_after_a_crash(end, inner):
    """Undo(node='t/x/u', …) cannot see the inputs: what was not saved counted as abandoned, with nothing in it"""
    ending = graph("o pure; p pure o; u undoable p; i kept; w kept; s kept u w i", returning={"i": [inner]})
    transaction = graph("x kept; f kept x", returning={"x": [ending]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        f"""
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/o
        finish t/x/p large
        finish t/x/u
        save t/x/u.0
        finish t/x/i
        save t/x/i.0
        answer t/x/i/b for 3
        save t/x/i/c.0
        answer t/x/w for 2
        save t/x/s.0
        commit
        crash
        {end}
        """,
    )


@pytest.mark.parametrize("first", ["answer x/t/a for 1 again", "answer x/t/a for 2 again"])
@pytest.mark.parametrize("second", ["answer x/t/n for 2", "answer x/t/n for 2 again", "answer x/t/n for 1 again"])
def test_a_graph_in_one_that_is_tried_again_ends_all_the_same_whichever_was_answered_for_first(first, second):
    """run x/t/n starts in a graph that a handler has answered for (what is to be tried again in it opens with it)"""
    around = graph("t kept; y kept t", returning={"t": [graph("a kept; n default; s kept a n")]})
    play_script(
        graph("x kept; z kept x", returning={"x": [around]}),
        f"""
        finish x
        save x.0
        finish x/t
        save x/t.0
        land x/t/n
        {first}
        {second}
        """,
    )


@pytest.mark.parametrize("end", ["cancel with undo", "answer t/f for 1 again", "fail t/f for good"])
def test_so_is_what_was_lost_and_about_to_be_made_again_when_the_graph_ended(end):
    """Undo(node='t/x/u', …) cannot see the inputs"""
    ending = graph("p pure; u undoable p; v kept p; w kept; s kept u v w")
    transaction = graph("x kept; f kept x", returning={"x": [ending]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        f"""
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/p large
        finish t/x/u
        save t/x/u.0
        lose t/x/p.0 running t/x/v
        answer t/x/w for 2
        save t/x/s.0
        {end}
        """,
    )


@pytest.mark.parametrize("last", ["expire e/m at 1\nundone e/t/v!undo", "undone e/t/v!undo\nexpire e/m at 1"])
def test_a_transaction_whose_result_is_being_dropped_has_none_and_is_taken_back_as_a_whole(last):
    """It was taken back by half: what had to be undone because its input was lost, but nothing else."""
    transaction = graph("l loose; s kept l; v undoable s; u undoable; y loose l v u")
    around = graph("t kept,transaction; m kept t; q kept m", returning={"t": [transaction]})
    status = play_script(
        graph("e kept; z kept e", returning={"e": [around]}),
        f"""
        finish e
        save e.0
        finish e/t
        save e/t.0
        finish e/t/l
        finish e/t/s
        save e/t/s.0
        finish e/t/u
        save e/t/u.0
        finish e/t/v
        save e/t/v.0
        finish e/t/y
        lose e/t/l.0 e/t/y.0
        {last}
        """,
    )
    assert status == "succeeded"
