"""Each by itself: what ends, joins, stands aside, and fails to be saved.

Played as the simulation found it, and made small.
"""

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_seed_810453235():
    """nothing is left to do, but the run is running"""
    play_script(
        graph(
            "a kept; d kept a; e kept; h kept d e",
            returning={
                "a": [graph("b kept; fork0 kept,aside", sink="b")],
                "d": [
                    graph(
                        "a kept; b pure a; c kept b",
                        returning={
                            "a": [graph("a undoable,unsaved,parts=2; c kept a.0")],
                            "b": [graph("b kept"), graph("b pure")],
                        },
                    )
                ],
                "e": [graph("b kept; fork0 kept,aside", sink="b")],
            },
        ),
        """
        finish a
        save a.0
        finish a/fork0
        save a/fork0.0
        finish a/b
        save a/b.0
        finish d
        save d.0
        finish d/a
        save d/a.0
        finish e
        save e.0
        finish e/fork0 joining a/fork0
        save e/fork0.0
        finish d/a/a
        finish e/b joining e/fork0
        save e/b.0
        finish d/a/c
        save d/a/c.0
        finish d/b
        undone d/a/a!undo
        carry out finish
        resume again e/b
        finish d/a/a
        finish d/a/c
        finish d/b as 1
        """,
        on_failure="undo",
    )


def test_seed_870373697():
    """nothing is left to do, but the run is running"""
    play_script(
        graph(
            "a kept; e kept a",
            returning={
                "a": [graph("a undoable,unsaved,deterministic; b kept a; c kept b; fork0 kept,aside a", sink="c")]
            },
        ),
        """
        finish a
        save a.0
        finish a/a
        finish a/b
        save a/b.0
        lose a/a.0 running a/fork0
        undone a/a!undo
        finish a/a
        finish a/fork0
        answer a/b for 0
        save e.0
        """,
    )


def test_seed_810472154():
    """Finish(status='failed', failed=('f/fork1',), kept=('f/c',), uncertain=()), but ['g'] was undone
    although nobody asked for it"""
    play_script(
        graph(
            "f kept,transaction; g undoable f",
            returning={
                "f": [
                    graph(
                        "c undoable; e kept c; fork1 kept,aside",
                        sink="e",
                        returning={"c": [graph("c default; d undoable c")]},
                    )
                ]
            },
        ),
        """
        finish f
        save f.0
        finish f/c
        save f/c.0
        finish f/c/c
        save f/c/c.0
        finish f/c/d
        finish f/e
        save f/e.0
        finish g
        answer f/fork1 for 1
        """,
    )


def test_seed_870024093():
    """run h is to start, but not all its inputs are available"""
    play_script(
        graph("d kept; h kept d", returning={"d": [graph("a kept", returning={"a": [graph("c kept; d kept c")]})]}),
        """
        finish d
        save d.0
        finish d/a holding new
        save d/a.0
        expire d~2/c at 1
        save d/a.0
        commit
        crash
        """,
    )


def test_seed_870231199():
    """Finish(status='failed', failed=('b',), kept=(), uncertain=()), but the failed ['b'] was not undone"""
    play_script(
        graph("b undoable", returning={"b": [graph("b kept; d kept b")]}),
        """
        finish b
        answer b/b for 0
        save b.0#2 fails for good
        """,
    )


def test_seed_870235326():
    """run a/c was computed from run a/a, but present is run a/a"""
    play_script(
        graph("a kept; c kept a; e kept a c; f kept e", returning={"a": [graph("a pure,saved; c pure,saved a")]}),
        """
        finish a
        answer a/a
        finish a/c
        finish c
        save c.0
        commit
        save a.0
        commit 1
        crash
        """,
    )
