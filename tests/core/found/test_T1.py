"""Graphs that end around others, several deep: found by systematic variants."""

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_a_transaction_in_a_graph_that_was_quicker_than_the_end_of_its_time_is_not_taken_back():
    """The judge said: Abandoned(node='z', …), but ('a/e/u',) was not undone."""
    transaction = graph("u undoable; v default; x kept u v")
    quicker = graph("e kept,transaction; o kept,aside e; k default", sink="k", returning={"e": [transaction]})
    status = play_script(
        graph("a kept; j kept a; z default j", returning={"a": [quicker]}),
        """
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/u
        save a/e/u.0
        land a/k
        expire a/k at 1
        finish a/k!late
        answer j for 0 failing -1
        """,
    )
    assert status == "succeeded"
