"""A task that writes variables was saved in part, the engine died, and what was left of its output was saved by
the next one: its writes counted, and had gone with the first engine. Now what is saved of it counts as a whole or not
at all.

Played as the simulation found it, and made small.
"""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_seed_810059362():
    """Wrote(node='b/b', attempt=…) of what it has not written"""
    play_script(
        graph("b kept; c kept b", returning={"b": [graph("a kept; b writer,deterministic,parts=2 a; d kept b.0")]}),
        """
        finish b holding new new
        save b.0
        save b.2
        save b.1
        finish b/a holding actor b.1 b.2
        save b/a.0
        save b/a.2
        save b/a.3
        save b/a.1
        finish b/b holding actor b/a.2@01 b/a.3@1 b.1@1
        save b/b.5
        lose b/b.0 b/b.1 b/b.2
        finish b/b
        save b/b.1
        save b/b.0
        save b/b.2
        commit
        crash
        """,
    )


def test_seed_810063396():
    """Wrote(node='f/a', attempt=…) of what it has not written"""
    play_script(
        graph("f kept; h kept f", returning={"f": [graph("a writer,deterministic; d kept a")]}),
        """
        finish f
        save f.0
        finish f/a holding actor actor f.0
        save f/a.0
        lose f/a.1
        finish f/a
        save f/a.2#2
        save f/a.1
        commit
        crash keeping
        """,
    )


def test_seed_810250165():
    """Wrote(node='f', attempt=…) of what it has not written"""
    play_script(
        graph("a pure,saved; f writer,deterministic,parts=2 a; h kept f"),
        """
        finish a
        finish f holding new@1 new@1 a.0
        save f.1
        save f.2
        save f.0
        commit
        crash
        finish a
        finish f
        save f.3
        commit
        crash
        """,
    )


def test_seed_810317225():
    """Wrote(node='c', attempt=…) of what it has not written"""
    play_script(
        graph("a pure,saved; b pure,saved,parts=2 a; c writer,deterministic b"),
        """
        finish a
        finish b holding a.0@01
        finish c holding b.0 b.2 b.1
        save c.3
        lose c.0
        finish c
        save c.2#2
        save c.0
        commit
        crash
        """,
    )


def test_seed_810334460():
    """Wrote(node='e', attempt=…) of what it has not written"""
    play_script(
        graph("a pure,saved,parts=2; e writer,deterministic,parts=2 a; h kept e.0"),
        """
        finish a
        finish e holding new@1 a.0@1
        save e.2
        lose e.0
        save e.1
        finish e
        save e.0
        save e.1
        commit
        crash
        """,
    )


def test_seed_810342036():
    """Wrote(node='b/c', attempt=…) of what it has not written"""
    play_script(
        graph("b kept; c kept b", returning={"b": [graph("b pure,saved; c writer,deterministic b")]}),
        """
        finish b holding new
        save b.0
        save b.1
        finish b/b holding actor actor b.1
        finish b/c holding actor actor b/b.3
        save b/c.0
        save b/c.2
        commit
        crash
        finish b/b
        finish b/c
        save b/b.0
        save b/c.1
        commit
        crash
        """,
    )


def test_seed_870053570():
    """Wrote(node='b/d', attempt=…) of what it has not written"""
    play_script(
        graph("b kept; c kept b", returning={"b": [graph("c kept; d writer,deterministic c; e kept d")]}),
        """
        finish b
        save b.0
        finish b/c holding actor b.0
        save b/c.0
        save b/c.2
        save b/c.1
        finish b/d holding new b/c.2
        save b/d.1
        lose b/d.0 saving b/d.0
        finish b/d
        save b/d.0#2
        commit
        crash
        """,
    )


def test_a_writer_that_was_dropped_because_it_was_torn_is_not_dropped_again_with_the_recovery_that_it_was_in():
    """Dropped(nodes=('f',)), but what ['f'] wrote is committed. It was a member of R when a crash tore its save; a
    second recovery, begun before the first had ended, made it a member once more when the run was loaded."""
    play_script(
        graph("b kept; c kept,parts=2 b; f writer; g undoable; h kept f g c.0"),
        """
        finish b holding new
        finish f holding new
        finish c holding new@01 new b.1@1
        finish g
        save f.1
        save c.4
        lose f.0 g.0
        commit
        crash keeping
        undone g!undo
        finish f
        save f.0
        commit
        crash
        """,
    )
