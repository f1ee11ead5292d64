"""Something started in a graph that was about to end. Once core was wrong (a graph opened again with all that was
ending in it), three times the judge (it forgot what a handler had given, and that a result was quicker than the end).

Played as the simulation found it, and made small.
"""

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_seed_810030928():
    """run e/a starts in a graph that a handler has answered for"""
    play_script(
        graph(
            "c kept; e pure,saved c; g kept e",
            returning={"c": [graph("a pure,saved; d pure,saved a")], "e": [graph("a kept,parts=2; b kept a.0")]},
        ),
        """
        finish c
        answer c/a
        finish c/d
        finish e
        answer e/a for 1
        lose c/a.0
        """,
    )


def test_seed_810232471():
    """run c/a starts in a graph that a handler has answered for"""
    play_script(
        graph("a pure,saved; c pure,saved a; g kept c", returning={"c": [graph("a kept; fork1 kept,aside", sink="a")]}),
        """
        answer a
        finish c
        expire c/fork1 at 1
        lose a.0
        """,
    )


def test_seed_870125806():
    """run b~2/b starts in a graph that a handler has answered for"""
    play_script(
        graph(
            "b kept; c kept b",
            returning={"b": [graph("c kept; fork0 kept,aside", sink="c", returning={"c": [graph("b default")]})]},
        ),
        """
        finish b
        save b.0
        finish b/c
        save b/c.0
        land b~2/b
        expire b/fork0 at 1
        finish b~2/b!late
        lose b~2/b.0
        """,
    )


def test_seed_870152053():
    """run b/d/fork1 starts in a graph that a handler has answered for"""
    play_script(
        graph(
            "b kept; c kept b",
            returning={
                "b": [graph("d kept; e kept d", returning={"d": [graph("a kept; fork1 kept,aside", sink="a")]})]
            },
        ),
        """
        finish b
        finish b/d
        answer b/d/fork1 for 1 again
        expire b/d/a at 2
        elapse b
        """,
    )
