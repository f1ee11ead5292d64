"""Graphs that end, and have ended, in graphs that end: found by reading."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
@pytest.mark.parametrize("aside", ["", "finish a/b/o\nsave a/b/o.0"])
def test_a_graph_that_ended_stays_ended_with_the_one_around_it_when_it_is_undone(aside, crash):
    """run a/b/e/u starts in a graph that has ended"""
    inner = graph("u undoable; v default; q kept u v")
    ended = graph("w default; e kept; o kept,aside e; r kept w", sink="r", returning={"e": [inner]})
    around = graph("b kept; y kept; s kept b y", returning={"b": [ended]})
    status = play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        f"""
        finish a
        save a.0
        finish a/b
        save a/b.0
        finish a/b/e
        save a/b/e.0
        finish a/b/e/u
        save a/b/e/u.0
        answer a/b/e/v for 3
        save a/b/e/q.0
        {aside}
        answer a/b/w for 2
        save a/b/r.0
        cancel with undo
        end a/y!late
        end a/b/o!late
        {crash}
        undone a/b/e/u!undo
        carry out finish
        resume
        """,
    )
    assert status == "succeeded"


def test_what_stands_aside_in_an_ended_graph_stays_abandoned_when_another_graph_has_not_ended_after_all():
    """The result that the first graph has ended with is forgotten by then; what was abandoned in it is not."""
    first = graph("w default; q kept w; m undoable; n default; o kept,aside m n", sink="q")
    second = graph("u undoable; v default; r kept u v")
    transaction = graph("e kept; y default; s kept e y", returning={"e": [second]})
    status = play_script(
        graph("a kept; b kept a; t kept,transaction b; z kept t", returning={"a": [first], "t": [transaction]}),
        """
        finish a
        save a.0
        finish a/m
        save a/m.0
        answer a/n for 1 failing -1
        finish a/w
        save a/w.0
        save a/q.0
        finish b
        save b.0
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        answer t/e/v for 2
        save t/e/r.0
        answer t/y for 1 again
        undone t/e/u!undo
        elapse t
        """,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("late", ["finish a/b!late", "end a/b!late", "commit\ncrash"])
def test_an_undoable_attempt_is_undone_when_the_time_of_a_graph_that_ends_anyway_is_over(late):
    """Save(node='a/b', …), but that is not in memory: an attempt that was stopped and returned all the same counted."""
    inside = graph("b undoable; m default; s kept b m")
    status = play_script(
        graph("a kept; z kept a", returning={"a": [inside]}),
        f"""
        finish a
        save a.0
        land a/b
        answer a/m for 1 failing -1
        expire a/b at 1
        {late}
        """,
    )
    assert status == "succeeded"


def test_what_goes_with_a_graph_that_is_about_to_be_dropped_is_not_abandoned_before():
    """IndexError: list index out of range (in settling: it had been looked at after it was gone)"""
    inner = graph("a kept; d kept a; fork0 kept,aside", sink="d")
    forked = graph("p kept; b kept p; u undoable; fork1 kept,aside u", sink="b", returning={"u": [inner]})
    play_script(
        graph(
            "t kept; z kept t",
            returning={
                "t": [
                    graph(
                        "v undoable; w kept v; child0 kept; fork0 kept,aside child0",
                        sink="w",
                        returning={"child0": [forked]},
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/v
        save t/v.0
        finish t/child0
        save t/child0.0
        answer t/child0/p for 2
        finish t/child0/u
        fail t/w for good
        save t/child0/b.0
        """,
        on_failure="undo",
    )
