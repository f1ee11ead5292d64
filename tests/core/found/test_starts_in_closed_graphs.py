"""Something started in a graph that was about to end. Once core was wrong (a graph opened again with all that was
ending in it), three times the judge (it forgot what a handler had given, and that a result was quicker than the end).

Played as the simulation found it, and made small.
"""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


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


def test_seed_261118002328030223():
    """run a/a/a starts in a graph that a handler has answered for"""
    play_script(
        graph(
            "a kept; e kept a",
            returning={"a": [graph("a kept; c kept; e kept a c", returning={"a": [graph("a kept; e kept a")]})]},
        ),
        """
        finish a
        finish a/a
        answer a/a/a for 2
        answer a/c for 1 again
        """,
    )


def test_seed_261118002328039330():
    """run b/c/a starts in a graph that a handler has answered for"""
    forking = graph("a kept; child0 kept; fork0 kept,aside child0", sink="a")
    play_script(
        graph("b kept; c kept b", returning={"b": [graph("b kept; c kept; d kept b c", returning={"c": [forking]})]}),
        """
        finish b
        finish b/c
        save b.0
        save b/c.0
        answer b/c/child0 for 2
        answer b/b for 1 again
        """,
    )


def test_seed_261118002328075608():
    """run c/d/a starts in a graph that a handler has answered for"""
    play_script(
        graph(
            "c kept; h kept c",
            returning={"c": [graph("b kept; d kept; e kept b d", returning={"d": [graph("a kept; b kept a")]})]},
        ),
        """
        finish c
        finish c/d
        expire c/d/a at 2
        answer c/b for 1 again
        """,
    )
