"""Found by reading: what is abandoned in graphs that end, what they have joined, and who covers what they read."""

import pytest

from onceflow.core.model import records
from onceflow.core.run import Run
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story

HALF_DONE = """
    finish t
    save t.0
    finish t/x
    save t/x.0
    finish t/x/p
    finish t/x/fk
    save t/x/fk.0
    finish t/x/u
    answer t/x/w for 2
    save t/x/s.0
    finish t/j joining t/x/fk
    save t/j.0
"""


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    "last", ["cancel with undo", "finish t/n\nsave t/n.0\nfail t/f for good\nend t/x/c!late\ncarry out finish\nresume"]
)
def test_what_is_abandoned_cannot_be_had_again(last, validate):
    """t/n has begun and would run again after t/x/p, t/x/fk, t/j"""
    inner = graph("p kept; fk kept,aside p; u undoable; c kept p; w kept; s kept c u w")
    outer = graph("x kept; j kept; n default j; f kept x n", returning={"x": [inner]})
    made = graph("t kept; z kept t", returning={"t": [outer]})
    play_script(made, HALF_DONE + last, on_failure="undo", validate=validate)


@pytest.mark.parametrize("validate", [True, False])
def test_a_result_whose_attempt_never_started_covers_nothing(validate):
    """Finish(cancelled, kept=('t/x/u',)), but ('t/x/u',) was not undone"""
    inner = graph("u undoable; s default u; v kept; q kept,aside v", sink="s")
    play_script(
        graph("t kept; z kept t", returning={"t": [graph("x kept; f kept x", returning={"x": [inner]})]}),
        """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/u
        save t/x/u.0
        carry out start t/x/s
        answer t/x/v for 2
        lose running t/x/s
        save t/x/s.0
        end t/x/s!late unstarted
        cancel with undo
        """,
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_a_graph_that_ends_has_joined_what_was_joined_in_what_was_taken_back_of_it(validate):
    """Saved(node='t/x/s', …, joined=()) came of what t/c gave, and has not joined it"""
    inner = graph("u undoable; j kept u; r kept j; s kept r")
    outer = graph(
        "uc undoable; c kept,aside uc; x kept,transaction; n default x; f kept n", sink="f", returning={"x": [inner]}
    )
    play_script(
        graph("t kept; z kept t", returning={"t": [outer]}),
        """
        finish t
        save t.0
        finish t/uc
        save t/uc.0
        finish t/c
        save t/c.0
        finish t/x
        save t/x.0
        finish t/x/u
        save t/x/u.0
        finish t/x/j joining t/c
        save t/x/j.0
        answer t/x/r for 2
        undone t/x/u!undo
        save t/x/s.0
        finish t/n
        save t/n.0
        cancel with undo
        """,
        validate=validate,
    )


@pytest.mark.parametrize("order", [("t/s at 1", "t/e/w at 2"), ("t/e/w at 2", "t/s at 1")])
def test_an_inner_deadline_counts_although_one_around_it_came_first(order):
    """If the outer graph gets its result all the same, the inner one ends."""
    inner = graph("w kept; v kept w")
    outer = graph("s default; e kept; fk kept,aside e", sink="s", returning={"e": [inner]})
    made = graph("t kept; z kept t", returning={"t": [outer]})
    driver = Driver(made, Run, "keep", True, Checker(), Story())
    steps = ["finish t", "save t.0", "finish t/e", "save t/e.0", "land t/s", *[f"expire {it}" for it in order]]
    Player(driver).play([*steps, "finish t/s!late"])
    ended = [entry[0] for entry in driver.journal if isinstance(entry[0], records.Abandoned)]
    assert {record.expander for record in ended} == {"t/e"}


def test_what_was_never_launched_does_not_outlive_a_crash():
    """Withdrawn(node='t/x'), but it may happen (an error of the simulation)"""
    play_script(
        graph("t kept; z kept t", returning={"t": [graph("j kept; x default; f kept x j")]}),
        """
        finish t
        save t.0
        expire t/j at 1
        crash keeping t/x!late
        finish t
        save t.0
        expire t/j at 1
        end t/x!late#2 unstarted
        """,
    )


def test_a_crash_forgets_what_made_a_graph_safe_unless_the_journal_has_it():
    """Refuse(node='b/b', …), but the law allows that graph (an error of the judge)"""
    last = graph("d kept; f0 kept,aside", sink="d")
    made = graph(
        "a pure; b kept a; d kept after:a b",
        returning={"a": [graph("x loose")], "b": [graph("b kept; c kept b", returning={"b": [last]})]},
    )
    assert play_script(made, "finish a\nanswer a/x\nfinish b\nsave b.0\ncommit\ncrash") == "failed"


def test_what_of_another_graph_has_the_same_name_cannot_happen_any_more():
    """Withdrawn(node='a/a'), but it may happen (an error of the judge)"""
    status = play_script(
        graph("a kept; z kept a", returning={"a": [graph("a loose; b kept a"), graph("a default")]}),
        """
        finish a
        lose a.0
        finish a as 1
        save a.0
        commit
        carry out start a/a
        cancel with undo
        fail a/a unstarted
        """,
    )
    assert status == "cancelled"


@pytest.mark.parametrize("validate", [True, False])
def test_what_stood_aside_and_was_abandoned_can_be_joined_again(validate):
    """the recovery takes ('e/a/child0/child0/child0', …), which nothing requires"""
    first = graph(
        "a kept; b kept a; child1 kept a; fork1 kept,aside child1", sink="b", returning={"a": [graph("a kept")]}
    )
    innermost = graph(
        "a kept; child0 undoable; fork0 kept,aside child0",
        sink="a",
        returning={"child0": [graph("a kept,parts=2; b kept a")]},
    )
    inner = graph("a kept; child0 kept; fork0 kept,aside child0", sink="a", returning={"child0": [innermost]})
    outer = graph("a default; b kept a; child0 kept; fork0 kept,aside child0", sink="b", returning={"child0": [inner]})
    play_script(
        graph(
            "a kept; e kept a",
            returning={"a": [first], "e": [graph("a kept; c kept a", returning={"a": [outer]})]},
        ),
        """
        finish a
        save a.0
        finish a/a
        answer a/a/a for 1
        save a/b.0
        finish e
        save e.0
        finish e/a
        save e/a.0
        finish e/a/child0
        finish e/a/a
        save e/a/child0.0
        finish e/a/child0/child0
        save e/a/child0/child0.0
        finish e/a/child0/child0/child0
        save e/a/child0/child0/child0.0
        finish e/a/child0/child0/child0/a joining a/fork1
        fail e/a/b for good
        """,
        on_failure="undo",
        validate=validate,
    )
