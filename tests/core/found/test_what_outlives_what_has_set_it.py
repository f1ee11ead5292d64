"""Found by reading: what is kept in memory of what is over, was dropped, or is tried again."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_a_graph_that_has_ended_stays_closed_when_one_around_it_is_tried_again():
    """The recovery takes ('d/i/f', 'd/i/f/x', 'd/i/g', 'd/i/s'), which nothing requires."""
    inner = graph("f loose; g kept f; s kept g", returning={"f": [graph("x loose")]})
    outer = graph("i kept,guarding; y kept i", returning={"i": [inner]})
    play_script(
        graph("a loose; d kept a; z kept a d", returning={"d": [outer]}),
        """
        finish a
        finish d
        save d.0
        finish d/i
        save d/i.0
        finish d/i/f
        answer d/i/f/x
        answer d/i/g for 2
        save d/i/s.0
        lose d/i/f.0
        answer d/y for 1 again
        elapse d
        """,
    )


def test_a_graph_need_not_be_saved_any_more_when_what_was_handled_in_it_is_dropped():
    """The recovery takes ('f', 'f/x', 'g'), which nothing requires."""
    play_script(
        graph("f loose; g kept f; h kept g f", returning={"f": [graph("x loose")]}),
        """
        finish f
        answer f/x
        finish g
        save g.0
        lose f/x.0
        finish f/x
        finish g
        save g.0
        lose f.0
        """,
    )


def test_the_check_trusts_what_was_dropped_after_a_crash():
    """Refuse(node='q', UnsafeGraph), but the law allows that graph."""
    status = play_script(
        graph(
            "a loose; e pure; c kept e; q kept a; w kept a e; y kept e q c w",
            returning={"e": [graph("x pure")], "q": [None, graph("n default")]},
        ),
        """
        finish e
        answer e/x
        finish c
        save c.0
        commit
        crash
        finish a
        finish q as 1
        """,
    )
    assert status == "succeeded"


def test_whoever_waited_for_what_a_handler_gave_is_looked_at_again_when_that_is_dropped():
    """Nothing is left to do, but the run is running."""
    play_script(
        graph("p loose; x pure; q loose; c kept q p x; r kept q; n default c; z kept x n; s kept r z"),
        """
        finish p
        finish q
        answer x
        finish c
        save c.0
        lose x.0
        finish x
        finish c
        save c.0
        lose x.0
        finish x
        finish r
        save r.0
        """,
    )


IN_A_TRANSACTION = "i kept,guarding; y kept i"


def _transaction(inner):
    return graph(
        "d kept,transaction; z kept d",
        returning={"d": [graph("i kept,guarding; y kept i", returning={"i": [inner]})]},
    )


def test_a_graph_that_was_saved_in_part_is_saved_as_a_whole_after_one_around_it_has_not_ended():
    """Nothing is left to do, but the run is running."""
    play_script(
        _transaction(
            graph(
                "e pure; u undoable; k kept; g kept e; n default g; h kept e n; s kept u k h",
                returning={"e": [graph("x pure")]},
            )
        ),
        """
        finish d
        save d.0
        finish d/i
        save d/i.0
        finish d/i/e holding new
        finish d/i/u
        save d/i/u.0
        answer d/i/e/x
        save d/i/e.0
        answer d/i/k for 2
        save d/i/s.0
        answer d/y for 1 again
        undone d/i/u!undo
        elapse d
        """,
    )


def test_what_was_lost_in_part_when_its_graph_ended_is_not_saved_without_an_attempt():
    """Save(node='d/i/r', part=0, attempt=0) is about an attempt without output."""
    play_script(
        _transaction(graph("r pure,saved,parts=2; u undoable; k kept; g kept r; s kept u k g")),
        """
        finish d
        save d.0
        finish d/i
        save d/i.0
        finish d/i/r
        finish d/i/u
        save d/i/u.0
        lose d/i/r.1
        answer d/i/k for 2
        save d/i/s.0
        answer d/y for 1 again
        undone d/i/u!undo
        elapse d
        """,
    )


def test_what_was_abandoned_and_is_taken_back_is_doomed_after_a_crash():
    """d/i/r: quiet is kept as False, by definition it is True (validate mode only)."""
    play_script(
        _transaction(graph("r pure,saved,parts=2; u undoable; k kept; g kept r; s kept u k g")),
        """
        finish d
        save d.0
        finish d/i
        save d/i.0
        finish d/i/r
        finish d/i/u
        save d/i/u.0
        save d/i/r.0
        answer d/i/k for 2
        save d/i/s.0
        commit
        crash
        answer d/y for 1 again
        commit
        crash
        """,
    )
