"""Each by itself: what ends, joins, stands aside, and fails to be saved.

Played as the simulation found it, and made small.
"""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


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
    """Finish(status='failed', failed=('f/fork1',), kept=('f/c/d',), uncertain=()), but ['g'] was undone
    although nobody asked for it"""
    status = play_script(
        graph(
            "f kept; g undoable f",
            returning={
                "f": [
                    graph(
                        "c kept,transaction; e kept c; fork1 kept,aside",
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
    assert status == "failed"


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


def test_a_writer_that_was_lost_in_part_holds_nobody_up_twice():
    play_script(
        graph("e writer,parts=2; h kept e.0"),
        """
        finish e holding actor
        save e.0
        save e.1
        lose e.2
        """,
    )


def test_who_runs_again_for_its_graph_has_its_turn():
    play_script(
        graph(
            "c kept; f kept c",
            returning={"c": [graph("b pure,saved,turn=1,limit=1; d kept b", returning={"b": [graph("a kept")]})]},
        ),
        """
        finish c
        finish c/b
        lose c/b.0
        """,
    )


def test_a_recovery_that_named_what_a_crash_took_is_over_when_the_rest_is_dropped():
    play_script(
        graph(
            "b kept; c kept b",
            returning={
                "b": [
                    graph(
                        "a undoable; c kept a; e kept c",
                        returning={"a": [graph("c kept")], "c": [graph("b kept; c kept b")]},
                    )
                ]
            },
        ),
        """
        finish b
        save b.0
        finish b/a
        lose b/a.0
        undone b/a!undo
        finish b/a
        save b/a.0
        finish b/a/c
        finish b/c
        fail b/c/b
        save b/c.0
        commit
        crash
        """,
    )


def test_the_time_of_a_graph_is_over_while_one_in_its_place_is_about_to_end():
    play_script(
        graph(
            "f kept; h kept f",
            returning={
                "f": [
                    graph("a kept; b kept,guarding a; fork0 kept,aside a", sink="b", returning={"b": [graph("c kept")]})
                ]
            },
        ),
        """
        finish f
        save f.0
        finish f/a
        finish f/b
        answer f~2/c for 2
        expire f/a at 1
        finish f/fork0
        lose f/fork0.0
        """,
    )


def test_who_is_tried_again_has_joined_nobody():
    play_script(
        graph(
            "b kept; c kept; h kept b c",
            returning={
                "b": [graph("c kept,asks; fork0 kept,aside", sink="c")],
                "c": [graph("a kept; e kept a", returning={"a": [None, graph("b kept")]})],
            },
        ),
        """
        finish b
        save b.0
        finish b/fork0
        save b/fork0.0
        finish c
        save c.0
        finish c/a joining b/fork0
        cancel
        save c/a.0
        carry out finish
        resume again c/a
        finish c/a as 1
        """,
    )


def test_what_stands_aside_is_not_tried_again_for_others_may_have_seen_it():
    play_script(
        graph(
            "a kept; c kept,parts=2 a; d kept a; g kept c d",
            returning={
                "a": [graph("d kept; e kept d", returning={"d": [graph("e kept; fork0 kept,aside", sink="e")]})],
                "d": [graph("a undoable; c kept; e kept a c")],
            },
        ),
        """
        finish a
        save a.0
        finish a/d
        save a/d.0
        finish a/d/fork0
        save a/d/fork0.0
        finish a/d/e
        save a/d/e.0
        finish a/e
        save a/e.0
        finish c joining a/d/fork0
        save c.1
        save c.0
        finish d
        save d.0
        finish d/c joining a/d/fork0
        save d/c.0
        answer d/a
        cancel
        undone d/a!undo
        carry out finish
        resume again c a/d/fork0
        """,
    )


def test_what_was_written_by_half_in_a_graph_that_has_ended_stays_ended():
    play_script(
        graph(
            "d kept; h default d",
            returning={"d": [graph("a kept; b kept a", returning={"a": [graph("a writer; b kept a")]})]},
        ),
        """
        finish d
        save d.0
        finish d/a holding new
        save d/a.0
        save d/a.1
        finish d/a/a holding new d/a.1
        save d/a/a.2
        expire d/a/b at 2
        lose d/a/a.0 d/a/a.1
        save d/a/b.0
        carry out start d/b
        crash
        """,
    )


def test_a_failure_in_a_graph_that_a_crash_took_concerns_the_transaction_around_it():
    play_script(
        graph(
            "b kept,transaction; c kept b",
            returning={
                "b": [
                    graph(
                        "b kept; c kept b",
                        returning={
                            "b": [
                                graph(
                                    "b undoable; child1 kept; c kept b child1",
                                    returning={"child1": [graph("a kept; e kept a")]},
                                )
                            ]
                        },
                    )
                ]
            },
        ),
        """
        finish b
        save b.0
        finish b/b
        save b/b.0
        finish b/b/b
        save b/b/b.0
        finish b/b/child1
        fail b/b/child1/a
        commit
        crash
        """,
    )


def test_the_time_of_a_graph_is_over_while_the_run_waits_for_a_person():
    play_script(
        graph(
            "a kept; g writer a",
            returning={
                "a": [
                    graph(
                        "b pure,saved; c pure,saved b; child0 kept b; fork0 kept,aside child0",
                        sink="c",
                        returning={"child0": [graph("b undoable")]},
                    )
                ]
            },
        ),
        """
        finish a
        save a.0
        finish a/b
        finish a/child0
        finish a/c
        finish g
        save a/child0.0
        save g.0
        commit
        crash
        undo a/child0/b!undo fails
        elapse a/child0/b
        undo a/child0/b!undo fails
        elapse a/child0/b
        undo a/child0/b!undo fails
        elapse a/child0/b
        undo a/child0/b!undo fails
        elapse a/child0/b
        undo a/child0/b!undo fails
        carry out park
        crash
        expire a/b at 1
        """,
    )


def test_a_graph_in_which_something_stood_aside_stays_ended():
    play_script(
        graph(
            "b kept; c kept; g kept b c",
            returning={
                "b": [graph("c kept; fork0 kept,aside", sink="c")],
                "c": [graph("a kept; child0 kept; fork0 kept,aside child0", sink="a")],
                "g": [graph("a kept; fork0 kept,aside", sink="a")],
            },
        ),
        """
        finish b
        finish c
        save c.0
        save b.0
        finish c/child0
        answer c/fork0 for 1
        save c/a.0
        commit
        crash
        finish b/fork0 joining c/fork0
        fail b/c
        save b/fork0.0
        carry out finish
        resume again c/a
        finish c/a
        finish b/c
        finish g
        save g.0
        finish g/fork0 joining b/fork0
        """,
    )


def test_what_is_made_of_a_graph_that_a_crash_took_may_be_another_one():
    """the result is handed out, but it is not saved (the judge kept a graph that its task does not return any more)"""
    returned = graph(
        "a pure,saved,parts=2; b pure,saved a", returning={"a": [graph("a kept,parts=2")], "b": [graph("c kept"), None]}
    )
    play_script(
        graph("e kept", returning={"e": [returned]}),
        """
        finish e
        save e.0
        finish e/a
        finish e/a/a
        finish e/b holding new
        save e/b.0
        commit
        crash
        finish e/a
        finish e/a/a
        finish e/b as 1
        """,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_who_reads_what_was_given_for_a_task_that_never_started_sees_what_was_written_above_it(validate):
    """run a/a/b#4294967302 does not see what a/a/a/a wrote"""
    inner = graph("a kept; b kept a", returning={"a": [graph("a writer; b default a")]})
    play_script(
        graph("a kept; b kept a", returning={"a": [graph("a kept; b kept a", returning={"a": [inner]})]}),
        """
        finish a
        finish a/a
        finish a/a/a
        save a.0
        save a/a.0
        save a/a/a.0
        finish a/a/a/a
        save a/a/a/a.0
        expire a/a/a/b at 3
        answer a/a/a/b!late
        """,
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_a_graph_is_judged_although_something_abandoned_has_joined_the_result_of_the_run(validate):
    """InvalidGraph: the sink 'c~2/b' is read by another node"""
    late = graph(
        "b undoable; c kept b; child0 kept b; fork0 kept,aside child0; fork1 kept,aside",
        sink="c",
        returning={"child0": [graph("a kept")]},
    )
    made = graph(
        "b kept,guarding; child0 kept; fork0 kept,aside child0",
        sink="b",
        returning={
            "b": [graph("a kept; b kept a; fork0 kept,aside", sink="b")],
            "child0": [
                graph("b kept,guarding; child0 kept; fork0 kept,aside child0", sink="b", returning={"child0": [late]}),
            ],
        },
    )
    play_script(
        graph("c kept", returning={"c": [made]}),
        """
        finish c
        save c.0
        finish c/child0
        save c/child0.0
        finish c/child0/child0
        finish c/b
        save c/b.0
        save c/child0/child0.0
        expire c~2/a at 1
        save c~2/b.0
        finish c/child0/child0/fork1 joining c~2/fork0
        """,
        validate=validate,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_what_is_made_again_for_an_undo_and_saved_meanwhile_is_not_made_again(validate):
    """IndexError: list index out of range"""
    play_script(
        graph("a kept; c pure,saved takes:a; g undoable c; y kept g; z kept y"),
        """
        finish a holding actor
        save a.0
        save a.1
        finish c large
        carry out start g
        lose c.0 running g
        end g!late
        fail c!private
        finish c large
        save c.0
        elapse c
        """,
        validate=validate,
    )


def test_a_graph_that_a_crash_took_was_done_if_somebody_who_waits_for_it_runs_meanwhile():
    """Found by the judge, and a mistake of his: run c (none) starts, but a/b is not done

    The only trace of what was done in it is dropped, but not before others have started after it.
    """
    play_script(
        graph(
            "a pure,saved; b kept a; c kept,asks after:a; d kept after:a; f kept b c d",
            returning={"a": [graph("a pure,saved; b pure,saved a")]},
        ),
        """
        finish a holding new
        finish a/a holding actor actor a.1
        finish a/b holding actor actor a/a.3 a.1
        finish b holding actor actor a/b.3 a/b.4
        save b.4
        commit
        crash
        finish a
        admit c
        """,
    )
