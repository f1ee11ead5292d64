"""Corners of resuming (design 2.11, 2.14): of what is saved, what can be dropped so that it is done again."""

import pytest

from onceflow.core.rules import loading
from tests.core.building import begun, graph

FORK = graph("x kept; c kept,aside x; s kept", sink="s")


def droppable(drive, *nodes):
    """Which of these can be dropped after the next engine has loaded the run."""
    again = drive.reload()
    assert again.begin() == [], "the run is over"
    return [row.id for row in loading.droppable(again.run, nodes)]


@pytest.mark.parametrize(
    ("text", "completed", "asked", "found"),
    [
        ("a kept; f kept a; z kept f", "a", "a", "a"),
        ("a kept; b kept a; f kept b; z kept f", "a b", "a", ""),
        ("a kept; b kept a; f kept b; z kept f", "a b", "a b", "a b"),
        ("a kept; p pure a; b kept p; f kept b; z kept f", "a p b", "a", ""),
        ("a kept; f default a; z kept f", "a", "a", ""),
        ("u undoable; f kept u; z kept f", "u", "u", ""),
        ("a pure; b kept a; f kept b; z kept f", "a b", "b", "b"),
        ("a loose; b kept a; f kept b; z kept f", "a b", "b", ""),
        ("a loose; p pure a; b kept p; f kept b; z kept f", "a p b", "b", ""),
    ],
    ids=[
        "nothing has come of it",
        "something is made of it",
        "which is dropped with it",
        "however far below",
        "something irrevocable has begun",
        "its effect would have to be undone",
        "what it reads is made again",
        "what it read cannot be made again",
        "however far above",
    ],
)
def test_what_is_saved_is_dropped_if_nobody_notices(text, completed, asked, found):
    drive = begun(text, *completed.split())
    drive.raises("f")
    assert droppable(drive, *asked.split()) == found.split()


def test_a_task_that_returned_a_graph_is_not_done_again():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("f kept; g kept f"))
    drive.raises("e/f")
    assert droppable(drive, "e") == []


def test_nothing_is_done_again_above_a_graph_that_is_known():
    drive = begun("a kept; e kept a; z kept e", "a")
    drive.complete("e", graph=graph("f kept; g kept f"))
    drive.raises("e/f")
    assert droppable(drive, "a", "e") == []


def test_the_result_of_the_run_is_not_made_again():
    drive = begun("e kept")
    drive.complete("e", graph=FORK)
    drive.complete("e/s")
    drive.raises("e/x")
    assert droppable(drive, "e/s") == []


@pytest.mark.parametrize("unfinished", [True, False])
def test_the_result_of_a_graph_in_which_something_stood_aside_is_not_made_again(unfinished):
    """Others may have joined that, and have seen that the graph had its result."""
    drive = begun("e kept; f kept; z kept e f")
    drive.complete("e", graph=FORK)
    drive.complete(*(["e/s"] if unfinished else ["e/x", "e/c", "e/s"]))
    drive.raises("e/x" if unfinished else "f")
    drive.end(*drive.stopped)
    assert droppable(drive, "e/s") == []


def test_the_result_of_a_run_that_was_cancelled_too_late_is_not_made_again():
    """Somebody may have seen it: it was saved."""
    drive = begun("a kept; z kept a", "a")
    drive.finish("z")
    drive.cancel()
    assert drive.save("z")[-1] == "finish cancelled"
    assert droppable(drive, "z") == []


# -- graphs that have ended ------------------------------------------------------------------------------------------


def ended(nested, *completed, text="e kept; f kept e; z kept f"):
    """`e` has returned this graph, in which something failed and was answered for. Then `f` has failed."""
    drive = begun(text)
    drive.complete("e", graph=nested)
    drive.complete(*completed)
    drive.ends("e/b", 1, failed=-1)
    drive.end(*drive.stopped)
    drive.save(f"e/{nested.nodes[nested.sink].id}")
    return drive


def test_what_a_graph_ended_with_is_given_again_although_it_has_read_nothing():
    """Its parent `e/b` is neither saved nor repeatable; but it has not been done."""
    drive = ended(graph("a kept; b kept a; c kept b"), "e/a")
    drive.raises("f")
    assert droppable(drive, "e/c") == ["e/c"]


def test_what_was_done_in_such_a_graph_is_done_again_with_what_it_ended_with():
    drive = ended(graph("a kept; b kept a; c kept b"), "e/a")
    drive.raises("f")
    assert droppable(drive, "e/a") == []
    assert droppable(drive, "e/a", "e/c") == ["e/a", "e/c"]


def test_nothing_is_done_again_in_a_graph_that_has_ended_in_which_something_stood_aside():
    """Nothing but what stood aside, and never was done, has read `e/x`."""
    drive = ended(graph("x kept; c kept,aside x; b kept; s kept b", sink="s"), "e/x")
    drive.raises("f")
    assert droppable(drive, "e/x") == []
    assert droppable(drive, "e/s") == []
    assert droppable(drive, "e/x", "e/s") == []


def test_but_in_others_it_is():
    """What stands aside is in another graph."""
    text = "d kept; e kept; y kept; f kept d e y; z kept f"
    drive = ended(graph("a kept; b kept a; c kept b"), "e/a", text=text)
    drive.complete("d", graph=FORK)
    drive.complete("d/s", "d/x", "d/c", "y")
    drive.raises("f")
    assert droppable(drive, "e/c") == ["e/c"]
    assert droppable(drive, "y") == ["y"]
