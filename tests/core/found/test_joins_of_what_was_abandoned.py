"""Found by thinking: graphs that ended within each other, and what stands aside there."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_a_graph_that_ended_in_another_one_that_has_ended_does_not_start_afresh_without_that():
    """What the inner one ended with is taken back by a saga, what the outer one ended with is not."""
    status = play_script(
        graph(
            "t kept; k kept t",
            returning={
                "t": [
                    graph(
                        "e kept; f kept e",
                        returning={
                            "e": [
                                graph(
                                    "d kept; fork0 kept,aside d; w kept; s kept w",
                                    sink="s",
                                    returning={"d": [graph("u undoable; x kept; y kept u x")]},
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
        finish t/e/d
        save t/e/d.0
        finish t/e/d/u
        save t/e/d/u.0
        answer t/e/d/x for 3
        save t/e/d/y.0
        answer t/e/w for 2
        save t/e/s.0
        fail t/f for good
        end t/e/fork0!late
        undone t/e/d/u!undo
        carry out finish
        resume
        """,
        on_failure="undo",
    )
    assert status == "succeeded"


def joined_after_its_graph_ended(then: str) -> str:
    """`e` has ended, so `fork0` was abandoned; `j` was told so, and something irrevocable was built on that."""
    return play_script(
        graph(
            "t kept; k kept t",
            returning={
                "t": [
                    graph(
                        "e kept; j kept; n default j; f kept e n",
                        returning={"e": [graph("u undoable; w kept; fork0 kept,aside w; s kept u", sink="s")]},
                    )
                ]
            },
        ),
        f"""
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        answer t/e/w for 2
        save t/e/s.0
        finish t/j joining t/e/fork0
        save t/j.0
        finish t/n
        save t/n.0
        {then}
        """,
        on_failure="undo",
    )


def test_who_joins_what_was_abandoned_stands_on_what_the_graph_ended_with():
    assert joined_after_its_graph_ended("fail t/f for good") == "failed"  # `u` is kept


def test_who_joined_what_was_abandoned_stands_on_what_the_graph_ended_with_after_a_crash():
    assert joined_after_its_graph_ended("commit\n        crash\n        fail t/f for good") == "failed"


def test_who_joins_what_was_abandoned_stands_on_what_the_graph_ended_with_in_a_run_that_is_undone():
    status = joined_after_its_graph_ended("cancel with undo")
    assert status == "cancelled"
