"""Found by comparing runs with and without a crash."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_a_graph_waits_for_its_delay_after_a_crash_although_one_around_it_was_tried_again_before():
    play_script(
        graph(
            "t kept,guarding; k kept t",
            returning={"t": [graph("s kept,guarding; x kept s", returning={"s": [graph("a kept; b kept a")]})]},
        ),
        """
        finish t
        save t.0
        finish t/s
        save t/s.0
        answer t/s/a for 1 again
        elapse t
        answer t/s/a for 2 again
        commit
        crash
        elapse t
        """,
    )


def test_a_graph_waits_for_its_delay_although_one_around_it_had_its_result_before_its_time_was_over():
    play_script(
        graph(
            "t kept; k kept t",
            returning={
                "t": [
                    graph(
                        "s kept,guarding; fork0 kept,aside s; r default",
                        sink="r",
                        returning={"s": [graph("a kept; b kept a")]},
                    )
                ]
            },
        ),
        """
        finish t
        save t.0
        finish t/s
        save t/s.0
        land t/r
        answer t/s/a for 2 again
        expire t/r at 1
        finish t/r!late
        """,
    )


def test_failures_in_a_graph_that_was_tried_again_before_count_after_a_crash():
    status = play_script(
        graph("t kept,guarding; k kept t", returning={"t": [graph("a kept,retries=1; b kept a")]}),
        """
        finish t
        save t.0
        answer t/a for 1 again
        elapse t
        fail t/a
        commit
        crash
        elapse t
        elapse t/a
        fail t/a
        """,
    )
    assert status == "failed"


def test_a_task_waits_for_its_delay_although_the_graph_around_it_had_its_result_before_its_time_was_over():
    play_script(
        graph(
            "t kept; k kept t",
            returning={"t": [graph("c kept,retries=1; fork0 kept,aside c; r default", sink="r")]},
        ),
        """
        finish t
        save t.0
        land t/r
        fail t/c
        expire t/r at 1
        finish t/r!late
        """,
    )


def test_failures_count_although_the_graph_around_had_its_result_before_its_time_was_over():
    status = play_script(
        graph(
            "t kept; k kept t",
            returning={"t": [graph("c kept,retries=1; fork0 kept,aside c; r default", sink="r")]},
        ),
        """
        finish t
        save t.0
        land t/r
        fail t/c
        expire t/r at 1
        finish t/r!late
        elapse t/c
        fail t/c
        """,
    )
    assert status == "failed"


def test_a_crash_forgets_the_delay_of_a_graph_that_was_not_saved_when_it_was_to_be_tried_again():
    play_script(
        graph("t kept,guarding; k kept t", returning={"t": [graph("a kept; b kept a")]}),
        """
        finish t
        answer t/a for 1 again
        save t.0
        commit
        crash
        finish t/a
        """,
    )


def test_a_graph_that_got_its_result_before_it_is_tried_again_waits_for_its_delay_after_a_crash():
    """run c~2/c starts in a graph that waits to be tried again"""
    last = graph("c default,parts=2; fork1 kept,aside", sink="c")
    play_script(
        graph(
            "c kept,parts=2; d kept c; i kept d", returning={"c": [graph("b kept,parts=2", returning={"b": [last]})]}
        ),
        """
        finish c
        save c.0
        finish c/b
        save c/b.0
        answer c~2/fork1 for 1 again
        finish c~2/c
        finish d holding actor
        save d.1
        commit
        crash
        """,
    )
