"""Found by reading: actors, refs and variables."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_who_takes_an_actor_waits_for_those_who_read_it_for_an_undo():
    """run t takes the actor in m.1, which private r still reads: r is made again for the undo of u, and t changed the
    actor under it."""
    told = graph("m pure; r pure m; u undoable,retries=1 r; w kept; t pure takes:m w; z kept u t")
    play_script(told, "finish m holding actor large\nfinish r large\nland u\nlose r.0\nfail u\ncommit\nfinish w")


@pytest.mark.parametrize("saved", ["save m.0\nsave m.1", ""])
def test_who_takes_an_actor_waits_for_undos_that_read_it(saved):
    """run t takes the actor in m.1, which undo u still reads"""
    told = graph("m pure,saved; u undoable,retries=1 m; w kept; t pure takes:m w; z kept u t")
    play_script(told, f"finish m holding actor large\n{saved}\nland u\nfail u\ncarry out undo u\nfinish w")


def test_who_takes_an_actor_for_an_undo_waits_for_undos_that_read_it():
    """private t takes the actor in m.1, which undo u still reads"""
    told = graph("m pure; u undoable m; t pure takes:m; u2 undoable t; x kept m t; z kept u u2 x")
    play_script(
        told,
        "finish m holding actor large\nfinish u\nsave u.0\nfinish t large\nfinish u2\nsave u2.0\nfinish m large\n"
        "lose t.0\ncancel with undo",
    )


@pytest.mark.parametrize("validate", [True, False])
def test_an_actor_that_is_only_saved_is_restored_by_each_who_needs_it(validate):
    """private c#8589934599 takes the actor in b.1, which undo e#8589934598 still reads (an error of the judge)"""
    inner = graph("b pure; c kept b", returning={"b": [graph("b kept")]})
    play_script(
        graph(
            "b kept; c pure,parts=2 takes:b; d undoable takes:c.1; e undoable b; f kept d e", returning={"e": [inner]}
        ),
        """
        finish b holding actor
        save b.1
        save b.0
        commit
        crash
        finish c holding actor@1 large
        """,
        on_failure="undo",
        validate=validate,
    )
