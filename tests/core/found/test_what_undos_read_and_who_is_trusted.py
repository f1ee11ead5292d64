"""Found by reading `core`: refs, forgotten graphs, records that outlive what they are about."""

import pytest

from onceflow.core.run import Run
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story


def test_what_was_expanded_and_dropped_without_a_save_is_trusted_again():
    """BrokenPromise: 'i' is irrevocable and has begun, but 'e', which it builds on, would have to run again"""
    play_script(
        graph("n kept; e pure,saved n; i default e", returning={"e": [graph("x kept"), None]}),
        """
        finish n
        finish e as 0
        lose n.0
        finish n
        save n.0
        finish e as 1
        land i
        commit
        crash
        """,
    )


def test_what_an_undo_reads_is_not_forgotten_when_its_graph_was_found_out_anew():
    """nothing is left to do, but the run is undoing"""
    play_script(
        graph("w kept; p pure; u undoable p; i default p w; s kept u i", returning={"p": [graph("x pure")]}),
        """
        finish p
        finish p/x large
        finish u
        save u.0
        commit
        crash
        finish w
        save w.0
        finish p
        finish p/x large
        finish i
        save i.0
        cancel with undo
        """,
    )


def test_who_is_rebuilt_for_an_undo_and_has_its_graph_again_keeps_no_turn():
    """nothing is left to do, but the run is running"""
    play_script(
        graph(
            "L kept; z kept L",
            returning={
                "L": [
                    graph(
                        "c1 kept,transaction,turn=1,limit=1; c2 kept,turn=9; s kept c1 c2",
                        returning={
                            "c1": [graph("e pure,turn=3; u undoable e; y kept u", returning={"e": [graph("x pure")]})]
                        },
                    )
                ]
            },
        ),
        """
        finish L
        save L.0
        finish L/c1
        save L/c1.0
        finish L/c1/e
        finish L/c1/e/x large
        finish L/c1/u
        save L/c1/u.0
        answer L/c1/y for 2
        commit
        crash
        expire L/c1/y at 2
        """,
    )


def test_what_was_rebuilt_for_undos_is_dropped_with_its_node():
    """undo u1 saw inputs {('p', 0): 1}, but takes back run u1, which saw {('p', 0): 2}"""
    play_script(
        graph(
            "n0 loose; n kept n0; p pure n; u1 undoable,retries=1 p; u3 undoable,retries=1; w kept; k kept n0 w; "
            "s kept u1 u3 k"
        ),
        """
        finish n0
        finish n
        save n.0
        finish p large
        land u3
        fail u3
        land u1
        lose p.0 running u1
        end u1!late
        finish p large
        undone u1!undo
        lose n0.0
        end u1!late
        undone u1!undo
        finish n0
        finish n
        save n.0
        finish p large
        land u1
        lose p.0 running u1
        end u1!late
        finish p!private
        undone u1!undo
        """,
    )


def test_a_run_that_waited_for_a_person_to_rebuild_something_does_not_wait_when_that_is_done():
    driver = Driver(graph("p pure; u undoable,retries=1 p; s kept u"), Run, "keep", True, Checker(), Story())
    asleep = []

    class Watching(Player):
        def _crash(self, words):
            super()._crash(words)
            asleep.append(driver.run.dormant)

    raising = ["fail p!private", "elapse p"] * 4 + ["fail p!private", "commit", "carry out park p"]
    Watching(driver).play(
        [
            *["finish p large", "land u", "lose p.0 running u", "end u!late"],
            *raising,
            *["crash", "resume", *raising, "retry p"],
            *["finish p!private", "undone u!undo", "finish p", "finish u", "save u.0", "commit", "crash"],
        ]
    )
    assert asleep == [True, False]


def test_who_returned_a_graph_is_trusted_again_when_what_was_handled_in_it_is_dropped():
    """BrokenPromise: 'i' is irrevocable and has begun, but 'e', which it builds on, would have to run again"""
    play_script(
        graph("e pure; i default e", returning={"e": [graph("x pure")]}),
        """
        finish e
        answer e/x
        lose e/x.0
        finish e/x
        land i
        commit
        crash
        """,
    )


@pytest.mark.parametrize("inner", [None, graph("x pure")])
def test_an_undo_after_a_crash_in_a_graph_that_has_ended_sees_what_its_attempt_saw(inner):
    """Undo(node='L/u') cannot see the inputs of run L/u"""
    play_script(
        graph(
            "L kept; z kept L",
            returning={"L": [graph("e pure; u undoable e; y kept u; v kept y", returning={"e": [inner]})]},
        ),
        """
        finish L
        save L.0
        finish L/e large
        finish L/e/x large
        finish L/u
        expire L/y at 1
        save L/v.0
        land z
        crash
        cancel with undo
        """,
    )


def test_what_a_crash_forgot_was_not_handled_and_a_graph_is_judged_without_it():
    """there is no node k/e/q: core lets a graph begin that the law refuses"""
    play_script(
        graph(
            "k pure; c kept k; i default c; s kept i k",
            returning={
                "k": [graph("h pure; e pure h; y pure e", returning={"e": [graph("x pure"), graph("q loose")]})]
            },
        ),
        """
        finish k
        finish k/h
        finish k/e as 0
        finish k/e/x
        answer k/y
        save k.0
        commit
        crash
        answer k/h
        finish k/e as 1
        """,
    )


def test_who_is_rebuilt_for_an_undo_while_it_runs_keeps_its_turn():
    """L/b runs, and it is not its turn"""
    play_script(
        graph(
            "L kept; z kept L",
            returning={
                "L": [
                    graph(
                        "b pure,turn=1,limit=1,asks; c kept,turn=2,asks b; d undoable,asks b; s kept c d",
                        returning={"b": [graph("x pure,asks,turn=5; y pure x")]},
                    )
                ]
            },
        ),
        """
        finish L
        save L.0
        admit L/b
        finish L/b
        admit L/b/x
        finish L/b/x large
        finish L/b/y large
        admit L/d
        commit
        crash
        admit L/b
        """,
    )
