"""Found by reading: graphs that are tried again of which only nested graphs are left."""

from onceflow.core.model import records
from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script

INNER = graph("c kept", returning={"c": [graph("c kept")]})


def test_a_graph_of_which_only_a_nested_one_is_left_waits_for_its_delay_after_a_crash():
    """All that is left of the graph of `b` is in that of `b/a`, whose handlers are others: `b/a` is forgotten."""
    play_script(
        graph("b kept,guarding", returning={"b": [graph("a kept,guarding", returning={"a": [INNER]})]}),
        """
        finish b
        save b.0
        finish b/a
        save b/a.0
        finish b~2/c
        save b~2/c.0
        answer b~3/c for 1 again
        commit
        crash
        """,
    )


def test_the_failures_of_such_a_graph_are_counted_from_zero_when_the_one_around_it_is_tried_again():
    """`b/a` has failed once before `b` did, and once since; after a crash that was known."""
    drive = Drive(graph("b kept,guarding"))
    drive.begin()
    drive.complete("b", graph=graph("a kept,guarding"))
    drive.complete("b/a", graph=graph("c kept,guarding"))
    drive.complete("b~2/c", graph=graph("e kept"))
    drive.ends("b~3/e", 2, again=True)
    drive.elapse("b/a")
    drive.complete("b~3/e", graph=graph("k kept"))
    drive.ends("b~4/k", 1, again=True)
    drive.elapse("b")
    drive.ends("b~4/k", 2, again=True)
    again = [(record.node, record.failures) for record in drive.journal if isinstance(record, records.Again)]
    assert again == [("b/a", 1), ("b", 1), ("b/a", 1)]
