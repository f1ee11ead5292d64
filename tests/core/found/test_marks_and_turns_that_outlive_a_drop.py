"""Found by reading: marks, turns and joins that were not given back when what they are about was dropped."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("validate", [True, False])
def test_a_parent_that_was_quiet_before_a_drop_is_looked_at_again(validate):
    """run n (irrevocable) starts, but c is not quiet"""
    play_script(
        graph(
            "e pure; p loose; c kept e p; w kept p; n default c; y kept e n; z kept w y",
            returning={"e": [graph("h pure; g pure h")]},
        ),
        """
        finish e
        finish p
        finish e/h
        finish e/g
        finish c
        save c.0
        commit
        crash
        finish e
        answer e/h
        finish e/g
        finish p
        finish w
        save w.0
        finish c
        save c.0
        """,
        validate=validate,
    )


def test_marks_begin_anew_when_a_transaction_is_taken_back():
    """IndexError: list index out of range"""
    inner = graph(
        "a loose; u undoable; d kept a u; p kept a; k kept; q kept k; A kept p q; b kept q d A; f kept; s kept b A f"
    )
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [inner]}),
        """
        finish t
        save t.0
        finish t/a
        finish t/u
        save t/u.0
        finish t/d
        save t/d.0
        finish t/p
        save t/p.0
        finish t/k
        save t/k.0
        finish t/q
        finish t/A
        save t/A.0
        answer t/f for 1 again
        undone t/u!undo
        elapse t
        save t/q.0
        """,
    )


def test_what_is_saved_in_part_is_saved_as_a_whole_although_what_was_handled_in_it_is_dropped():
    """nothing is left to do, but the run is running"""
    play_script(
        graph("e pure; c kept e; n default c; k kept e n", returning={"e": [graph("h pure; g pure h")]}),
        """
        finish e holding new
        answer e/h
        lose e/h.0
        save e.0
        lose e.1
        answer e/h
        """,
    )


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
def test_what_was_abandoned_has_joined_nothing(crash):
    """the recovery takes ('i/j', 'i/s'), which nothing requires"""
    ending = graph("u undoable; c kept,aside u; j kept; k kept; s kept k j")
    play_script(
        graph("i kept; y kept i", returning={"i": [ending]}),
        f"""
        finish i
        save i.0
        finish i/u
        save i/u.0
        finish i/c
        save i/c.0
        finish i/j joining i/c
        answer i/k for 1
        save i/s.0
        {crash}
        cancel with undo
        """,
    )


def test_a_chunk_whose_graph_starts_afresh_is_in_flight_again():
    """`c2` starts while the graph of `c1` goes on, and one may be in flight."""
    loop = graph("c1 kept,turn=1,limit=1; c2 kept,turn=2; g kept c1 c2", returning={"c1": [graph("x kept; y kept x")]})
    ending = graph("u undoable; L kept; w kept; s kept u L w", returning={"L": [loop]})
    transaction = graph("e kept,guarding; f kept e", returning={"e": [ending]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/L
        save t/e/L.0
        finish t/e/L/c1
        save t/e/L/c1.0
        answer t/e/w for 2
        save t/e/s.0
        answer t/f for 1 again
        undone t/e/u!undo
        elapse t
        """,
    )
