"""Found by reading: forks, joins, writers, resume, and the check."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_the_check_knows_that_a_crash_took_a_graph_that_was_not_deterministic():
    """`a` is deterministic, but returned `a/x`, which is not, and is not saved: `d` waits for it, too, so what stands
    aside in the graph of `b/b` could be joined only after the result of that graph."""
    play_script(
        graph(
            "a pure; b kept a; d kept after:a b",
            returning={
                "a": [graph("x loose")],
                "b": [graph("b kept; c kept b", returning={"b": [graph("d kept; f0 kept,aside", sink="d")]})],
            },
        ),
        """
        finish a
        finish a/x
        finish b
        save b.0
        commit
        crash
        """,
    )


def test_what_was_abandoned_and_forgotten_is_the_same_nothing_after_a_crash():
    """The judge took it for something else: nothing in the journal leads from `a/a/f1` to `c/b/b`, which has joined it
    when the run had forgotten it."""
    play_script(
        graph(
            "a kept; c kept a",
            returning={
                "a": [
                    graph(
                        "a kept; d kept a",
                        returning={"a": [graph("c kept; d writer c; c1 default c; f1 kept,aside c1", sink="d")]},
                    )
                ],
                "c": [
                    graph(
                        "a kept; b kept; d kept b; c0 kept a; f0 kept,aside c0",
                        sink="d",
                        returning={
                            "a": [graph("b kept; c0 undoable; f0 kept,aside c0", sink="b")],
                            "b": [graph("b kept; d kept b")],
                        },
                    )
                ],
            },
        ),
        """
        finish a
        save a.0
        finish a/a
        save a/a.0
        finish a/a/c
        expire a/a/c1 at 1
        save a/d.0
        finish c
        save c.0
        finish c/a
        save c/a.0
        finish c/b
        save c/b.0
        finish c/a/c0
        save c/a/c0.0
        finish c/a/f0 joining a/a/f1
        save c/a/f0.0
        finish c/b/b joining a/a/f1
        save c/b/b.0
        finish c/a/b
        save c/a/b.0
        finish c/b/d
        save c/b/d.0
        fail c/c0 for good
        end c/d!late
        undone c/a/c0!undo
        carry out finish
        crash
        """,
        on_failure="undo",
    )


def test_who_joins_what_was_ended_and_is_forgotten_sees_what_was_written_there():
    """`a/f` was ended with its graph, and forgotten when `b/j1` had joined it. `b/r` must not start before what `a/w`
    wrote is durable."""
    play_script(
        graph(
            "a kept; b kept; z kept a b",
            returning={
                "a": [graph("w writer; x kept; f kept,aside x; s kept w", sink="s")],
                "b": [graph("j1 kept; q kept j1; j2 kept; r kept j2; e kept q r")],
            },
        ),
        """
        finish a
        save a.0
        finish b
        save b.0
        finish a/w
        save a/w.0
        expire a/x at 1
        save a/s.0
        finish b/j1 joining a/f
        save b/j1.0
        finish b/j2 joining a/f
        save b/j2.0
        """,
    )


def test_what_stood_aside_and_was_saved_in_part_when_its_graph_ended_is_nothing_after_a_crash():
    """d was computed from e/fork0#0, but present is e/fork0 (the judge took what was saved of it for its output)"""
    child = graph("b kept; fork0 kept,aside", sink="b")
    play_script(
        graph(
            "d kept; e kept; h kept d e",
            returning={
                "e": [graph("c kept; child0 kept; fork0 kept,aside child0", sink="c", returning={"child0": [child]})]
            },
        ),
        """
        finish e
        save e.0
        finish e/child0
        save e/child0.0
        finish e/child0/b
        finish e/child0/fork0
        save e/child0/fork0.0
        finish e/fork0 holding new joining e/child0/fork0
        expire e/child0/fork0 at 1
        save e/fork0.0
        save e/c.0
        finish d joining e/fork0
        save d.0
        commit
        crash
        """,
    )


def test_what_begun_and_irrevocable_ended_its_graph_stands_on_what_was_joined_there():
    """the recovery of [...]: b~3/child1/child0/d has begun and would run again after (..., 'b~3/child1/child1/fork1').
    It had begun before it came to stand on those that were joined in its graph, so they were not covered."""
    left = graph(
        "d default; child0 kept; fork0 kept,aside child0",
        sink="d",
        returning={"child0": [graph("c kept; fork0 kept,aside", sink="c")]},
    )
    right = graph("c kept; child1 undoable; fork1 kept,aside child1", sink="c")
    both = graph(
        "a kept; child0 kept; fork0 kept,aside child0; child1 kept; fork1 kept,aside child1",
        sink="a",
        returning={"child0": [left], "child1": [right]},
    )
    inner = graph("c kept; child1 kept; fork1 kept,aside child1", sink="c", returning={"child1": [both]})
    around = graph("a kept,guarding", returning={"a": [graph("c kept,guarding", returning={"c": [inner]})]})
    play_script(
        graph("b kept,guarding", returning={"b": [around]}),
        """
        finish b
        save b.0
        finish b/a
        save b/a.0
        finish b~2/c
        save b~2/c.0
        finish b~3/child1
        save b~3/child1.0
        finish b~3/child1/child0
        save b~3/child1/child0.0
        finish b~3/child1/child1
        save b~3/child1/child1.0
        finish b~3/child1/child0/child0
        save b~3/child1/child0/child0.0
        finish b~3/child1/child1/child1
        finish b~3/child1/child1/fork1
        save b~3/child1/child1/fork1.0
        finish b~3/child1/child0/child0/fork0 joining b~3/child1/child1/fork1
        answer b~3/child1/child0/d for 5
        save b~3/child1/child0/d.0
        fail b~3/child1/child1/c for good
        """,
        on_failure="undo",
    )
