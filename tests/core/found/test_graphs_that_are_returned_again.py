"""Found by reading: a graph that a crash took is checked like any other when it is returned again."""

from tests.core.building import Drive
from tests.tools.simulation.notation import graph


def test_nothing_is_forked_in_a_transaction_by_a_task_that_breaks_its_promise_after_a_crash():
    """`t/e` is deterministic, and had returned a graph that a crash took, in which nothing stood aside."""
    drive = Drive(graph("t kept,transaction; z kept t"))
    drive.begin()
    drive.complete("t", graph=graph("u undoable; e kept,deterministic u; w kept e; y kept e w"))
    drive.complete("t/u")
    drive.finish("t/e", graph=graph("x pure"))
    drive.finish("t/e/x")
    drive.complete("t/w")
    drive = drive.reload()
    drive.begin()
    said = drive.finish("t/e", graph=graph("x pure; o pure,saved,aside", sink="x"))
    assert "refuse t/e InvalidGraph" in said
