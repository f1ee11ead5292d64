"""Found by reading `core`: what undos are given of outputs that are lost meanwhile."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("lost", ["u.0", "u.1", "u.1 running u!undo"])
def test_an_undo_that_is_tried_again_is_not_given_an_output_that_was_lost_meanwhile(lost):
    """undo u#… is to see the output of run u#…, of which part 1 is lost"""
    play_script(
        graph("a loose; b kept a; u undoable b; w kept; s kept a u w"),
        f"""
        finish a
        finish b
        save b.0
        finish u holding new
        lose a.0
        {"carry out undo u" if "running" in lost else "undo u!undo fails"}
        lose {lost}
        elapse u
        end u!undo!late
        """,
    )


def test_an_undo_that_waits_for_what_it_reads_is_not_given_an_output_that_was_lost_meanwhile():
    """undo u#… is to see the output of run u#…, of which part 0 is lost"""
    play_script(
        graph("a loose; b kept a; p pure b; u undoable p; w kept; s kept a u w"),
        """
        finish a
        finish b
        save b.0
        finish p large
        finish u
        lose a.0 p.0
        lose u.0
        finish p!private
        """,
    )


@pytest.mark.parametrize("lost", ["u.0", "u.1"])
def test_what_only_a_done_record_stands_for_is_not_given_to_an_undo_after_it_was_lost(lost):
    """undo u#… is to see the output of run u#…, of which part 1 is lost"""
    play_script(
        graph("u undoable,unsaved; s kept after:u"),
        f"""
        finish u holding new
        lose {lost}
        cancel with undo
        """,
    )


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize(
    ("tasks", "script"),
    [
        (
            "y pure; x pure takes:y; g undoable x; n default g; h undoable,retries=1; z kept n h",
            (
                "finish y holding actor / finish x large / carry out start g / lose x.0 running g / fail h / "
                "end g!late / finish y holding actor / finish x large / undone g!undo / finish g / save g.0 / finish n"
            ),
        ),
        (
            "x pure; g undoable x; n default g; h undoable,retries=1; z kept n h",
            (
                "finish x large / carry out start g / lose x.0 running g / end g!late / fail h / finish x large / "
                "undone g!undo / finish g / save g.0 / finish n / cancel"
            ),
        ),
    ],
)
def test_what_is_made_again_for_an_undo_ends_with_that_undo(tasks, script, validate):
    """IndexError: list index out of range; nothing is left to do, but the run is stopping"""
    play_script(graph(tasks), script.replace(" / ", "\n"), validate=validate)
