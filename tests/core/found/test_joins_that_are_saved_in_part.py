"""Joins of which a part is saved when the graph around them ends, and what a crash makes of them."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_what_is_saved_in_part_of_a_join_is_dropped_by_a_crash_with_what_it_has_joined():
    """seed 261119222733096255: a join in a graph that had ended was forgotten, and a crash found what was saved of it,
    while a saga was taking back both what it had joined and what the graph had ended with."""
    play_script(
        graph(
            "f kept; g kept f; h kept g",
            returning={
                "f": [
                    graph(
                        "a kept; c kept a",
                        returning={
                            "a": [
                                graph(
                                    "b kept; child0 kept; fork0 kept,aside child0",
                                    sink="b",
                                    returning={"child0": [graph("e undoable")]},
                                )
                            ]
                        },
                    )
                ],
                "g": [
                    graph(
                        "a kept; b undoable a; fork0 kept,aside; child1 undoable a; fork1 kept,aside child1",
                        sink="b",
                        returning={
                            "a": [
                                graph(
                                    "a kept; c kept a; child1 kept a; fork1 kept,aside child1",
                                    sink="c",
                                    returning={"child1": [graph("a kept; b kept a")]},
                                )
                            ]
                        },
                    )
                ],
            },
        ),
        """
        finish f
        save f.0
        finish f/a
        save f/a.0
        finish f/a/child0
        save f/a/child0.0
        finish f/a/child0/e
        finish f/a/fork0
        save f/a/fork0.0
        save f/a/child0/e.0
        finish f/a/b
        finish f/c
        save f/a/b.0
        save f/c.0
        finish g holding new
        save g.0
        save g.1
        finish g/a holding g.1
        save g/a.0
        save g/a.1
        finish g/a/a holding new g/a.1
        finish g/fork0
        finish g/a/child1 holding new new g/a/a.1 g/a/a.2
        save g/a/child1.0
        save g/a/child1.1
        save g/a/child1.2
        save g/a/child1.3
        save g/a/child1.4
        finish g/a/child1/a holding new new g/a/child1.1 g/a/child1.3 g/a/child1.4 joining f/a/fork0
        finish g/a/c
        expire g/fork0 at 1
        save g/a/child1/a.5
        save g/b.0
        fail h
        carry out undo
        crash keeping
        """,
        on_failure="undo",
    )
