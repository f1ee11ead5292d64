"""Found by reading: actors, turns and queues."""

import pytest

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


@pytest.mark.parametrize("then", ["fail T/y for good", "answer T/y for 1 again", "cancel with undo"])
def test_a_saved_version_of_an_actor_in_a_graph_that_has_ended_can_be_taken_twice_for_undos(then):
    """private T/e/m is rebuilt privately, but is not repeatable: nothing in an ended graph is to be saved any more, so
    the version that m has saved counted as taken by t, and was made anew for t2."""
    ends = graph(
        "m kept; t pure takes:m; t2 pure takes:m; u undoable t; u2 undoable t2; fork0 kept,aside u u2; x kept; s kept x",
        sink="s",
    )
    around = graph("e kept; y kept e; q kept y", returning={"e": [ends]})
    play_script(
        graph("T kept,transaction; z kept T", returning={"T": [around]}),
        f"""
        finish T
        save T.0
        finish T/e
        save T/e.0
        finish T/e/m holding actor
        save T/e/m.0
        save T/e/m.1
        finish T/e/t large
        finish T/e/t2 large
        finish T/e/u
        finish T/e/u2
        save T/e/u.0
        save T/e/u2.0
        finish T/e/fork0
        answer T/e/x for 2 failing -1
        save T/e/s.0
        lose T/e/t.0 T/e/t2.0
        {then}
        """,
    )
