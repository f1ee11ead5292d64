"""Graphs that end around others, several deep: found by systematic variants."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


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


def test_a_graph_whose_time_was_over_when_the_one_around_it_ended_may_get_its_result_after_all():
    """The judge raised KeyError('a/e/f'): it still took the time of that graph for over."""
    expired = graph("u undoable; v default; k kept u v")
    ended = graph("f kept; u undoable; v kept; o kept,aside f; k kept v u", returning={"f": [expired]})
    around = graph("e kept; v default; o kept,aside e; k kept v", returning={"e": [ended]})
    status = play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        """
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/f
        save a/e/f.0
        finish a/e/u
        save a/e/u.0
        expire a/e/f/v at 3
        expire a/e/v at 2
        end a/e/v!late
        end a/e/f/u!late
        end a/e/f/v!late
        undone a/e/f/u!undo
        save a/e/k.0
        cancel with undo
        withdraw a/v
        end a/o!late
        undone a/e/u!undo
        carry out finish
        resume
        """,
    )
    assert status == "succeeded"
