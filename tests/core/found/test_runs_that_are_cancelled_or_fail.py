"""Found by reading: the life of a whole run."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("asks", ["", ",asks"])
@pytest.mark.parametrize("validate", [False, True])
def test_who_is_rebuilt_for_an_undo_in_a_graph_that_ends_has_no_turn(asks, validate):
    """nothing is left to do, but the run is running: e was stopped, returned its graph privately, and then had the turn
    that c3 waits for; or it had asked, and nobody gave its turn back when it was forgotten."""
    part = graph(f"e pure,saved,turn=1{asks}; u undoable e; y kept u", returning={"e": [graph("x pure,saved")]})
    loop = graph("c1 kept,turn=1,limit=1; c2 kept,turn=2; c3 kept,turn=3; s kept c1 c2 c3", returning={"c1": [part]})
    play_script(
        graph("L kept; z kept L", returning={"L": [loop]}),
        """
        finish L
        save L.0
        finish L/c1
        save L/c1.0
        admit L/c1/e
        finish L/c1/e
        finish L/c1/e/x
        commit
        crash
        expire L/c1/y at 2
        """,
        validate=validate,
    )


@pytest.mark.parametrize("then", ["save u.0 fails for good", "fail n for good"])
@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
def test_a_saga_that_is_cancelled_without_undo_keeps_what_is_done_whatever_fails_then(then, crash):
    """u was undone although nobody asked for it: what failed while the run was being cancelled started the saga."""
    status = play_script(
        graph("u undoable; n default; v undoable; z kept u n v"),
        f"""
        finish v
        save v.0
        finish u
        land n
        cancel
        {then}
        {crash}
        """,
        on_failure="undo",
    )
    assert status == "cancelled"


def test_what_may_have_happened_is_told_also_if_its_graph_has_not_ended_after_all():
    """t/e/n may have happened: it was stopped, and abandoned with its graph; but that was taken back with t."""
    ends = graph("u undoable; n default; w kept; s kept u n w")
    play_script(
        graph("t kept,transaction; k kept t", returning={"t": [graph("e kept; f kept e", returning={"e": [ends]})]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        land t/e/n
        expire t/e/w at 2
        end t/e/n!late
        save t/e/s.0
        fail t/f
        """,
    )
