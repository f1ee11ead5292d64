"""Found by reading: actors, turns and queues."""

import pytest

from onceflow.core.rules import starting
from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("then", ["fail T/y for good", "answer T/y for 1 again", "cancel with undo"])
def test_a_saved_version_of_an_actor_in_a_graph_that_has_ended_can_be_taken_twice_for_undos(then):
    """private T/e/m is rebuilt privately, but is not repeatable: nothing in an ended graph is to be saved any more, so
    the version that m has saved counted as taken by t, and was made anew for t2."""
    ends = graph("m kept; t pure takes:m; t2 pure takes:m; u undoable t; u2 undoable t2; x kept; s kept u u2 x")
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
        answer T/e/x for 2 failing -1
        save T/e/s.0
        lose T/e/t.0 T/e/t2.0
        {then}
        """,
    )


@pytest.mark.parametrize(
    "loop",
    [
        "a loose; e1 kept,turn=1,limit=1 a; e2 kept,turn=2 a; s kept e1 e2",
        "a loose; b pure a; e1 kept,turn=1,limit=1 b; e2 kept,turn=2 b; s kept e1 e2",
        "a loose; e1 kept,turn=1,limit=1 a; e2 kept,turn=2; k kept a e2; s kept e1 k",
    ],
)
def test_what_may_change_is_not_shared_by_nodes_that_take_turns(loop):
    """nothing is left to do, but the run is running: n waits until a is settled, a until e2 is, and e2 waits for the
    turn that e1 has until n is done."""
    told = graph(loop, returning={"e1": [graph("n default")]})
    drive = Drive(graph("L kept; z kept L"))
    drive.begin()
    assert "refuse L InvalidGraph" in drive.finish("L", graph=told)


def test_what_may_change_is_read_by_one_node_that_takes_turns():
    """As where a loop goes over the results of another one."""
    loop = graph(
        "a loose,turn=1,limit=1; b loose,turn=2; e1 kept,turn=1 a; e2 kept,turn=2 b; s kept e1 e2",
        returning={"e1": [graph("n default")], "e2": [graph("n default")]},
    )
    assert play_script(graph("L kept; z kept L", returning={"L": [loop]}), "") == "succeeded"


def test_what_a_transaction_may_take_back_counts_as_such_until_its_result_is_settled():
    """Its output was handed out as soon as it was saved and quiet, and changed when the transaction was tried again."""
    inner = graph("a kept; u undoable a; v kept u; n kept v")
    drive = Drive(graph("w undoable; T kept,transaction w; z kept T"))
    drive.begin()
    drive.complete("w")
    drive.complete("T", graph=inner)
    drive.complete("T/a", "T/u", "T/v")
    assert drive.quiet >= {"T/a", "T/u", "T/v"}
    taken_back = [id for id in drive.run.rows if starting.may_be_taken_back(drive.run, id)]
    assert taken_back == ["T/u", "T/v", "T/n"]
    drive.complete("T/n")
    assert not any(starting.may_be_taken_back(drive.run, id) for id in drive.run.rows)
