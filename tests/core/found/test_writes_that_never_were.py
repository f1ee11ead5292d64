"""The sink of a graph that ended declared that it writes variables. It never ran, but what was given in its stead
counted as written. An outcome that a handler gave is no write.

Played as the simulation found it, and made small.
"""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_seed_810010489():
    """Wrote(node='f/e', attempt=…), but it may still be dropped"""
    play_script(
        graph(
            "a kept; f kept a; g kept a f; h kept g",
            returning={"f": [graph("b kept; e writer b", returning={"b": [graph("b kept; e kept b")]})]},
        ),
        """
        finish a
        finish f
        finish f/b
        save f.0
        expire f/b/b at 1
        save f/e.0
        """,
    )


def test_seed_810190482():
    """Wrote(node='c/a', attempt=…), but it may still be dropped"""
    play_script(
        graph("a kept; c kept a; e kept a; f kept c e", returning={"c": [graph("a writer")]}),
        """
        finish a holding new
        finish c
        expire c/a at 1
        save a.1 fails for good
        """,
    )


def test_seed_810461236():
    """Wrote(node='d/c', attempt=…), but it may still be dropped"""
    play_script(
        graph("b kept; c kept,parts=2 b; d kept b; e kept c d", returning={"d": [graph("c writer")]}),
        """
        finish b
        finish d
        expire d/c at 1
        save d.0
        save d/c.0
        """,
    )


def test_seed_870069609():
    """Wrote(node='b/b', attempt=…), but it may still be dropped"""
    play_script(
        graph("a kept; b kept a; d kept a b; e kept d", returning={"b": [graph("a kept; b writer a")]}),
        """
        finish a
        finish b
        save b.0
        expire b/a at 1
        save b/b.0
        """,
    )


def test_seed_870331332():
    """Wrote(node='f', attempt=…), but it may still be dropped"""
    play_script(
        graph("a kept,parts=2; c kept,transaction; f writer c a.0", returning={"c": [graph("a undoable; b kept a")]}),
        """
        finish c
        save c.0
        finish c/a
        answer a for 0
        expire c/a at 1
        save f.0
        """,
    )


def test_seed_9100795():
    """Wrote(node='f/a', attempt=…), but it may still be dropped"""
    play_script(
        graph("a kept; f kept a; g kept,parts=2 a; h kept f g", returning={"f": [graph("a writer")]}),
        """
        finish a
        finish f
        save f.0
        expire f/a at 1
        save f/a.0
        """,
    )
