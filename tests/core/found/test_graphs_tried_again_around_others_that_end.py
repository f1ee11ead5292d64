"""Graphs that end while graphs around them are tried again: found by reading."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
@pytest.mark.parametrize(
    "answers",
    [
        ["a/y for 1 again", "a/e/w for 2", "a/e/t/v for 3 again"],
        ["a/y for 1 again", "a/e/w for 2", "a/e/t/v for 1 failing 3 again"],
        ["a/e/w for 2", "a/e/t/v for 1 failing 3 again"],
        ["a/e/w for 1 failing 2 again", "a/e/t/v for 1 failing 1 again", "a/e/t/n for 3 failing -1"],
    ],
)
def test_a_failed_transaction_is_taken_back_before_the_graph_around_it_ends_whoever_was_to_do_that(answers, crash):
    """Abandoned(node='a/e/q', …), but ('a/e/t/u',) was not undone: that was left to a graph further out, which is tried
    again later. By then the transaction had a result."""
    transaction = graph("u undoable; v default; n default; k kept u v n")
    ending = graph("t kept,transaction; w default; q kept t w", returning={"t": [transaction]})
    around = graph("e kept; y default; x default; s kept e y x", returning={"e": [ending]})
    script = "\n".join(f"answer {answer}" for answer in answers)
    play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        f"""
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/t
        save a/e/t.0
        finish a/e/t/u
        save a/e/t/u.0
        land a/x
        land a/y
        land a/e/t/v
        land a/e/t/n
        land a/e/w
        {script}
        finish a/e/w
        finish a/e/t/n
        save a/e/q.0
        {crash}
        """,
    )


def test_what_failed_in_a_graph_about_to_end_is_taken_back_before_the_one_around_it_is_tried_again():
    """Again(node='a', failures=1), but ('a/e/t/u',) was not undone"""
    transaction = graph("u undoable; v default; k kept u v")
    ending = graph("t kept,transaction; q kept t", returning={"t": [transaction]})
    around = graph("e kept; y default; s kept e y", returning={"e": [ending]})
    play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        """
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/t
        save a/e/t.0
        finish a/e/t/u
        save a/e/t/u.0
        land a/e/t/v
        answer a/y for 1 again
        answer a/e/t/v for 2 failing 3
        """,
    )


@pytest.mark.parametrize("later", ["", "finish a/e/c", "commit\ncrash"])
def test_a_graph_whose_result_was_quicker_than_its_time_waits_with_the_one_around_it_that_is_tried_again(later):
    """run a/e/c starts in a graph that waits to be tried again"""
    expiring = graph("q default; c kept; f kept,aside c", sink="q")
    around = graph("e kept; y default; s kept e y", returning={"e": [expiring]})
    play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        f"""
        finish a
        save a.0
        finish a/e
        save a/e.0
        land a/e/q
        answer a/y for 1 again
        expire a/e/q at 2
        finish a/e/q!late
        {later}
        """,
    )
