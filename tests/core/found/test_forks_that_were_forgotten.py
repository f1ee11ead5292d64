"""A graph in which something stands aside was not saved, but what was built on its result was: after a crash, nobody
knew of what stood aside. Such a graph begins when the journal has it.

Played as the simulation found it, and made small.
"""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_seed_810404585():
    """the run has succeeded, but ('d/b/fork1',) is not done"""
    play_script(
        graph(
            "d kept",
            returning={
                "d": [graph("b pure,saved; c kept b", returning={"b": [graph("c kept; fork1 kept,aside", sink="c")]})]
            },
        ),
        """
        finish d
        finish d/b
        save d.0
        finish d/b/c
        finish d/c
        save d/c.0
        commit
        crash
        """,
    )


def test_seed_870415518():
    """the run has succeeded, but ('d/a/fork0',) is not done"""
    play_script(
        graph(
            "d kept; e kept d; h kept e",
            returning={
                "d": [graph("a pure,saved; c kept a", returning={"a": [graph("e kept; fork0 kept,aside", sink="e")]})]
            },
        ),
        """
        finish d
        finish d/a
        finish d/a/e
        finish d/c
        finish e
        save e.0
        save d.0
        commit
        crash
        """,
    )


def test_seed_870102805():
    """the result is handed out, but it is not quiet"""
    play_script(
        graph(
            "c kept; g kept c",
            returning={"c": [graph("a kept", returning={"a": [graph("c kept; fork1 kept,aside", sink="c")]})]},
        ),
        """
        finish c
        finish c/a
        finish c~2/c
        finish g
        save g.0
        commit
        crash
        """,
    )


def test_seed_870262837():
    """the result is handed out, but it is not quiet"""
    play_script(
        graph("d kept; h kept d", returning={"d": [graph("a kept; fork1 kept,aside", sink="a")]}),
        """
        finish d
        finish d/a
        finish h
        save h.0
        commit
        crash
        """,
    )
