"""Found by thinking: forks, transactions, sagas and ends of graphs that meet."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_a_transaction_that_gets_its_result_before_it_is_taken_back_is_over():
    """Its time was over, but its result comes while something irrevocable in it comes to its end."""
    status = play_script(
        graph(
            "t kept,transaction; j kept; k kept t j",
            returning={"t": [graph("u undoable; s default u")]},
        ),
        """
        finish t
        save t.0
        finish t/u
        save t/u.0
        land t/s
        expire t/s at 1
        finish t/s!late
        save t/s.0
        fail j for good
        """,
    )
    assert status == "failed"


def test_what_is_saved_in_part_of_an_outcome_that_is_forgotten_is_dropped():
    """A graph was about to end, and its outcome was saved in part; the one around it has run out of time, and was
    quicker: what the inner one gives then has nothing to do with that outcome."""
    play_script(
        graph(
            "d kept; e kept d",
            returning={
                "d": [
                    graph(
                        "m default; child0 kept,parts=2; fork0 kept,aside child0",
                        sink="m",
                        returning={"child0": [graph("x kept; y kept,parts=2 x")]},
                    )
                ]
            },
        ),
        """
        finish d
        save d.0
        finish d/child0
        save d/child0.0
        land d/m
        answer d/child0/x for 2
        save d/child0/y.0
        expire d/m at 1
        finish d/m
        finish d/child0/x
        finish d/child0/y
        save d/child0/y.1
        commit
        crash
        """,
    )


def test_what_is_done_in_a_graph_that_has_not_ended_after_all_is_saved_after_all():
    """`t/e/x/y` was not saved with its graph, because the graph around that had ended by then; the transaction around
    it is taken back, so that it has not, and what cannot be taken back waits for it."""
    play_script(
        graph(
            "t kept,transaction; k kept t",
            returning={
                "t": [
                    graph(
                        "e kept; f kept e",
                        returning={
                            "e": [
                                graph(
                                    "u undoable; w kept; x kept; z default x; s kept u z w",
                                    returning={"x": [graph("y kept")]},
                                )
                            ]
                        },
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/x
        finish t/e/x/y
        answer t/e/w for 2
        save t/e/s.0
        save t/e/x.0
        answer t/f for 1 again
        """,
    )


def test_a_run_that_failed_is_cancelled_with_undo_while_a_transaction_is_taken_back():
    status = play_script(
        graph("x undoable; t kept,transaction x; k kept t", returning={"t": [graph("u undoable; s kept u")]}),
        """
        finish x
        save x.0
        finish t
        save t.0
        finish t/u
        save t/u.0
        fail t/s for good
        cancel with undo
        """,
    )
    assert status == "undone"


def test_what_a_crash_took_in_a_graph_that_had_ended_gives_the_same_again_if_it_has_not_ended_after_all():
    """The judge took what was abandoned for something that changes."""
    play_script(
        graph(
            "t kept,transaction; k kept t",
            returning={
                "t": [
                    graph(
                        "e kept; f kept e",
                        returning={"e": [graph("u undoable; p pure; n default p; w kept; s kept u n w")]},
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/p
        land t/e/n
        expire t/e/w at 2
        end t/e/n!late
        save t/e/s.0
        commit
        crash
        answer t/f for 1 again
        """,
    )


def test_nothing_of_a_transaction_is_released_although_the_graph_around_it_has_its_result():
    """It stands aside in that graph, so it may still be taken back, and starts afresh."""
    play_script(
        graph(
            "t kept; k kept t",
            returning={
                "t": [
                    graph(
                        "s kept; child0 kept,transaction; fork0 kept,aside child0",
                        sink="s",
                        returning={"child0": [graph("p pure; u undoable p; z kept u")]},
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/s
        save t/s.0
        finish t/child0
        save t/child0.0
        finish t/child0/p
        finish t/child0/u
        save t/child0/u.0
        answer t/child0/z for 2 again
        """,
    )


def test_what_was_seen_and_waits_to_run_again_is_as_quiet_as_before_when_its_transaction_is_taken_back():
    play_script(
        graph(
            "t kept,transaction; k kept t",
            returning={"t": [graph("p pure; y kept; u undoable; w kept; q kept p y; s kept q u w")]},
        ),
        """
        finish t
        save t.0
        finish t/p
        finish t/u
        save t/u.0
        lose t/p.0
        answer t/w for 1 again
        """,
    )


def test_what_was_handled_in_a_graph_that_has_not_ended_after_all_is_saved_with_the_graphs_around_it():
    play_script(
        graph(
            "t kept,transaction; k kept t",
            returning={
                "t": [
                    graph(
                        "e kept; f kept e",
                        returning={
                            "e": [
                                graph(
                                    "u undoable; w kept; x pure; z default x; s kept u z w",
                                    returning={"x": [graph("y pure")]},
                                )
                            ]
                        },
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/x
        answer t/e/x/y
        answer t/e/w for 2
        save t/e/s.0
        lose t/e/x.0
        answer t/f for 1 again
        """,
    )
