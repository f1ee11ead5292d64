"""Settled and quiet (design 2.2) in corners: groups that wait for one save, and rows that are made again or taken back
meanwhile. Every state is also compared with its definition."""

import pytest

from tests.core.building import begun, graph
from tests.tools.simulation.script import play_script


def test_two_that_need_each_other_are_settled_when_the_save_that_both_waited_for_is_there():
    """`s` and `l` need each other, and both need `w`; `t`, which reads `w` as well, is nothing to them."""
    drive = begun("w kept; l loose w; s kept l w; k kept; t kept w k; z pure s t")
    drive.finish("w", "l")
    drive.complete("s")
    assert drive.settled == set()
    drive.save("w")
    assert drive.settled == {"w", "l", "s"}


def test_a_repeatable_task_that_is_being_made_again_keeps_nobody_from_being_settled():
    drive = begun("b loose; a kept b; p pure a; c kept b p; k kept; q kept p k; z pure c q")
    drive.finish("b")
    drive.complete("a")
    drive.finish("p", "c")
    assert drive.lose("p") == ["start p"]
    drive.save("c")
    assert drive.settled == {"b", "a", "c"}


def test_what_is_being_taken_back_is_not_settled_by_what_it_waited_for():
    """1. `u` is saved, and waits for `l`, which `m` has yet to read. 2. The transaction fails, and `u` is to be undone.
    3. With `m` saved, `l` is settled. `u` is not."""
    drive = begun("l loose; e kept,transaction l; m kept l; z kept e m")
    drive.finish("l")
    drive.complete("e", graph=graph("u undoable; x kept u; s kept u x"))
    drive.complete("e/u")
    assert drive.ends("e/x", 1) == ["+recovering e/u", "undo e/u with output"]
    drive.complete("m")
    assert drive.settled == {"l", "e", "m"}
    assert drive.undone("e/u")[:2] == ["+undone e/u", "+dropped e/u"]


OUTSIDE = {
    "its graph was to begin with": "e kept; y kept g e v",
    "its graph is later": "p loose; m kept after:p u; e kept p; y kept g e v m",
}


@pytest.mark.parametrize("is_quiet", OUTSIDE)
def test_what_was_abandoned_is_not_settled_before_what_its_graph_ended_with_though_all_it_reads_is_quiet(is_quiet):
    """1. `e` has ended, with what has joined `c`; `k`, which reads nothing but `e`, was abandoned. 2. A saga takes `u`
    back, and `g` with it, which has yet to do without `r`: so `c` is not settled any more. 3. `k` is settled with `c`,
    when `g` is saved: as long as `c` may be taken back, `k` may start afresh."""
    fork = "r loose; u undoable; g kept after:r u; c kept,aside r; v kept"
    inner = graph("j kept; w kept j; k kept; s kept w k")
    status = play_script(
        graph("t kept; z kept t", returning={"t": [graph(f"{fork}; {OUTSIDE[is_quiet]}", returning={"e": [inner]})]}),
        """
        finish t
        save t.0
        finish t/r
        finish t/u
        save t/u.0
        finish t/g
        save t/g.0
        finish t/c
        save t/c.0
        finish t/p
        finish t/m
        save t/m.0
        finish t/e
        save t/e.0
        finish t/e/j joining t/c
        save t/e/j.0
        answer t/e/w for 2
        save t/e/s.0
        cancel with undo
        end t/v!late
        end t/e/k!late
        undone t/u!undo
        carry out finish
        resume
        finish t/u
        save t/u.0
        finish t/m
        save t/m.0
        finish t/g
        save t/g.0
        """,
    )
    assert status == "succeeded"
