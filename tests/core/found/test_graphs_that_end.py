"""Graphs that end, or have ended, and what they meet: crashes, losses, joins, saves in part, transactions."""

import pytest

from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_seed_261118002328058198():
    """run g starts, but e is not done"""
    undoing = "\n".join(["undo b!undo\nelapse b"] * 4)
    play_script(
        graph("b undoable; c kept; e loose,parts=2; g kept b c after:e"),
        f"""
        answer c for 0
        end e!late
        finish b
        save b.0 good
        save g.0
        {undoing}
        undo b!undo
        carry out park
        crash
        """,
        on_failure="undo",
    )


def test_seed_261118002328060622():
    """run g does not see what f/child0 wrote"""
    nested = graph("b kept; c kept b; child0 default,writing; fork0 kept,aside child0", sink="c")
    play_script(
        graph("e kept; f kept; g kept e; h kept f g", returning={"f": [nested]}),
        """
        finish f
        save f.0
        answer f/b for 1
        finish f/child0
        save f/child0.0
        save f/c.0
        finish e joining f/fork0
        save e.0
        """,
    )


def test_seed_261118004759046201():
    """run f is to start, but not all its inputs are available"""
    play_script(
        graph("a pure,saved; f kept a", returning={"a": [graph("a kept")]}),
        """
        finish a holding new
        save a.0
        expire a/a at 1
        commit
        crash
        answer a
        """,
    )


@pytest.mark.parametrize("kind", ["kept", "loose", "pure", "pure,saved"])
@pytest.mark.parametrize("more", ["", "crash", "commit\ncrash"])
def test_a_graph_that_had_ended_in_a_transaction_starts_afresh_with_it(kind, more):
    """From a random program: x was tried again, and read what was abandoned in a graph that had ended before."""
    inner = graph(f"u undoable; w kept; y {kind}; s kept u w y")
    transaction = graph("x kept; f kept x", returning={"x": [inner]})
    script = """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/u
        save t/x/u.0
        finish t/x/y
        answer t/x/w for 2
        save t/x/s.0
        answer t/f for 1 failing 1 again
        undone t/x/u
        """
    play_script(graph("t kept,transaction; z kept t", returning={"t": [transaction]}), f"{script}\n{more}")


