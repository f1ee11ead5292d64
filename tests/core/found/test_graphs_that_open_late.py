"""Found by reading: graphs that open, end or are answered for when something around them has happened meanwhile."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_the_delay_of_a_graph_that_was_taken_back_for_good_opens_nothing():
    """KeyError: 'a/x' when the run is loaded: *expanded* was recorded of what the last recovery had dropped."""
    around = graph("x pure; y kept; s kept x y", returning={"x": [graph("h pure; g pure h")]})
    play_script(
        graph("p pure; u undoable p; a kept u; z kept a", returning={"a": [around]}),
        """
        finish p large
        finish u
        save u.0
        finish a
        save a.0
        finish a/x
        answer a/x/h
        answer a/y for 1 again
        lose a/x.0
        lose p.0
        cancel with undo
        end a/x/g!late
        end a/y!late
        carry out start p
        lose running p!private
        finish p!private
        undone u!undo
        elapse a
        commit
        crash
        """,
    )


@pytest.mark.parametrize("last", ["fail z for good", "cancel with undo"])
@pytest.mark.parametrize("ends", ["answer e/n for 1 failing -1", "expire e/n at 1\nend e/n!late"])
def test_what_has_begun_and_ends_its_graph_stands_on_what_was_joined_there(ends, last):
    """the recovery of [...]: e/n has begun and would run again after ('p/u', 'p/c')"""
    forking = graph("u undoable; c kept,aside u; r kept", sink="r")
    ending = graph("n default; j kept; f kept,aside j", sink="n")
    play_script(
        graph("p kept; e kept p; z kept p e", returning={"p": [forking], "e": [ending]}),
        f"""
        finish p
        save p.0
        finish p/u
        save p/u.0
        finish p/c
        save p/c.0
        finish p/r
        save p/r.0
        finish e
        save e.0
        land e/n
        finish e/j joining p/c
        save e/j.0
        {ends}
        save e/n.0
        {last}
        """,
        on_failure="undo",
    )


def test_what_is_saved_in_part_is_saved_on_when_its_graph_starts_afresh_with_its_transaction():
    """nothing is left to do, but the run is running"""
    ending = graph(
        "u undoable; x pure; k kept x; n default k; m kept x after:n; w kept; s kept u m w",
        returning={"x": [graph("h pure; g pure h")]},
    )
    transaction = graph("e kept; f kept e", returning={"e": [ending]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/x holding new
        answer t/e/x/h
        save t/e/x.0
        expire t/e/w at 2
        save t/e/s.0
        answer t/f for 1 again
        """,
    )


@pytest.mark.parametrize("kind", ["pure", "loose"])
def test_nothing_is_made_again_in_a_graph_that_has_ended_when_one_around_it_opens(kind):
    """run a/e/x starts in a graph that has ended; the recovery takes (x, h, g, r), which nothing requires"""
    ending = graph(f"x {kind}; w kept; r kept x w", returning={"x": [graph("h pure; g pure h")]})
    around = graph("e kept; y kept; s kept e y", returning={"e": [ending]})
    play_script(
        graph("q loose; a kept q; z kept a q", returning={"a": [around]}),
        """
        finish q
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/x
        answer a/e/x/h
        expire a/e/w at 2
        save a/e/r.0
        answer a/y for 1 again
        elapse a
        lose a/e/x.0
        """,
    )


def test_a_chunk_that_fails_when_it_runs_again_keeps_its_turn_for_the_sake_of_its_graph():
    """L/c1 has returned a graph, and has lost its turn"""
    loop = graph(
        "c1 pure,saved,retries=1,turn=1,limit=1; c2 kept,turn=2; s kept c1 c2",
        returning={"c1": [graph("x kept; y kept x")]},
    )
    play_script(
        graph("L kept; z kept L", returning={"L": [loop]}),
        """
        finish L
        save L.0
        finish L/c1
        lose L/c1.0
        fail L/c1
        """,
    )


def test_a_chunk_that_runs_again_keeps_its_turn_for_the_sake_of_the_graph_that_its_graph_goes_on_with():
    """L/c1 has returned a graph, and has lost its turn"""
    chunk = graph("x kept; q kept x", returning={"q": [graph("y kept; v kept y")]})
    loop = graph("c1 pure,saved,turn=1,limit=1; c2 kept,turn=2; s kept c1 c2", returning={"c1": [chunk]})
    play_script(
        graph("L kept; z kept L", returning={"L": [loop]}),
        """
        finish L
        save L.0
        finish L/c1
        finish L/c1/x
        finish L/c1/q
        lose L/c1.0
        finish L/c1
        """,
    )


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
@pytest.mark.parametrize(
    "late",
    [
        "answer a/e/n!late",
        "answer a/e/n!late for 2",
        "answer a/e/n!late for 1",
        "answer a/e/n!late for 1 again",
        "answer a/e/n!late for 2 again",
        "answer a/e/i/x!late for 3\nfinish a/e/n!late",
        "answer a/e/i/x!late for 3 again\nfinish a/e/n!late",
        "answer a/e/i/x!late\nfinish a/e/n!late",
        "finish a/e/n!late\nanswer a/e/i/x!late for 3",
        "finish a/e/n!late\nanswer a/e/i/x!late for 3 again",
        "answer a/e/i/x!late for 1 failing 3\nfinish a/e/n!late",
        "answer a/e/i/x!late for 2 failing 3\nfinish a/e/n!late",
        "finish a/e/n!late\nanswer a/e/i/x!late for 2 failing 3",
        "answer a/e/i/x!late for 1 failing 1 again\nfinish a/e/n!late",
    ],
)
def test_an_answer_of_what_was_told_to_stop_is_not_forgotten_if_the_result_is_quicker(late, crash):
    """a/e/i/x starts in a graph that a handler has answered for"""
    inner = graph("x default; y default; s kept x y")
    expiring = graph("n default; i kept; f kept,aside i", sink="n", returning={"i": [inner]})
    around = graph("e kept; t kept e", returning={"e": [expiring]})
    play_script(
        graph("a kept; z kept a", returning={"a": [around]}),
        f"""
        finish a
        save a.0
        finish a/e
        save a/e.0
        finish a/e/i
        save a/e/i.0
        land a/e/n
        land a/e/i/x
        land a/e/i/y
        expire a/e/n at 2
        {late}
        {crash}
        """,
    )
