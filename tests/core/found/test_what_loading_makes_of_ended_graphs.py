"""Found by reading how a run is loaded, and played under the judge."""

import pytest

from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("above", ["p pure; q pure p", "p pure; q kept p", "p loose; q kept p"])
@pytest.mark.parametrize("kind", ["default", "writer"])
def test_what_cannot_be_taken_back_in_an_ended_graph_is_not_dropped_with_the_transaction_after_a_crash(kind, above):
    """n has begun and would run again after q: p is not saved, and a load took it for abandoned, though n stood on it;
    so the transaction around dropped p, and all below."""
    ended = graph(f"u undoable; {above}; n {kind} q; w kept; s kept u n w")
    transaction = graph("e kept; f kept e", returning={"e": [ended]})
    play_script(
        graph("t kept,transaction; k kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/u
        save t/e/u.0
        finish t/e/p
        finish t/e/q
        save t/e/q.0
        finish t/e/n
        save t/e/n.0
        expire t/e/w at 2
        save t/e/s.0
        commit
        crash
        answer t/f for 1 again
        """,
    )


@pytest.mark.parametrize("loses", ["a crash", "a lost output"])
def test_failures_before_a_success_do_not_count_when_a_task_runs_again(loses):
    """After a crash it failed for good at its first failure, although it may be tried twice."""
    drive = Drive(graph("a pure,retries=1; b kept a; c kept; d kept a b c"))
    drive.begin()
    drive.raises("a")
    drive.elapse("a")
    drive.finish("a")
    drive.complete("b")
    if loses == "a crash":
        drive = drive.reload()
        drive.begin()
    else:
        drive.lose("a")
    assert "+failed a 1" in drive.raises("a")


def test_what_is_saved_in_part_in_an_ended_graph_starts_afresh_with_the_transaction_after_a_crash():
    """The judge: the recovery takes b, which nothing requires."""
    ended = graph("a undoable; b kept,parts=2; c kept; s kept a b c")
    transaction = graph("e kept; f kept e", returning={"e": [ended]})
    play_script(
        graph("t kept,transaction; k kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/e
        save t/e.0
        finish t/e/a
        save t/e/a.0
        finish t/e/b
        save t/e/b.1
        expire t/e/c at 2
        save t/e/s.0
        commit
        crash
        answer t/f for 1 again
        """,
    )