def test_so_does_one_in_it_that_had_ended_before_and_one_that_has_not_stays_as_it_is():
    inner = graph("u undoable; w kept; s kept u w")
    other = graph("a kept; b kept a")
    middle = graph("i kept; j kept; l kept; m kept i j l", returning={"i": [inner], "j": [other]})
    transaction = graph("x kept; f kept x", returning={"x": [middle]})
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/x
        save t/x.0
        finish t/x/i
        save t/x/i.0
        finish t/x/j
        save t/x/j.0
        finish t/x/i/u
        save t/x/i/u.0
        answer t/x/i/w for 3
        save t/x/i/s.0
        answer t/x/j/a for 3
        save t/x/j/b.0
        answer t/x/l for 2
        save t/x/m.0
        answer t/f for 1 failing 1 again
        undone t/x/i/u
        """,
    )


def test_seed_261118010027008618():
    """nothing is left to do, but the run is running"""
    undoing = "\n".join(["undo a/child0!undo\nelapse a/child0"] * 4)
    last = graph("a default,parts=2; c kept a.0; fork0 kept,aside", sink="c")
    forking = graph("a kept; child0 undoable; fork0 kept,aside child0", sink="a", returning={"a": [last]})
    play_script(
        graph("a kept; d kept a", returning={"a": [forking]}),
        f"""
        finish a
        save a.0
        finish a/child0
        finish a/fork0
        finish a/a
        save a/a.0
        answer a~2/fork0 for 0
        finish a~2/a
        save a~2/a.0 good
        save d.0
        {undoing}
        undo a/child0!undo
        carry out park
        crash
        """,
        on_failure="undo",
    )


def test_seed_261118010027009835():
    """nothing is left to do, but the run is running"""
    forking = graph(
        "c default; child0 default; fork0 kept,aside child0; child1 kept; fork1 kept,aside child1", sink="c"
    )
    play_script(
        graph("f kept,guarding", returning={"f": [graph("b kept; e kept b", returning={"b": [forking]})]}),
        """
        finish f
        save f.0
        finish f/b
        save f/b.0
        answer f/b/child1 for 2
        finish f/b/c
        save f/b/c.0
        finish f/e
        save f/e.0
        """,
    )


def test_seed_261118010027016432():
    """a save was asked for of an attempt without output: the judge held on to what nobody had read any more"""
    play_script(
        graph(
            "e kept; f pure,saved; g kept e f",
            returning={"e": [graph("c kept", returning={"c": [graph("c kept")]})], "f": [graph("a pure,saved")]},
        ),
        """
        finish f
        finish f/a
        finish e
        finish e/c
        finish e~2/c
        finish g holding e~2/c.0
        save g.0
        commit
        crash
        finish f
        answer f/a
        save f.0
        """,
    )


# -- what a graph was about to end with, and was saved in part ---------------------------------------------------------


def test_seed_261118012845018046():
    """undo a/a outside a recovery, but a/c read it"""
    play_script(
        graph("a kept,parts=2; g kept a.0", returning={"a": [graph("a undoable; c kept,parts=2 a")]}),
        """
        finish a
        save a.0
        expire a/c at 1
        end a/a!late
        undone a/a!undo
        save a/c.0
        commit
        crash
        commit
        crash
        """,
    )


def test_seed_261118012845034333():
    """undo a/b/d outside a recovery, but a/c read it"""
    nested = graph("b kept; c kept,parts=2 b", returning={"b": [graph("a kept; d undoable; e kept a d")]})
    play_script(
        graph("a kept,parts=2; f kept a.0", returning={"a": [nested]}),
        """
        finish a
        save a.0
        finish a/b
        expire a/b/a at 1
        save a/b.0
        save a/c.1
        commit
        crash
        expire a/b/d at 2
        """,
    )


def test_seed_261118012845064494():
    """a save was asked for of an attempt without output"""
    play_script(
        graph("a kept,parts=2; c kept a.0", returning={"a": [graph("a pure,saved,parts=2")]}),
        """
        finish a
        save a.0
        expire a/a at 1
        save a/a.0
        commit
        crash
        answer a/a
        """,
    )


def test_seed_261118012845082402():
    """if the engine crashed now: d has begun and would run again after c/b"""
    forking = graph("b pure,saved,parts=2; fork1 kept,aside", sink="b")
    play_script(
        graph("c kept,parts=2; d default c; g kept d", returning={"c": [forking]}),
        """
        finish c
        save c.0
        answer c/fork1 for 1
        save c/b.1
        commit
        crash
        """,
    )


def test_it_is_no_part_of_what_comes_instead():
    play_script(
        graph("a kept,parts=2; c kept a", returning={"a": [graph("a kept,parts=2")]}),
        """
        finish a
        save a.0
        expire a/a at 1
        save a/a.0
        commit
        crash
        finish a/a
        save a/a.1
        commit
        crash
        """,
    )


def test_what_was_written_in_a_graph_that_ended_is_seen_behind_a_join_of_a_join():
    nested = graph("b kept; c kept b; child0 default,writing; fork0 kept,aside child0", sink="c")
    joining = graph("e kept,aside; s kept", sink="s")
    play_script(
        graph("p kept; q kept; f kept; g kept q; h kept f g p", returning={"f": [nested], "p": [joining]}),
        """
        finish p
        save p.0
        finish f
        save f.0
        answer f/b for 1
        finish f/child0
        save f/child0.0
        save f/c.0
        finish p/e joining f/fork0
        save p/e.0
        finish q joining p/e
        save q.0
        """,
    )


def test_seed_261118014640019837():
    """the recovery takes a/a, which nothing requires"""
    play_script(
        graph("a kept; b kept a", returning={"a": [graph("a loose,parts=2; b kept a.0")]}),
        """
        finish a holding new
        answer a/a
        save a.0
        lose a/a.0
        finish a/a
        save a.1
        save a/a.0
        commit 5
        crash
        """,
    )


def test_what_was_to_be_saved_and_was_dropped_meanwhile_is_not_saved_with_its_graph():
    drive = Drive(graph("a kept; b kept a"))
    drive.begin()
    drive.finish("a", graph=graph("a loose; b kept a"), holding="new")
    drive.handle("a/a")
    drive.save("a")
    drive.lose("a/a")
    drive.finish("a/a")
    assert "save a/a" not in drive.save("a.1")


def test_seed_261118022335004910():
    """validating: b~2/e waits for what was joined in a graph that has ended, and is not saved any more"""
    last = graph("c kept; e kept c; child0 kept; fork0 kept,aside child0", sink="e")
    forking = graph("a kept; fork0 kept,aside", sink="a", returning={"a": [last]})
    play_script(
        graph("b kept; g kept b", returning={"b": [forking]}),
        """
        finish b
        save b.0
        finish b/fork0
        save b/fork0.0
        finish b/a
        save b/a.0
        finish b~2/c joining b/fork0
        expire b~2/child0 at 1
        save b~2/e.0
        """,
    )


def test_seed_261119050522178076():
    """the recovery takes ('f', 'f/b'), which nothing requires (but the outcome of a graph does, until it is saved)"""
    play_script(
        graph(
            "f undoable,unsaved,deterministic; g kept f",
            returning={"f": [graph("b pure,guarding", returning={"b": [graph("a loose; b pure a")]})]},
        ),
        """
        finish f
        finish f/b
        answer f~2/a for 2
        lose f.0
        """,
    )
