"""Found by reading: forks, joins, writers, resume, and the check."""

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_a_run_waits_for_what_stood_aside_in_a_transaction_and_was_taken_back_with_it():
    """The run has its result, and `d/t/y` is settled: the run waits for it no longer. Then the transaction is tried
    again, and `d/t/y` with it."""
    play_script(
        graph(
            "d kept",
            returning={
                "d": [
                    graph(
                        "s kept; t kept,transaction; o kept,aside t",
                        sink="s",
                        returning={"t": [graph("u undoable; y kept,aside u; w kept; z kept u w", sink="z")]},
                    )
                ]
            },
        ),
        """
        finish d
        save d.0
        finish d/s
        save d/s.0
        finish d/t
        save d/t.0
        finish d/t/u
        save d/t/u.0
        finish d/t/y
        save d/t/y.0
        answer d/t/w for 1 again
        undone d/t/u!undo
        elapse d/t
        finish d/t/u
        save d/t/u.0
        finish d/t/w
        save d/t/w.0
        finish d/t/z
        save d/t/z.0
        finish d/o
        save d/o.0
        """,
    )


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
